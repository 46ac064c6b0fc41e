"""The schedules of an actor, folded from their events. Folding needs neither a calendar nor a clock."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from ...journal.facts.schedule import (
    ScheduleCancelled,
    ScheduleEvent,
    ScheduleFired,
    SchedulePaused,
    ScheduleResumed,
    ScheduleSet,
    ScheduleSkipped,
)
from .spec import Spec

__all__ = ["ENDED_MAX", "Ended", "Schedule", "Schedules", "due", "evolve"]

ENDED_MAX: Final = 1000
"""Of so many names whose schedule is over it is known which tick was the last, of those that ended last."""

_SPECS: Final = msgspec.json.Decoder(Spec)


class Schedule(msgspec.Struct, frozen=True):
    """A schedule that is not over. While it is paused, `next_due` is the tick at which it stood.

    `last_due` is the last tick of its name, fired or skipped, and `last_fired` the last one that fired.
    """

    spec: Spec
    action: msgspec.Raw
    overlap: str
    missed: str
    missed_max: int
    next_due: int
    paused: bool = False
    last_due: int | None = None
    last_fired: int | None = None


class Ended(msgspec.Struct, frozen=True):
    """What is still known of a schedule that is over: no tick of its name comes again."""

    spec: Spec
    last_due: int | None
    cancelled: bool


class Schedules(msgspec.Struct, frozen=True):
    """The schedules of an actor by name, and those that are over. Never changed in place."""

    active: dict[str, Schedule] = {}
    ended: dict[str, Ended] = {}


def due(schedules: Schedules) -> int | None:
    """Return when the first of them is due, in nanoseconds since the epoch; None while none is."""
    return min((schedule.next_due for schedule in schedules.active.values() if not schedule.paused), default=None)


def evolve(schedules: Schedules, event: ScheduleEvent) -> Schedules:
    """Return the schedules after a fact."""
    if isinstance(event, ScheduleSet):
        return _with(schedules, event.name, _set(schedules, event))
    schedule = schedules.active.get(event.name)
    if schedule is None:
        return schedules
    match event:
        case SchedulePaused():
            return _with(schedules, event.name, replace(schedule, paused=True))
        case ScheduleResumed():
            return _with(schedules, event.name, replace(schedule, paused=False, next_due=event.next_due))
        case ScheduleCancelled():
            return _without(schedules, event.name, schedule, cancelled=True)
        case ScheduleFired() | ScheduleSkipped():
            fired = event.due if isinstance(event, ScheduleFired) else schedule.last_fired
            passed = replace(schedule, last_due=event.due, last_fired=fired)
            if event.next_due is None:
                return _without(schedules, event.name, passed, cancelled=False)
            return _with(schedules, event.name, replace(passed, next_due=event.next_due))


def _set(schedules: Schedules, event: ScheduleSet) -> Schedule:
    before, ended = schedules.active.get(event.name), schedules.ended.get(event.name)
    return Schedule(
        spec=_SPECS.decode(event.spec),
        # A state outlives the bytes that its events were read from.
        action=event.action.copy(),
        overlap=event.overlap,
        missed=event.missed,
        missed_max=event.missed_max,
        next_due=event.next_due,
        paused=before is not None and before.paused,
        last_due=before.last_due if before is not None else ended.last_due if ended is not None else None,
        last_fired=None if before is None else before.last_fired,
    )


def _with(schedules: Schedules, name: str, schedule: Schedule) -> Schedules:
    ended = schedules.ended
    if name in ended:
        ended = {known: over for known, over in ended.items() if known != name}
    return Schedules({**schedules.active, name: schedule}, ended)


def _without(schedules: Schedules, name: str, schedule: Schedule, *, cancelled: bool) -> Schedules:
    active = {known: other for known, other in schedules.active.items() if known != name}
    ended = {**schedules.ended, name: Ended(schedule.spec, schedule.last_due, cancelled)}
    if len(ended) > ENDED_MAX:
        del ended[next(iter(ended))]
    return Schedules(active, ended)
