"""What becomes of a wish about a schedule: set, set again, changed, refused, listed."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from clew.actors import CommandRejected
from clew.actors.errors import InvalidSchedule, TooManySchedules
from clew.actors.schedule import (
    Cron,
    Schedules,
    SetSchedule,
    Spec,
    after,
    at,
    cron,
    due,
    every,
    evolve,
    list_schedules,
    set_schedule,
)
from clew.actors.schedule.decide import ACTION_BYTES_MAX
from clew.actors.schedule.times import SECOND_NS
from clew.actors.state_codec import StateCodec
from clew.journal.facts.schedule import (
    ScheduleSet,
)
from tests.actors.agenda import START, Agenda, moment
from tests.actors.story import raw


def test_a_schedule_is_set_with_its_first_tick() -> None:
    agenda = Agenda()

    [event] = agenda.set("t", every(30), {"run": "sweep"}, overlap="queue", missed="all", missed_max=5)

    spec = raw({"kind": "every", "interval_ns": 30 * SECOND_NS, "start_ns": None})
    expected = ScheduleSet("t", spec, raw({"run": "sweep"}), "queue", "all", 5, START + 30 * SECOND_NS, START)
    assert event == expected
    assert due(agenda.schedules) == START + 30 * SECOND_NS


@pytest.mark.parametrize("spec", [every(30), after(60), at(START), cron("0 6 * * *", tz="Europe/London")])
def test_a_schedule_set_again_just_so_changes_nothing(spec: Spec) -> None:
    agenda = Agenda()
    agenda.set("t", spec)
    agenda.sleep(7)

    assert agenda.set("t", spec) == []


def test_the_first_tick_of_each_spec() -> None:
    now, start = moment("2027-01-15 08:00"), moment("2027-01-15 07:59:50")
    agenda = Agenda(now)
    for name, spec in {
        "past": at(now - 1),
        "future": at(now + 5),
        "at once": after(0),
        "later": after(1.5),
        "interval": every(30),
        "phase": every(30, start=start),
        "not yet": every(30, start=now + 40 * SECOND_NS),
        "calendar": cron("0 8 * * *"),
    }.items():
        agenda.set(name, spec)

    first = {name: schedule.next_due - now for name, schedule in agenda.schedules.active.items()}

    assert first == {
        "past": -1,
        "future": 5,
        "at once": 0,
        "later": 1_500_000_000,
        "interval": 30 * SECOND_NS,
        "phase": 20 * SECOND_NS,
        "not yet": 40 * SECOND_NS,
        "calendar": 86_400 * SECOND_NS,
    }


def test_a_changed_spec_takes_the_place_of_the_other() -> None:
    agenda = Agenda()
    agenda.set("t", every(30))
    agenda.sleep(10)

    [event] = agenda.set("t", every(60))

    assert isinstance(event, ScheduleSet)
    assert event.next_due == START + 70 * SECOND_NS
    assert len(agenda.schedules.active) == 1


@pytest.mark.parametrize(
    "changed",
    [{"action": "other"}, {"overlap": "queue"}, {"missed": "all"}, {"missed_max": 3}],
    ids=lambda changed: next(iter(changed)),
)
@pytest.mark.parametrize("spec", [every(30), after(30), cron("*/5 * * * *")], ids=lambda spec: type(spec).__name__)
def test_where_only_the_action_or_a_policy_differs_the_ticks_stay_where_they_are(
    spec: Spec, changed: dict[str, Any]
) -> None:
    agenda = Agenda()
    agenda.set("t", spec)
    next_due = agenda.next_due
    agenda.sleep(1000)

    [event] = agenda.set("t", spec, **changed)

    assert isinstance(event, ScheduleSet)
    assert event.next_due == next_due


@pytest.mark.parametrize("name", ["", " ", "x" * 129, "a\nb", "a\0", "\ud800", None, 5])
def test_a_name_that_is_not_printable_text_is_refused(name: Any) -> None:
    with pytest.raises(InvalidSchedule, match="a name is printable text, at most 128 characters"):
        Agenda().set(name, every(30))


@pytest.mark.parametrize(
    "wrong",
    [
        {"overlap": "maybe"},
        {"overlap": None},
        {"missed": "some"},
        {"missed_max": 0},
        {"missed_max": 101},
        {"missed_max": True},
        {"missed_max": 2.5},
    ],
    ids=str,
)
def test_a_policy_that_does_not_exist_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule, match=f"schedule 't': {next(iter(wrong))} is "):
        Agenda().set("t", every(30), **wrong)


def test_an_action_has_a_largest_size() -> None:
    agenda = Agenda()
    agenda.set("fits", every(30), "x" * (ACTION_BYTES_MAX - 2))

    with pytest.raises(InvalidSchedule, match=f"its action has {ACTION_BYTES_MAX + 1} bytes"):
        agenda.set("t", every(30), "x" * (ACTION_BYTES_MAX - 1))


def test_an_actor_takes_so_many_schedules_and_a_set_one_can_still_be_changed() -> None:
    schedules = Agenda()
    for name in "ab":
        schedules.set(name, every(30))

    with pytest.raises(TooManySchedules, match="schedule 'c': there are 2 already") as refused:
        set_schedule(schedules.schedules, SetSchedule("c", every(30), raw(1), START), schedules_max=2)

    assert isinstance(refused.value, CommandRejected)
    assert (refused.value.schedule, refused.value.schedules_max) == ("c", 2)
    assert set_schedule(schedules.schedules, SetSchedule("b", every(60), raw(1), START), schedules_max=2)


def test_a_thousand_schedules_are_the_most_unless_said_otherwise() -> None:
    agenda = Agenda()
    for number in range(1000):
        agenda.set(f"t{number}", after(60))

    with pytest.raises(TooManySchedules):
        agenda.set("one more", after(60))


def test_schedules_are_kept_in_snapshots_exactly() -> None:
    agenda = Agenda()
    for name, spec in {"at": at(START), "after": after(60), "every": every(30), "cron": cron("0 6 * * *")}.items():
        agenda.set(name, spec, {"nested": [1, 2.5, None]})
    agenda.fire()
    agenda.pause("every")
    codec = StateCodec[Schedules]("agenda", Schedules)

    back = codec.decode(codec.encode(agenda.schedules))

    assert back == agenda.schedules
    assert isinstance(back.active["cron"].spec, Cron)


def test_an_action_does_not_keep_the_bytes_alive_that_it_was_read_from() -> None:
    event = ScheduleSet("t", raw({"kind": "after", "delay_ns": 1}), raw({"do": 1}), "skip", "coalesce", 1, 1, 0)
    page = msgspec.json.encode(event)
    referrers = sys.getrefcount(page)

    schedules = evolve(Schedules(), msgspec.json.decode(page, type=ScheduleSet))

    assert schedules.active["t"].action == raw({"do": 1})
    assert sys.getrefcount(page) == referrers


def test_a_listing_says_what_there_is_and_when_it_is_due() -> None:
    agenda = Agenda()
    agenda.set("done", after(1))
    agenda.set("sweep", every(30), {"run": "sweep"})
    agenda.set("resting", every(10))
    agenda.set("digest", cron("0 22 * * *", tz="America/Santiago"))
    agenda.advance(31)
    agenda.pause("resting")

    views = list_schedules(agenda.schedules)

    listed = [(view.name, view.when, view.next_due, view.paused, view.last_fired) for view in views]
    assert listed == [
        ("sweep", "every 30 s", START + 60 * SECOND_NS, False, START + 30 * SECOND_NS),
        ("digest", "cron 0 22 * * *, America/Santiago", moment("2027-01-15 22:00", "America/Santiago"), False, None),
        ("resting", "every 10 s", None, True, START + 30 * SECOND_NS),
    ]
    assert views[0].action == raw({"run": "sweep"})
