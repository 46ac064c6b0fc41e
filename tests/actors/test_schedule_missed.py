"""What becomes of the ticks that were due while nobody was awake, by policy and however many they are."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from clew.actors.schedule import Spec, after, cron, every
from clew.actors.schedule.commands import Missed
from clew.actors.schedule.ticks import COUNTED_MAX
from clew.actors.schedule.times import SECOND_NS
from clew.journal.facts.schedule import ScheduleFired, ScheduleSkipped
from tests.actors.agenda import START, Agenda, moment

YEAR_S = 365 * 86_400


@pytest.mark.scenario("SCH-06")
@pytest.mark.parametrize("restarted", [False, True], ids=["awake", "restarted"])
@pytest.mark.parametrize("spec", [every(10), cron("* * * * *")], ids=["every", "cron"])
@pytest.mark.parametrize(("missed", "number"), [("none", 0), ("coalesce", 1), ("all", 5)])
def test_after_a_long_sleep_the_policy_says_how_many_fire(
    spec: Spec, missed: Missed, number: int, *, restarted: bool
) -> None:
    agenda = Agenda(moment("2026-05-04 12:00"))
    agenda.set("tick", spec, missed=missed, missed_max=5)

    agenda.sleep(78 * 60 - 3)
    if restarted:
        agenda.restart()
    agenda.fire()

    assert len(agenda.fired("tick")) == number
    assert agenda.next_due == moment("2026-05-04 13:18")
    assert agenda.fire() == []


@pytest.mark.scenario("SCH-06")
def test_the_default_joins_what_was_missed_into_the_newest_tick() -> None:
    agenda = Agenda()
    agenda.set("tick", every(10))
    agenda.sleep(4683)

    newest = START + 4680 * SECOND_NS
    assert agenda.fire() == [ScheduleFired("tick", newest, newest + 10 * SECOND_NS, 467, agenda.now)]


@pytest.mark.scenario("SCH-06")
def test_with_all_the_newest_fire_in_order_and_those_before_are_skipped() -> None:
    agenda = Agenda()
    agenda.set("tick", every(10), missed="all", missed_max=3)
    agenda.sleep(65)

    def tick(number: int) -> int:
        return START + number * 10 * SECOND_NS

    assert agenda.fire() == [
        ScheduleSkipped("tick", tick(3), tick(4), "missed", 3, agenda.now),
        ScheduleFired("tick", tick(4), tick(5), 0, agenda.now),
        ScheduleFired("tick", tick(5), tick(6), 0, agenda.now),
        ScheduleFired("tick", tick(6), tick(7), 0, agenda.now),
    ]


def test_with_all_nothing_is_skipped_when_it_is_not_too_much() -> None:
    agenda = Agenda()
    agenda.set("tick", every(10), missed="all", missed_max=3)
    agenda.sleep(30)
    agenda.fire()

    assert (len(agenda.fired("tick")), agenda.skipped("tick")) == (3, [])


@pytest.mark.scenario("SCH-06")
@pytest.mark.parametrize(
    ("interval", "late", "fires"),
    [(10, 0, True), (10, 5, True), (10, 5.001, False), (3600, 60, True), (3600, 60.001, False)],
)
def test_with_none_the_newest_tick_fires_while_it_is_not_late(interval: float, late: float, *, fires: bool) -> None:
    agenda = Agenda()
    agenda.set("tick", every(interval), missed="none")
    agenda.sleep(3 * interval + late)

    agenda.fire()

    newest = START + round(3 * interval * SECOND_NS)
    assert agenda.fired("tick") == ([newest] if fires else [])
    assert agenda.skipped("tick") == ([("missed", 2)] if fires else [("missed", 3)])


def test_with_none_a_one_shot_that_is_over_a_minute_late_is_skipped_and_over() -> None:
    agenda = Agenda()
    agenda.set("t", after(5), missed="none")
    agenda.sleep(66)

    assert agenda.fire() == [ScheduleSkipped("t", START + 5 * SECOND_NS, None, "missed", 1, agenda.now)]
    assert agenda.schedules.active == {}


@pytest.mark.scenario("SCH-06")
def test_a_late_tick_does_not_move_the_others() -> None:
    agenda = Agenda()
    agenda.set("tick", every(10))
    for late in (0.5, 9.9, 3.25, 0.001):
        agenda.sleep(10 + late)
        agenda.fire()

    assert {(tick - START) % (10 * SECOND_NS) for tick in agenda.fired("tick")} == {0}


@pytest.mark.scenario("SCH-06")
def test_a_year_of_seconds_is_reckoned_and_not_walked() -> None:
    agenda = Agenda()
    agenda.set("tick", every(0.001))
    agenda.sleep(YEAR_S)

    [fired] = agenda.fire()

    assert isinstance(fired, ScheduleFired)
    assert (fired.due, fired.missed) == (agenda.now, YEAR_S * 1000 - 1)


@pytest.mark.scenario("SCH-06")
@pytest.mark.parametrize("missed", ["coalesce", "all"])
def test_of_years_of_minutes_the_newest_are_found_without_counting_them_all(missed: Missed) -> None:
    agenda = Agenda(moment("2016-01-01 00:00"))
    agenda.set("tick", cron("* 9-17 * * MON-FRI", tz="Europe/London"), missed=missed, missed_max=3)
    agenda.now = moment("2026-05-02 12:34")  # a Saturday

    agenda.fire()

    fridays = [moment(f"2026-05-01 17:{minute}", "Europe/London") for minute in (57, 58, 59)]
    assert agenda.fired("tick") == (fridays if missed == "all" else fridays[-1:])
    assert agenda.next_due == moment("2026-05-04 09:00", "Europe/London")
    counted = [getattr(event, "missed", 0) + getattr(event, "count", 0) for event in agenda.events[1:]]
    assert COUNTED_MAX <= sum(counted) <= COUNTED_MAX + 1


@pytest.mark.scenario("SCH-06")
@pytest.mark.parametrize(("missed", "keep"), [("coalesce", 1), ("all", 1), ("all", 7), ("all", 100)])
@pytest.mark.parametrize("minutes", [199, 200, 201, 202, 300, 5000])
def test_the_ticks_that_are_found_are_those_that_counting_would_find(missed: Missed, keep: int, minutes: int) -> None:
    agenda = Agenda(moment("2026-05-04 12:00"))
    agenda.set("tick", cron("* * * * *"), missed=missed, missed_max=keep)
    agenda.sleep(minutes * 60 + 30)

    agenda.fire()

    last = moment("2026-05-04 12:00") + minutes * 60 * SECOND_NS
    assert agenda.fired("tick") == [last - back * 60 * SECOND_NS for back in reversed(range(keep))]


@pytest.mark.scenario("SCH-10")
@pytest.mark.parametrize(
    ("spec", "missed", "busy", "asleep"),
    [
        *itertools.product(
            [every(7), every(0.001), cron("*/7 * * * *", tz="Australia/Lord_Howe"), cron("0 0 29 2 *")],
            ["coalesce", "all", "none"],
            [False, True],
            [1, 3600, 40 * YEAR_S],
        )
    ],
)
def test_the_next_tick_lies_ahead_whatever_happened(spec: Spec, missed: Any, asleep: float, *, busy: bool) -> None:
    agenda = Agenda()
    agenda.set("t", spec, missed=missed)

    agenda.sleep(asleep)
    agenda.fire(busy=busy)

    assert agenda.next_due > agenda.now
