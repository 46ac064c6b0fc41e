"""Times: moments as nanoseconds since the epoch (UTC), and the ticks of cron expressions in their time zones.

Cron is read by `cronsim`, which keeps the rules of Debian's cron. The library and the time zones are loaded when an
expression is first looked at, so that folding a history needs neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from ..errors import InvalidSchedule

__all__ = ["EXPRESSION_LENGTH_MAX", "LATEST_NS", "SECOND_NS", "check_cron", "cron_ticks", "nanoseconds"]

SECOND_NS: Final = 1_000_000_000

EXPRESSION_LENGTH_MAX: Final = 256
"""Characters of a cron expression."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS: Final = 5
# A range of weekdays may end with Sunday, which is day 7 there.
_TO_SUNDAY: Final = re.compile(r"(?<!\w)(MON|TUE|WED|THU|FRI|SAT|[1-6])-(?:SUN|0)(?!\w)")


def nanoseconds(moment: datetime) -> int:
    """Return a moment, which knows its zone, in nanoseconds since the epoch."""
    passed = moment - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * SECOND_NS + passed.microseconds * 1000


LATEST_NS: Final = nanoseconds(datetime(2200, 1, 1, tzinfo=UTC))
"""No schedule is due after this."""


def cron_ticks(expression: str, zone: str, *, after: int) -> Iterator[int]:
    """Yield the ticks of a cron expression that are later than `after`, in order, up to `LATEST_NS`.

    A job at a fixed time of the day runs once each day: what lies in the hour that is left out in spring runs as soon
    as that is over, and what lies in the hour that comes twice in autumn runs the first time.

    Raises:
        InvalidSchedule: it is not a cron expression, or there is no such zone.
    """
    if after >= LATEST_NS:
        return
    latest = max(after, -1)
    # In the repeated hour the library begins with what has just been: that is passed over.
    for moment in _simulate(expression, zone, _EPOCH + timedelta(seconds=latest // SECOND_NS)):
        tick = nanoseconds(moment)
        if tick > LATEST_NS:
            return
        if tick > latest:
            yield tick
            latest = tick


def check_cron(expression: str, zone: str) -> None:
    """Refuse a cron expression that is malformed or can never come true, and a zone that is not known.

    Raises:
        InvalidSchedule: with the reason.
    """
    # Any beginning will do: what does not come true in the fifty years from here never does.
    if next(cron_ticks(expression, zone, after=0), None) is None:
        raise _invalid(expression, "there is no such day. Correct the day or the month.")


def _simulate(expression: str, zone: str, start: datetime) -> Iterator[datetime]:
    from cronsim import CronSim, CronSimError  # noqa: PLC0415  (see above)

    if not isinstance(expression, str) or len(expression) > EXPRESSION_LENGTH_MAX:
        raise _invalid(expression, f"an expression is text of at most {EXPRESSION_LENGTH_MAX} characters.")
    fields = expression.upper().split()
    if len(fields) != _FIELDS:
        reason = f"{len(fields)} fields, not the five: minute, hour, day of the month, month, day of the week."
        raise _invalid(expression, reason)
    fields[-1] = _TO_SUNDAY.sub(r"\1-7", fields[-1])
    try:
        return CronSim(" ".join(fields), start.astimezone(_zone(zone)))
    except CronSimError as error:
        raise _invalid(expression, f"{str(error).lower()}. Correct that field.") from error


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415  (see above)

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        reason = "no such time zone. Take a name such as 'Europe/London', or install a newer `tzdata`."
        raise InvalidSchedule(schedule=f"zone {name!r:.100}", reason=reason) from error


def _invalid(expression: str, reason: str) -> InvalidSchedule:
    return InvalidSchedule(schedule=f"cron {expression!r:.100}", reason=reason)
