"""Schedules as their users see them: the name, when it is due, in words, and when it was."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from .spec import After, At, Cron, Every, Spec
from .state import Schedules
from .times import SECOND_NS

__all__ = ["ScheduleView", "list_schedules", "words"]

_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60))


class ScheduleView(msgspec.Struct, frozen=True):
    """A schedule that is not over. `when` is its spec in words; a paused one is not due until it is resumed.

    `next_due` (None while it is paused) and `last_fired` are ticks in nanoseconds since the epoch, UTC.
    """

    name: str
    when: str
    next_due: int | None
    paused: bool
    last_fired: int | None
    action: msgspec.Raw


def list_schedules(schedules: Schedules) -> tuple[ScheduleView, ...]:
    """Return the schedules that are not over, the earliest due first and the paused ones last."""
    active = sorted(schedules.active.items(), key=lambda item: (item[1].paused, item[1].next_due, item[0]))
    return tuple(
        ScheduleView(
            name=name,
            when=words(schedule.spec),
            next_due=None if schedule.paused else schedule.next_due,
            paused=schedule.paused,
            last_fired=schedule.last_fired,
            action=schedule.action,
        )
        for name, schedule in active
    )


def words(spec: Spec) -> str:
    """Return a spec in words.

    >>> words(Every(5_400_000_000_000))
    'every 1 h 30 min'
    """
    match spec:
        case At(time_ns):
            return f"once, {_time(time_ns)}"
        case After(delay_ns):
            return f"once, {_duration(delay_ns)} after it was set"
        case Every(interval_ns, start_ns):
            return f"every {_duration(interval_ns)}" + ("" if start_ns is None else f" from {_time(start_ns)}")
        case Cron(expression, zone):
            return f"cron {expression}, {zone}"


def _time(time_ns: int) -> str:
    return f"{datetime.fromtimestamp(time_ns // SECOND_NS, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"


def _duration(duration_ns: int) -> str:
    seconds, rest = divmod(duration_ns, SECOND_NS)
    parts: list[str] = []
    for unit, size in _UNITS:
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number} {unit}")
    if seconds or rest or not parts:
        fraction = f"{seconds}.{rest:09d}".rstrip("0").rstrip(".")
        parts.append(f"{fraction} s")
    return " ".join(parts)
