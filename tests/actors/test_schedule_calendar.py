"""Schedules by the calendar, over the days on which the clocks change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.actors.schedule import cron
from clew.actors.schedule.times import SECOND_NS, cron_ticks
from tests.actors.agenda import Agenda, local, moment

NEW_YORK = "America/New_York"


def times_between(expression: str, zone: str, start: str, end: str) -> list[str]:
    """When it fires, by the clock on the wall, for somebody who is awake all the time."""
    agenda = Agenda(moment(start, zone))
    agenda.set("t", cron(expression, tz=zone), missed="all")
    agenda.advance_to(moment(end, zone))
    return [f"{local(tick, zone):%m-%d %H:%M}" for tick in agenda.fired("t")]


@pytest.mark.scenario("SCH-07")
@pytest.mark.parametrize("time", ["30 2", "30 1", "0 2", "59 2", "0 3", "0 0"])
@pytest.mark.parametrize(("start", "end"), [("2026-03-07", "2026-03-11"), ("2026-10-31", "2026-11-04")])
def test_a_job_at_a_fixed_time_fires_once_a_day_each_day(time: str, start: str, end: str) -> None:
    times = times_between(f"{time} * * *", NEW_YORK, f"{start} 00:00", f"{end} 00:00")

    days = Counter(when.split()[0] for when in times if when != f"{end[5:]} 00:00")
    first = [day for day in days if day != start[5:]]
    assert len(first) == 3
    assert set(days.values()) == {1}


@pytest.mark.scenario("SCH-07")
def test_what_is_left_out_in_spring_fires_right_after() -> None:
    times = times_between("30 2 * * *", NEW_YORK, "2026-03-07 00:00", "2026-03-10 00:00")

    assert times == ["03-07 02:30", "03-08 03:00", "03-09 02:30"]


@pytest.mark.scenario("SCH-07")
def test_what_comes_twice_in_autumn_fires_the_first_time() -> None:
    agenda = Agenda(moment("2026-10-31 00:00", NEW_YORK))
    agenda.set("t", cron("30 1 * * *", tz=NEW_YORK))

    agenda.advance_to(moment("2026-11-03 00:00", NEW_YORK))

    assert agenda.fired("t") == [moment("2026-10-31 05:30"), moment("2026-11-01 05:30"), moment("2026-11-02 06:30")]


@pytest.mark.scenario("SCH-07")
def test_a_schedule_made_or_woken_in_the_repeated_hour_does_not_fire_again_in_it() -> None:
    within = moment("2026-11-01 06:15")  # 01:15 for the second time
    fresh, woken = Agenda(within), Agenda(moment("2026-10-31 12:00"))
    woken.set("t", cron("30 1 * * *", tz=NEW_YORK))
    woken.now = within
    woken.fire()

    fresh.set("t", cron("30 1 * * *", tz=NEW_YORK))

    assert woken.fired("t") == [moment("2026-11-01 05:30")]
    assert fresh.next_due == woken.next_due == moment("2026-11-02 06:30")


@pytest.mark.scenario("SCH-07")
def test_jobs_for_every_hour_go_by_the_time_that_really_passes() -> None:
    autumn = times_between("0 * * * *", NEW_YORK, "2026-11-01 00:30", "2026-11-01 03:30")
    spring = times_between("0 * * * *", NEW_YORK, "2026-03-08 00:30", "2026-03-08 04:30")

    assert autumn == ["11-01 01:00", "11-01 01:00", "11-01 02:00", "11-01 03:00"]
    assert spring == ["03-08 01:00", "03-08 03:00", "03-08 04:00"]


@pytest.mark.scenario("SCH-16")
def test_restarts_over_a_clock_change_never_double_a_job() -> None:
    zone = "Europe/London"
    agenda = Agenda(moment("2026-10-24 00:00", zone))
    for _ in range(14):
        agenda.restart()
        agenda.set("a", cron("0 6 * * *", tz=zone), missed="all")
        agenda.advance(7 * 3600)

    assert agenda.now >= moment("2026-10-28 00:00", zone)
    assert [f"{local(tick, zone):%d %H:%M}" for tick in agenda.fired("a")] == [
        "24 06:00",
        "25 06:00",
        "26 06:00",
        "27 06:00",
    ]


@pytest.mark.scenario("SCH-16")
def test_another_zone_replaces_the_schedule_and_fires_no_tick_again() -> None:
    agenda = Agenda(moment("2026-10-24 00:00", "Europe/London"))
    agenda.set("a", cron("0 6 * * *", tz="Europe/London"))
    agenda.advance_to(moment("2026-10-28 00:00", "Europe/London"))

    agenda.set("a", cron("0 6 * * *", tz="Europe/Paris"))
    agenda.advance_to(moment("2026-10-30 00:00", "Europe/Paris"))

    assert [*agenda.schedules.active] == ["a"]
    paris = [f"{local(tick, 'Europe/Paris'):%d %H:%M}" for tick in agenda.fired("a")[4:]]
    assert paris == ["28 06:00", "29 06:00"]


@pytest.mark.scenario("SCH-16")
def test_a_schedule_that_is_over_can_be_set_anew_under_its_name() -> None:
    agenda = Agenda(moment("2026-10-24 00:00"))
    agenda.set("a", cron("0 6 * * *"))
    agenda.advance(86_400)
    agenda.cancel("a")
    agenda.advance(86_400)

    agenda.set("a", cron("0 6 * * *"))
    agenda.advance(86_400)

    assert [f"{local(tick):%d %H:%M}" for tick in agenda.fired("a")] == ["24 06:00", "26 06:00"]


minutes = st.sampled_from(["0", "30", "15,45", "*", "*/20", "59"])
hours = st.sampled_from(["*", "0", "1", "2", "3", "1-3", "0,2", "*/2", "23"])
days = st.sampled_from(["* * *", "* * 0", "1-7 * *", "25 10 *", "* 3,4,9,10,11 *", "*/2 * SUN"])
# Zones whose clocks change at midnight, by half an hour, by two hours, by a whole day, or around Ramadan.
CHANGES = {
    "America/New_York": ["2026-03-08", "2026-11-01"],
    "Australia/Lord_Howe": ["2026-04-05", "2026-10-04"],
    "Africa/Cairo": ["2026-04-24", "2026-10-30"],
    "America/Santiago": ["2026-04-05", "2026-09-06"],
    "Antarctica/Troll": ["2026-03-29", "2026-10-25"],
    "Pacific/Apia": ["2011-12-30"],
    "Africa/Casablanca": ["2026-02-15", "2026-03-22"],
    "UTC": ["2026-01-01"],
}
changes = st.sampled_from([(zone, day) for zone, found in CHANGES.items() for day in found])


@pytest.mark.property
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.tuples(minutes, hours, days).map(" ".join), changes, st.lists(st.floats(0, 1, exclude_max=True), max_size=4))
def test_the_next_tick_is_the_same_from_wherever_one_looks(
    expression: str, change: tuple[str, str], places: Sequence[float]
) -> None:
    zone, day = change
    start = moment(f"{day} 00:00") - 2 * 86_400 * SECOND_NS

    walk = [start, *islice(cron_ticks(expression, zone, after=start), 80)]

    assert walk == sorted(set(walk))
    for before, tick in pairwise(walk):
        for place in places:
            between = before + int((tick - before) * place)
            assert next(cron_ticks(expression, zone, after=between)) == tick
