"""What becomes of the schedules that are due: in time, while the last run goes on, after a restart."""

from __future__ import annotations

import pytest

from clew.actors.schedule import Spec, after, at, cron, due, every, fire
from clew.actors.schedule.commands import Overlap
from clew.actors.schedule.firing import FIRED_MAX
from clew.actors.schedule.times import SECOND_NS
from clew.journal.facts.schedule import ScheduleCancelled, ScheduleFired, ScheduleSet, ScheduleSkipped
from tests.actors.agenda import START, Agenda, moment
from tests.actors.story import raw

YEAR_S = 365 * 86_400


def test_a_tick_fires_when_it_is_due_and_says_when_the_next_one_is() -> None:
    agenda = Agenda()
    agenda.set("t", every(30))
    agenda.sleep(29.999)
    assert agenda.fire() == []

    agenda.sleep(0.001)

    assert agenda.fire() == [ScheduleFired("t", agenda.now, agenda.now + 30 * SECOND_NS, 0, agenda.now)]
    assert agenda.fire() == []


@pytest.mark.parametrize("spec", [at(START + 5 * SECOND_NS), after(5)], ids=lambda spec: type(spec).__name__)
def test_a_one_shot_fires_once_and_is_over(spec: Spec) -> None:
    agenda = Agenda()
    agenda.set("t", spec)
    agenda.sleep(3600)

    assert agenda.fire() == [ScheduleFired("t", START + 5 * SECOND_NS, None, 0, agenda.now)]
    assert (agenda.fire(), due(agenda.schedules), agenda.schedules.active) == ([], None, {})


def test_a_time_that_has_passed_when_it_is_set_fires_at_once() -> None:
    agenda = Agenda()
    agenda.set("t", at(START - 5))

    assert agenda.fire() == [ScheduleFired("t", START - 5, None, 0, START)]


@pytest.mark.scenario("SCH-01")
def test_a_schedule_declared_at_every_start_fires_once_a_period() -> None:
    agenda = Agenda()
    for _ in range(20):
        agenda.restart()
        agenda.set("tick", every(30))

    agenda.advance(60)

    assert agenda.fired("tick") == [START + 30 * SECOND_NS, START + 60 * SECOND_NS]
    assert [*agenda.schedules.active] == ["tick"]
    assert [type(event) for event in agenda.events].count(ScheduleSet) == 1


@pytest.mark.scenario("SCH-01")
def test_restarts_in_the_middle_of_a_period_do_not_put_it_off() -> None:
    agenda = Agenda()
    for _ in range(20):
        agenda.restart()
        agenda.set("tick", every(30))
        agenda.advance(20)

    assert len(agenda.fired("tick")) == 400 // 30


@pytest.mark.scenario("SCH-03")
def test_one_shots_declared_over_many_crashes_fire_once_and_are_gone() -> None:
    agenda = Agenda()
    for _ in range(200):
        agenda.restart()
        agenda.set("m", after(60))
        agenda.sleep(0.1)

    agenda.sleep(61)
    agenda.fire()
    agenda.restart()
    agenda.fire()

    assert len(agenda.fired("m")) == 1
    assert agenda.schedules.active == {}


@pytest.mark.scenario("SCH-03")
def test_one_wake_fires_about_so_many_and_the_rest_is_still_due() -> None:
    agenda = Agenda()
    for number in range(60):
        agenda.set(f"t{number:02}", every(1), missed="all", missed_max=100)
    agenda.sleep(100)

    wakes = [len(agenda.fire()) for _ in range(8)]

    assert FIRED_MAX == 1000
    assert wakes == [1000, 1000, 1000, 1000, 1000, 1000, 0, 0]
    assert agenda.next_due == agenda.now + SECOND_NS


@pytest.mark.scenario("SCH-03")
def test_a_limit_below_what_one_schedule_has_to_say_still_goes_forward() -> None:
    agenda = Agenda()
    agenda.set("a", every(10), missed="all")
    agenda.set("b", every(20), missed="all")
    agenda.sleep(100)

    first = agenda.take(fire(agenda.schedules, agenda.now, busy=False, events_max=1))
    second = agenda.take(fire(agenda.schedules, agenda.now, busy=False, events_max=1))

    assert [{event.name for event in events} for events in (first, second)] == [{"a"}, {"b"}]
    assert fire(agenda.schedules, agenda.now, busy=False, events_max=1) == []


