"""When something is due: what is refused where it is written, and which days a cron expression means."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from math import inf, nan
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from clew.actors import CommandRejected
from clew.actors.errors import InvalidSchedule
from clew.actors.schedule import (
    After,
    At,
    Cron,
    Every,
    Spec,
    after,
    at,
    cron,
    daily,
    every,
    hourly,
    monthly,
    weekly,
)
from clew.actors.schedule.times import LATEST_NS, SECOND_NS, cron_ticks
from clew.actors.schedule.view import words
from clew.journal.facts.schedule import ScheduleSet
from tests.actors.agenda import START, Agenda, local, moment

IMPOSSIBLE = ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 */20 * 1L"]
MALFORMED = [
    "*/0 * * * *",
    "60 * * * *",
    "",
    "* * * *",
    "* * * * * *",
    "@never",
    "0 0 0 * *",
    "0 9 * * FOO",
    "- * * * *",
]


def next_days(expression: str, since: str, number: int, zone: str = "UTC") -> list[str]:
    ticks = islice(cron_ticks(expression, zone, after=moment(since, zone)), number)
    return [f"{local(tick, zone):%a %m-%d}" for tick in ticks]


@pytest.mark.scenario("SCH-10")
@pytest.mark.parametrize("expression", [*IMPOSSIBLE, *MALFORMED])
def test_a_cron_expression_that_is_malformed_or_never_comes_true_is_refused_where_it_is_made(expression: str) -> None:
    with pytest.raises(InvalidSchedule, match=r"^cron '") as refused:
        cron(expression)

    assert isinstance(refused.value, CommandRejected)
    assert refused.value.reason in str(refused.value)


@pytest.mark.scenario("SCH-10")
@pytest.mark.parametrize("interval", [0, -1, nan, inf, -inf, 1e300, 10**400, 1e-12, True, "30", None])
def test_an_interval_that_is_no_time_is_refused_where_it_is_made(interval: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^every .* s: a number of seconds between 0\.001 and"):
        every(interval)


@pytest.mark.scenario("SCH-10")
@pytest.mark.parametrize("delay", [-1, nan, inf, 1e300, 10**400, "60"])
def test_a_delay_that_is_no_time_is_refused_where_it_is_made(delay: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^after .* s: a number of seconds between 0 and"):
        after(delay)


@pytest.mark.scenario("SCH-10")
@pytest.mark.parametrize(
    "time",
    [
        datetime(9999, 12, 31, tzinfo=ZoneInfo("UTC")),
        datetime(1969, 12, 31, tzinfo=ZoneInfo("UTC")),
        datetime(2030, 1, 1),  # noqa: DTZ001  (that is the mistake)
        LATEST_NS + 1,
        -1,
        1.5,
        True,
        "2030-01-01",
    ],
)
def test_a_time_outside_of_the_calendar_or_without_a_zone_is_refused_where_it_is_made(time: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^at "):
        at(time)
    with pytest.raises(InvalidSchedule, match=r"^every, its start "):
        every(30, start=time)


@pytest.mark.scenario("SCH-10")
@pytest.mark.parametrize("zone", ["Mars/Phobos", "", "../etc/passwd", "America", "/etc/localtime", "\0", None])
def test_a_time_zone_that_does_not_exist_is_refused_where_it_is_written(zone: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^zone .*: no such time zone"):
        cron("0 6 * * *", tz=zone)


@pytest.mark.scenario("SCH-10")
@pytest.mark.parametrize(
    "spec",
    [
        At(-1),
        At(LATEST_NS + 1),
        After(-1),
        Every(0),
        Every(-SECOND_NS),
        Every(SECOND_NS, start_ns=-1),
        Cron("0 0 30 2 *"),
        Cron("0 6 * * *", zone="Mars/Phobos"),
        Cron("1," * 200 + "1 * * * *"),
        "every day",
    ],
)
def test_a_spec_made_without_its_constructor_is_refused_when_it_is_set(spec: Any) -> None:
    agenda = Agenda()

    with pytest.raises(InvalidSchedule):
        agenda.set("t", spec)

    assert agenda.events == []


@pytest.mark.scenario("SCH-10")
def test_what_would_be_due_after_the_last_day_of_the_calendar_is_refused_when_it_is_set() -> None:
    agenda = Agenda(now=moment("2199-12-31 23:00"))

    for spec in (after(2 * 3600), every(2 * 3600), daily(0, 30)):
        with pytest.raises(InvalidSchedule, match="schedule 't': it would never be due before the year 2200"):
            agenda.set("t", spec)


def test_the_last_tick_of_the_calendar_ends_a_schedule() -> None:
    agenda = Agenda(now=moment("2199-12-31 23:00"))
    agenda.set("interval", every(3600))
    agenda.set("cron", hourly())

    agenda.advance(3 * 3600)

    assert agenda.fired("interval") == agenda.fired("cron") == [LATEST_NS]
    assert agenda.schedules.active == {}


@pytest.mark.scenario("SCH-09")
def test_seven_and_zero_are_sunday() -> None:
    sundays = ["Sun 12-06", "Sun 12-13", "Sun 12-20"]

    assert next_days("0 9 * * 7", "2026-11-30", 3) == sundays
    assert next_days("0 9 * * 0", "2026-11-30", 3) == sundays
    assert next_days("0 9 * * sun", "2026-11-30", 3) == sundays


@pytest.mark.scenario("SCH-09")
@pytest.mark.parametrize("days", ["FRI-SUN", "fri-sun", "5-7", "5-SUN", "5-0", "FRI-0", "FRI,6-SUN"])
def test_a_range_of_weekdays_may_end_with_sunday(days: str) -> None:
    assert next_days(f"0 9 * * {days}", "2026-11-30", 4) == ["Fri 12-04", "Sat 12-05", "Sun 12-06", "Fri 12-11"]


@pytest.mark.scenario("SCH-09")
@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("SUN-MON", ["Mon 11-30", "Sun 12-06", "Mon 12-07"]),
        ("SUN-SUN", ["Sun 12-06", "Sun 12-13", "Sun 12-20"]),
        ("MON-SUN/3", ["Mon 11-30", "Thu 12-03", "Sun 12-06"]),
        ("0-6/3", ["Wed 12-02", "Sat 12-05", "Sun 12-06"]),
    ],
)
def test_other_ranges_of_weekdays_mean_what_cron_means(days: str, expected: list[str]) -> None:
    assert next_days(f"0 9 * * {days}", "2026-11-30", 3) == expected


@pytest.mark.scenario("SCH-09")
def test_of_two_restricted_day_fields_either_is_enough() -> None:
    assert next_days("0 9 1 * 1", "2026-11-30", 3) == ["Mon 11-30", "Tue 12-01", "Mon 12-07"]


@pytest.mark.requirement("L-SCHED-2")
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (hourly(15), ["2027-01-15 08:15", "2027-01-15 09:15", "2027-01-15 10:15"]),
        (daily(3, 30), ["2027-01-16 03:30", "2027-01-17 03:30", "2027-01-18 03:30"]),
        (weekly("fri", 9), ["2027-01-15 09:00", "2027-01-22 09:00", "2027-01-29 09:00"]),
        (monthly(31, 12), ["2027-01-31 12:00", "2027-03-31 12:00", "2027-05-31 12:00"]),
    ],
)
def test_helpers_write_the_usual_cron_expressions(spec: Cron, expected: list[str]) -> None:
    ticks = islice(cron_ticks(spec.expression, spec.zone, after=START), 3)

    assert [f"{local(tick):%Y-%m-%d %H:%M}" for tick in ticks] == expected


@pytest.mark.parametrize(
    ("helper", "time"),
    [
        (hourly, [-1]),
        (daily, [24]),
        (daily, [3, 60]),
        (weekly, ["someday", 9]),
        (monthly, [32, 9]),
        (monthly, [1, 9.5]),
    ],
)
def test_helpers_refuse_a_time_that_is_none(helper: Callable[..., Cron], time: list[Any]) -> None:
    with pytest.raises(InvalidSchedule):
        helper(*time)


def test_a_time_is_exact_to_the_microsecond_in_every_zone() -> None:
    time = datetime(2027, 1, 15, 9, 0, 0, 123_456, tzinfo=ZoneInfo("Europe/Paris"))

    assert at(time) == At(START + 123_456_000)
    assert every(0.1) == Every(100_000_000)


def test_a_refusal_survives_pickling() -> None:
    with pytest.raises(InvalidSchedule) as refused:
        cron("60 * * * *")

    again = pickle.loads(pickle.dumps(refused.value))  # noqa: S301  (our own)

    assert (str(again), again.schedule, again.reason) == (
        "cron '60 * * * *': bad minute. Correct that field.",
        refused.value.schedule,
        refused.value.reason,
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (at(START), "once, 2027-01-15 08:00:00 UTC"),
        (after(90), "once, 1 min 30 s after it was set"),
        (after(0), "once, 0 s after it was set"),
        (every(0.25), "every 0.25 s"),
        (every(90_000, start=START), "every 1 d 1 h from 2027-01-15 08:00:00 UTC"),
        (cron("0 22 * * *", tz="America/Santiago"), "cron 0 22 * * *, America/Santiago"),
    ],
)
def test_a_spec_can_be_said_in_words(spec: Spec, expected: str) -> None:
    assert words(spec) == expected


def test_folding_a_history_needs_neither_the_library_nor_the_zones() -> None:
    program = f"""
