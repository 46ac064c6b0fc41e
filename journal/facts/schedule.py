"""What can happen to a schedule: something an actor does at a time, or again and again.

The names, versions and field names here are stored for ever: changing one means a new version, an upcaster and a
golden history. Times are nanoseconds since the epoch, UTC. A tick is a time at which a schedule is due, and each tick
of a name is fired or skipped once. The next one stands in the event, so nobody who reads a history needs to know the
calendar.
"""

from __future__ import annotations

import msgspec

from ..event import event

__all__ = [
    "SCHEDULE_EVENTS",
    "ScheduleCancelled",
    "ScheduleEvent",
    "ScheduleFired",
    "SchedulePaused",
    "ScheduleResumed",
    "ScheduleSet",
    "ScheduleSkipped",
]


@event("schedule.set", version=1)
class ScheduleSet(msgspec.Struct, frozen=True):
    """A schedule was made, or took the place of the one of its name.

    `spec` is when it is due, `action` what is to be done then; `overlap` and `missed` are its policies. One that is
    paused stays so.
    """

    name: str
    spec: msgspec.Raw
    action: msgspec.Raw
    overlap: str
    missed: str
    missed_max: int
    next_due: int
    at: int


@event("schedule.paused", version=1)
class SchedulePaused(msgspec.Struct, frozen=True):
    """A schedule is not due until it is resumed."""

    name: str
    at: int


@event("schedule.resumed", version=1)
class ScheduleResumed(msgspec.Struct, frozen=True):
    """A paused schedule goes on; the ticks in between are left out."""

    name: str
    next_due: int
    at: int


@event("schedule.cancelled", version=1)
class ScheduleCancelled(msgspec.Struct, frozen=True):
    """A schedule is over before its time: somebody ended it, or its next tick could not be told any more."""

    name: str
    reason: str
    at: int


@event("schedule.fired", version=1)
class ScheduleFired(msgspec.Struct, frozen=True):
    """A schedule was due at `due`, and what it is for is to be done. Without a `next_due` it is over.

    `missed` ticks before it are joined into this one. Of a cron schedule no more than 200 are counted.
    """

    name: str
    due: int
    next_due: int | None
    missed: int
    at: int


@event("schedule.skipped", version=1)
class ScheduleSkipped(msgspec.Struct, frozen=True):
    """A schedule was due, and nothing is done. Without a `next_due` it is over.

    `reason` is `overlap` (the run of the last tick went on), `missed`, `busy` (as many waited as may) or `refused`.

    `count` ticks are left out, of which `due` is the last. Of a cron schedule no more than about 200 are counted.
    """

    name: str
    due: int
    next_due: int | None
    reason: str
    count: int
    at: int


ScheduleEvent = ScheduleSet | SchedulePaused | ScheduleResumed | ScheduleCancelled | ScheduleFired | ScheduleSkipped

SCHEDULE_EVENTS = (
    ScheduleSet,
    SchedulePaused,
    ScheduleResumed,
    ScheduleCancelled,
    ScheduleFired,
    ScheduleSkipped,
)