@pytest.mark.scenario("SCH-04")
def test_a_restart_after_todays_tick_does_not_fire_it_again() -> None:
    zone = "America/Santiago"
    agenda = Agenda(moment("2026-05-04 12:00", zone))
    agenda.set("digest", cron("0 22 * * *", tz=zone), missed="all")
    agenda.advance_to(moment("2026-05-04 22:00", zone))
    agenda.advance_to(moment("2026-05-04 22:30", zone))

    agenda.restart()
    agenda.set("digest", cron("0 22 * * *", tz=zone), missed="all")
    agenda.advance_to(moment("2026-05-04 23:59", zone))

    assert agenda.fired("digest") == [moment("2026-05-04 22:00", zone)]


@pytest.mark.parametrize("spec", [every(30), cron("* * * * *")], ids=["every", "cron"])
def test_while_the_last_run_goes_on_the_ticks_are_skipped(spec: Spec) -> None:
    agenda = Agenda(moment("2026-05-04 12:00"))
    agenda.set("t", spec)
    agenda.sleep(60)

    [skipped] = agenda.fire(busy=True)

    assert isinstance(skipped, ScheduleSkipped)
    assert (skipped.reason, skipped.due) == ("overlap", moment("2026-05-04 12:01"))
    assert agenda.fire(busy=False) == []
    agenda.advance(60)
    assert agenda.fired("t")[-1] == moment("2026-05-04 12:02")


def test_an_overlap_skips_all_that_is_due_at_once_and_counts_it() -> None:
    agenda = Agenda()
    agenda.set("t", every(10), missed="all", missed_max=2)
    agenda.sleep(75)

    agenda.fire(busy=True)

    assert (agenda.skipped("t"), agenda.fired("t")) == ([("overlap", 7)], [])


@pytest.mark.parametrize("overlap", ["queue", "replace"])
def test_the_other_overlap_policies_fire_while_the_last_run_goes_on(overlap: Overlap) -> None:
    agenda = Agenda()
    agenda.set("t", every(30), overlap=overlap)
    agenda.sleep(30)

    agenda.fire(busy=True)

    assert len(agenda.fired("t")) == 1


def test_a_one_shot_is_not_lost_because_something_runs() -> None:
    agenda = Agenda()
    agenda.set("t", after(30))
    agenda.sleep(30)

    agenda.fire(busy=True)

    assert len(agenda.fired("t")) == 1


def test_each_schedule_is_asked_for_by_name_whether_it_is_busy() -> None:
    agenda = Agenda()
    for name in ("free", "busy"):
        agenda.set(name, every(30))
    agenda.sleep(30)

    agenda.fire(busy="busy".__eq__)

    assert (len(agenda.fired("free")), len(agenda.fired("busy"))) == (1, 0)


def test_what_is_due_first_fires_first() -> None:
    agenda = Agenda()
    for name, seconds in {"c": 1, "a": 3, "b": 2}.items():
        agenda.set(name, after(seconds))
    agenda.sleep(5)

    assert [event.name for event in agenda.fire()] == ["c", "b", "a"]


def test_a_clock_that_steps_back_fires_nothing_twice() -> None:
    agenda = Agenda()
    agenda.set("tick", every(10))
    agenda.advance(60)
    agenda.sleep(-45)

    assert agenda.fire() == []
    agenda.advance(45 + 10)

    assert len(agenda.fired("tick")) == len(set(agenda.fired("tick"))) == 7


@pytest.mark.scenario("SCH-10")
def test_a_schedule_whose_zone_is_gone_is_cancelled_and_holds_nothing_up() -> None:
    agenda = Agenda()
    spec = raw({"kind": "cron", "expression": "0 6 * * *", "zone": "Mars/Phobos"})
    agenda.take([ScheduleSet("gone", spec, raw(1), "skip", "coalesce", 10, START, START)])
    agenda.set("t", at(START))

    gone, fired = agenda.fire()

    assert isinstance(gone, ScheduleCancelled)
    assert "Mars/Phobos" in gone.reason
    assert isinstance(fired, ScheduleFired)
    assert due(agenda.schedules) is None