import sys
from clew.actors.schedule import Schedules, due, evolve
from clew.actors.schedule.view import list_schedules
from clew.journal.facts.schedule import ScheduleFired, ScheduleSet
import msgspec
spec = msgspec.Raw(b'{{"kind":"cron","expression":"0 6 * * *","zone":"Europe/London"}}')
state = evolve(Schedules(), ScheduleSet("t", spec, msgspec.Raw(b"1"), "skip", "coalesce", 10, {START}, 0))
state = evolve(state, ScheduleFired("t", {START}, {START + 1}, 0, {START}))
assert due(state) == {START + 1} and list_schedules(state)
print([name for name in ("cronsim", "zoneinfo") if name in sys.modules])
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_stored_form_of_a_spec_is_for_ever() -> None:
    agenda = Agenda()
    for spec in (at(START), after(60), every(30), every(30, start=0), cron("0 6 * * *", tz="Europe/London")):
        agenda.set(words(spec), spec, {"do": 1})

    stored = [bytes(event.spec) for event in agenda.events if isinstance(event, ScheduleSet)]

    assert stored == [
        b'{"kind":"at","time_ns":1800000000000000000}',
        b'{"kind":"after","delay_ns":60000000000}',
        b'{"kind":"every","interval_ns":30000000000,"start_ns":null}',
        b'{"kind":"every","interval_ns":30000000000,"start_ns":0}',
        b'{"kind":"cron","expression":"0 6 * * *","zone":"Europe/London"}',
    ]
