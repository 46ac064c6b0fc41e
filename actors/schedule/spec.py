"""When something is due: once at a time or after a while, at an interval, or by the calendar."""

from __future__ import annotations

from datetime import datetime
from typing import Final, TypeVar

import msgspec

from ..errors import InvalidSchedule
from .times import LATEST_NS, SECOND_NS, check_cron, nanoseconds

__all__ = [
    "DURATION_MAX_S",
    "INTERVAL_MIN_S",
    "After",
    "At",
    "Cron",
    "Every",
    "Spec",
    "after",
    "at",
    "check_spec",
    "cron",
    "daily",
    "every",
    "hourly",
    "monthly",
    "weekly",
]

DURATION_MAX_S: Final = 100 * 366 * 86_400
"""The longest interval or delay: a hundred years."""

INTERVAL_MIN_S: Final = 0.001
"""The shortest interval: a millisecond."""

_DURATION_MAX_NS: Final = DURATION_MAX_S * SECOND_NS
_INTERVAL_MIN_NS: Final = round(INTERVAL_MIN_S * SECOND_NS)


class At(msgspec.Struct, frozen=True, tag_field="kind", tag="at"):
    """Once, at a time; one that has passed is due at once. Make one with `at`."""

    time_ns: int


class After(msgspec.Struct, frozen=True, tag_field="kind", tag="after"):
    """Once, so long after it is set. Make one with `after`."""

    delay_ns: int


class Every(msgspec.Struct, frozen=True, tag_field="kind", tag="every"):
    """Again and again, at `start_ns` (None: when it was set) and whole intervals after it. Make one with `every`."""

    interval_ns: int
    start_ns: int | None = None


class Cron(msgspec.Struct, frozen=True, tag_field="kind", tag="cron"):
    """By a cron expression, in a time zone. Make one with `cron`, or with `daily` and the like."""

    expression: str
    zone: str = "UTC"


Spec = At | After | Every | Cron

S = TypeVar("S", At, After, Every, Cron, Spec)


def at(time: datetime | int) -> At:
    """Once, at `time`: a datetime with a zone, or nanoseconds since the epoch, UTC.

    A time that has passed is due at once. Once it has fired under a name, to set it again under that name does nothing.

    Raises:
        InvalidSchedule: the datetime has no zone, or the time is not between 1970 and 2200.

    >>> at(1_800_000_000 * 10**9)
    At(time_ns=1800000000000000000)
    """
    return check_spec(At(_time_ns("at", time)))


def after(seconds: float) -> After:
    """Once, `seconds` after it is set.

    Raises:
        InvalidSchedule: less than 0 or over a hundred years.
    """
    return check_spec(After(_duration_ns("after", seconds)))


def every(seconds: float, *, start: datetime | int | None = None) -> Every:
    """Again and again: at `start` and whole intervals after it; without a `start`, from when it is set.

    The phase is kept: however late a tick is handled, the others stay where they are.

    Raises:
        InvalidSchedule: the interval is under a millisecond or over a hundred years, or the start is not a time.

    >>> every(30)
    Every(interval_ns=30000000000, start_ns=None)
    """
    return check_spec(
        Every(_duration_ns("every", seconds), None if start is None else _time_ns("every, its start", start))
    )


def cron(expression: str, tz: str = "UTC") -> Cron:
    """By a cron expression of five fields (minute, hour, day of the month, month, day of the week), in a time zone.

    The rules are those of Debian's cron: Sunday is 0 and 7, names work, and if both day fields are restricted, either
    is enough (a field that begins with a star restricts nothing by itself). When the clocks change, a job at a fixed
    time runs once each day: what is left out in spring runs right after, what comes twice in autumn runs the first
    time. Jobs for every hour or every minute go by the time that really passes.

    Raises:
        InvalidSchedule: it is malformed or can never come true, or there is no such zone.

    >>> cron("0 9 * * MON-FRI", tz="Europe/London")
    Cron(expression='0 9 * * MON-FRI', zone='Europe/London')
    """
    return check_spec(Cron(expression, tz))


def hourly(minute: int = 0) -> Cron:
    """Every hour at this minute.

    Raises:
        InvalidSchedule: there is no such minute.
    """
    return cron(f"{minute} * * * *")


def daily(hour_utc: int, minute_utc: int = 0) -> Cron:
    """Every day at this time, UTC; for another zone, use `cron`.

    Raises:
        InvalidSchedule: there is no such time.

    >>> daily(3, 30)
    Cron(expression='30 3 * * *', zone='UTC')
    """
    return cron(f"{minute_utc} {hour_utc} * * *")


def weekly(day: str, hour_utc: int, minute_utc: int = 0) -> Cron:
    """Every week on a day (`"mon"` to `"sun"`) at this time, UTC.

    Raises:
        InvalidSchedule: there is no such day or time.
    """
    return cron(f"{minute_utc} {hour_utc} * * {day}")


def monthly(day: int, hour_utc: int, minute_utc: int = 0) -> Cron:
    """Every month that has this day, at this time, UTC.

    Raises:
        InvalidSchedule: there is no such day or time.
    """
    return cron(f"{minute_utc} {hour_utc} {day} * *")


def check_spec(spec: S) -> S:
    """Return a spec, if it can come true.

    Raises:
        InvalidSchedule: it cannot, with the reason.
    """
    match spec:
        case At(time_ns):
            _check_time("at", time_ns)
        case After(delay_ns):
            _check_duration("after", delay_ns, 0)
        case Every(interval_ns, start_ns):
            _check_duration("every", interval_ns, _INTERVAL_MIN_NS)
            if start_ns is not None:
                _check_time("every, its start", start_ns)
        case Cron(expression, zone):
            check_cron(expression, zone)
        case _:
            raise InvalidSchedule(schedule=f"{spec!r:.100}", reason="make it with `at`, `after`, `every` or `cron`.")
    return spec


def _time_ns(what: str, time: datetime | int) -> int:
    if not isinstance(time, datetime):
        return time
    if time.utcoffset() is None:
        reason = "the datetime has no time zone. Give it one: `datetime(..., tzinfo=UTC)`."
        raise InvalidSchedule(schedule=f"{what} {time}", reason=reason)
    return nanoseconds(time)


def _duration_ns(what: str, seconds: float) -> int:
    # Before it is multiplied: not a number, infinity and what no float holds fail here too.
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= DURATION_MAX_S:
        raise _invalid_duration(what, seconds)
    return round(seconds * SECOND_NS)


def _check_time(what: str, time_ns: int) -> None:
    if isinstance(time_ns, bool) or not isinstance(time_ns, int) or not 0 <= time_ns <= LATEST_NS:
        reason = "a time is a datetime, or nanoseconds since the epoch, between the years 1970 and 2200."
        raise InvalidSchedule(schedule=f"{what} {time_ns!r:.100}", reason=reason)


def _check_duration(what: str, duration_ns: int, least_ns: int) -> None:
    if isinstance(duration_ns, bool) or not isinstance(duration_ns, int):
        raise _invalid_duration(what, duration_ns)
    if not least_ns <= duration_ns <= _DURATION_MAX_NS:
        raise _invalid_duration(what, duration_ns / SECOND_NS)


def _invalid_duration(what: str, seconds: object) -> InvalidSchedule:
    least = INTERVAL_MIN_S if what == "every" else 0
    reason = f"a number of seconds between {least} and {DURATION_MAX_S} (a hundred years)."
    return InvalidSchedule(schedule=f"{what} {seconds!r:.100} s", reason=reason)
