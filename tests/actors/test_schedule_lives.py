"""The life of a schedule: paused, resumed, cancelled, over, and set anew."""

from __future__ import annotations

import pytest

from clew.actors import CommandRejected
from clew.actors.errors import UnknownSchedule
from clew.actors.schedule import (
    After,
    Spec,
    after,
    at,
    cron,
    due,
    every,
)
from clew.actors.schedule.state import ENDED_MAX
from clew.actors.schedule.times import SECOND_NS
from clew.journal.facts.schedule import (
    ScheduleCancelled,
    SchedulePaused,
    ScheduleResumed,
)
from tests.actors.agenda import START, Agenda, moment


def test_a_paused_schedule_is_not_due_and_goes_on_in_its_phase() -> None:
    agenda = Agenda()
    agenda.set("t", every(30))

    assert agenda.pause("t") == [SchedulePaused("t", START)]
    assert agenda.pause("t") == []
    agenda.advance(100)
    assert (due(agenda.schedules), agenda.fire()) == (None, [])
    assert agenda.resume("t") == [ScheduleResumed("t", START + 120 * SECOND_NS, agenda.now)]
    assert agenda.resume("t") == []
    agenda.advance(60)

    assert agenda.fired("t") == [START + 120 * SECOND_NS, START + 150 * SECOND_NS]


def test_a_cron_schedule_goes_on_with_its_next_tick_after_a_pause() -> None:
    agenda = Agenda(moment("2027-01-15 08:00"))
    agenda.set("t", cron("0 9 * * *", tz="Europe/London"))
    agenda.pause("t")
    agenda.advance(3 * 86_400 + 7200)

    agenda.resume("t")

    assert agenda.next_due == moment("2027-01-19 09:00", "Europe/London")


def test_a_one_shot_that_was_paused_over_its_time_fires_once_when_it_is_resumed() -> None:
    agenda = Agenda()
    agenda.set("t", after(60))
    agenda.pause("t")
    agenda.advance(600)
    agenda.resume("t")

    agenda.fire()
    agenda.advance(600)

    assert agenda.fired("t") == [START + 60 * SECOND_NS]


def test_a_paused_schedule_that_is_changed_stays_paused() -> None:
    agenda = Agenda()
    agenda.set("t", every(30))
    agenda.pause("t")

    agenda.set("t", every(60))

    assert due(agenda.schedules) is None
    assert agenda.schedules.active["t"].spec == every(60)


def test_a_paused_schedule_that_is_set_again_just_so_stays_paused() -> None:
    agenda = Agenda()
    agenda.set("t", every(30))
    agenda.pause("t")

    assert agenda.set("t", every(30)) == []


def test_a_cancelled_schedule_is_never_due_and_can_be_set_anew() -> None:
    agenda = Agenda()
    agenda.set("t", every(30))
    agenda.advance(30)

    assert agenda.cancel("t") == [ScheduleCancelled("t", "enough", agenda.now)]
    assert agenda.cancel("t") == []
    assert due(agenda.schedules) is None
    agenda.advance(60)
    agenda.set("t", every(30))

    assert agenda.next_due == agenda.now + 30 * SECOND_NS


@pytest.mark.parametrize("spec", [every(60), cron("* * * * *")], ids=["every", "cron"])
def test_a_schedule_resumed_after_the_clock_was_set_back_does_not_repeat_its_ticks(spec: Spec) -> None:
    agenda = Agenda()
    agenda.set("t", spec)
    agenda.advance(180)
    agenda.pause("t")
    agenda.sleep(-150)
    agenda.resume("t")

    agenda.advance(300)

    ticks = agenda.fired("t")
    assert ticks == sorted(set(ticks))
    assert len(ticks) == 5


def test_a_time_that_was_cancelled_before_it_came_can_be_set_anew_and_fires_once() -> None:
    agenda = Agenda()
    time = at(START + 60 * SECOND_NS)
    agenda.set("t", time)
    agenda.cancel("t")

    agenda.set("t", time)
    agenda.advance(600)

    assert agenda.fired("t") == [START + 60 * SECOND_NS]


def test_a_schedule_that_never_fired_can_be_cancelled_twice() -> None:
    agenda = Agenda()
    agenda.set("t", every(30))

    assert len(agenda.cancel("t")) == 1
    assert agenda.cancel("t") == []


def test_a_schedule_set_anew_is_not_paused_because_the_one_before_was() -> None:
    agenda = Agenda()
    agenda.set("t", every(30))
    agenda.pause("t")
    agenda.cancel("t")

    agenda.set("t", every(30))

    assert agenda.next_due == START + 30 * SECOND_NS


@pytest.mark.parametrize("wish", ["pause", "resume", "cancel"])
def test_what_is_about_a_schedule_that_does_not_exist_is_refused(wish: str) -> None:
    with pytest.raises(UnknownSchedule, match="there is no schedule 'x'") as refused:
        getattr(Agenda(), wish)("x")

    assert isinstance(refused.value, CommandRejected)
    assert refused.value.schedule == "x"


@pytest.mark.parametrize("wish", ["pause", "resume"])
def test_a_schedule_that_is_over_can_be_neither_paused_nor_resumed(wish: str) -> None:
    agenda = Agenda()
    agenda.set("t", after(60))
    agenda.advance(60)

    with pytest.raises(UnknownSchedule):
        getattr(agenda, wish)("t")
    assert agenda.cancel("t") == []


def test_a_time_that_has_fired_does_not_fire_again_however_often_it_is_set() -> None:
    agenda = Agenda()
    time = at(START + 60 * SECOND_NS)
    agenda.set("t", time)
    agenda.advance(60)

    for action in ("tick", "edited"):
        agenda.restart()
        agenda.advance(60)
        assert agenda.set("t", time, action) == []

    assert agenda.fired("t") == [START + 60 * SECOND_NS]


def test_another_time_or_a_delay_can_be_set_anew_when_the_one_before_is_over() -> None:
    agenda = Agenda()
    agenda.set("time", at(START + 60 * SECOND_NS))
    agenda.set("delay", after(60))
    agenda.advance(60)

    agenda.set("time", at(START + 120 * SECOND_NS))
    agenda.set("delay", after(60))
    agenda.advance(60)

    twice = [START + 60 * SECOND_NS, START + 120 * SECOND_NS]
    assert (agenda.fired("time"), agenda.fired("delay")) == (twice, twice)


@pytest.mark.parametrize("spec", [after(60), every(60), cron("* * * * *")], ids=lambda spec: type(spec).__name__)
def test_a_clock_that_was_set_back_gives_no_tick_of_a_name_again(spec: Spec) -> None:
    agenda = Agenda()
    agenda.set("t", spec)
    agenda.advance(60)

    for _ in range(3):
        if not isinstance(spec, After):
            agenda.cancel("t")
        agenda.sleep(-60)
        agenda.set("t", spec)
        agenda.advance(120)

    ticks = agenda.fired("t")
    assert ticks == sorted(set(ticks))
    assert len(ticks) >= 4


def test_the_names_that_are_over_are_forgotten_at_last() -> None:
    agenda = Agenda()
    for number in range(ENDED_MAX + 5):
        agenda.set(f"t{number}", at(agenda.now))
        agenda.fire()

    assert [*agenda.schedules.ended][:: ENDED_MAX - 1] == ["t5", f"t{ENDED_MAX + 4}"]
    assert len(agenda.schedules.ended) == ENDED_MAX
