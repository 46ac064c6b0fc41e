"""What becomes of a wish about a schedule. Pure: asking the same twice changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

import msgspec

from ...journal.facts.schedule import (
    ScheduleCancelled,
    ScheduleEvent,
    SchedulePaused,
    ScheduleResumed,
    ScheduleSet,
)
from ..errors import InvalidSchedule, TooManySchedules, UnknownSchedule
from .commands import CancelSchedule, Missed, Overlap, PauseSchedule, ResumeSchedule, SetSchedule
from .spec import After, At, check_spec
from .state import Schedule, Schedules
from .ticks import first_tick, next_tick

__all__ = [
    "ACTION_BYTES_MAX",
    "MISSED_MAX",
    "NAME_LENGTH_MAX",
    "SCHEDULES_MAX",
    "cancel",
    "pause",
    "resume",
    "set_schedule",
]

NAME_LENGTH_MAX: Final = 128
"""Characters of a schedule's name."""

ACTION_BYTES_MAX: Final = 64 * 1024
"""The largest action, in bytes of JSON."""

MISSED_MAX: Final = 100
"""The most ticks that `missed="all"` can make up for at once."""

SCHEDULES_MAX: Final = 1000
"""So many schedules an actor takes, unless it is told otherwise."""


def set_schedule(
    schedules: Schedules, command: SetSchedule, *, schedules_max: int = SCHEDULES_MAX
) -> Sequence[ScheduleEvent]:
    """Set a schedule; nothing when it is there just so, and in place of the one of its name when that differs.

    Where only the action or a policy differs, the ticks stay where they are. A name whose schedule is over can be set
    anew, but a time (`at`) that has fired under a name does not fire again.

    Raises:
        InvalidSchedule: it is malformed, too large, or can never be due; names what to correct.
        TooManySchedules: there are `schedules_max` others.
    """
    name, spec = command.name, command.spec
    before, ended = schedules.active.get(name), schedules.ended.get(name)
    if before is not None and _is_same(before, command):
        return ()
    if ended is not None and isinstance(spec, At) and spec == ended.spec and not ended.cancelled:
        return ()
    _check(command)
    if before is None and len(schedules.active) >= schedules_max:
        raise TooManySchedules(schedule=name, schedules_max=schedules_max)
    if before is not None and before.spec == spec:
        next_due = before.next_due
    else:
        known = before or ended
        next_due = first_tick(spec, at=command.at, last=known.last_due if known is not None else None)
    if next_due is None:
        raise _invalid(name, "it would never be due before the year 2200. Correct when it is.")
    return (
        ScheduleSet(
            name=name,
            spec=msgspec.Raw(msgspec.json.encode(spec)),
            action=command.action,
            overlap=command.overlap,
            missed=command.missed,
            missed_max=command.missed_max,
            next_due=next_due,
            at=command.at,
        ),
    )


def pause(schedules: Schedules, command: PauseSchedule) -> Sequence[ScheduleEvent]:
    """Pause a schedule; nothing when it is paused.

    Raises:
        UnknownSchedule: there is none of this name, or it is over.
    """
    return () if _schedule(schedules, command.name).paused else (SchedulePaused(command.name, command.at),)


def resume(schedules: Schedules, command: ResumeSchedule) -> Sequence[ScheduleEvent]:
    """Let a paused schedule go on with its next tick; nothing when it is not paused.

    The ticks that passed meanwhile are left out. A one-shot keeps its time: if that has passed, it is due at once.

    Raises:
        UnknownSchedule: there is none of this name, or it is over.
        InvalidSchedule: its zone is not known here. Install a newer `tzdata`, or set it anew.
    """
    schedule = _schedule(schedules, command.name)
    if not schedule.paused:
        return ()
    due: int | None = schedule.next_due
    if due <= command.at and not isinstance(schedule.spec, At | After):
        due = next_tick(schedule.spec, due, after=command.at)
    if due is None:
        return (ScheduleCancelled(command.name, "it is never due again", command.at),)
    return (ScheduleResumed(command.name, due, command.at),)


def cancel(schedules: Schedules, command: CancelSchedule) -> Sequence[ScheduleEvent]:
    """End a schedule; nothing when it is known to be over.

    Raises:
        UnknownSchedule: there is none of this name.
    """
    if command.name in schedules.ended:
        return ()
    _schedule(schedules, command.name)
    return (ScheduleCancelled(command.name, command.reason, command.at),)


def _schedule(schedules: Schedules, name: str) -> Schedule:
    schedule = schedules.active.get(name)
    if schedule is None:
        raise UnknownSchedule(schedule=name)
    return schedule


def _is_same(schedule: Schedule, command: SetSchedule) -> bool:
    wanted = (command.spec, bytes(command.action), command.overlap, command.missed, command.missed_max)
    there = (schedule.spec, bytes(schedule.action), schedule.overlap, schedule.missed, schedule.missed_max)
    return wanted == there


def _check(command: SetSchedule) -> None:
    name = command.name
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX or not name.strip() or not name.isprintable():
        raise _invalid(name, f"a name is printable text, at most {NAME_LENGTH_MAX} characters. Choose another one.")
    if command.overlap not in get_args(Overlap):
        raise _invalid(name, f"overlap is one of {', '.join(get_args(Overlap))}, not {command.overlap!r:.100}.")
    if command.missed not in get_args(Missed):
        raise _invalid(name, f"missed is one of {', '.join(get_args(Missed))}, not {command.missed!r:.100}.")
    if isinstance(command.missed_max, bool) or command.missed_max not in range(1, MISSED_MAX + 1):
        raise _invalid(name, f"missed_max is a whole number from 1 to {MISSED_MAX}, not {command.missed_max!r:.100}.")
    size = len(bytes(command.action))
    if size > ACTION_BYTES_MAX:
        raise _invalid(name, f"its action has {size} bytes, and {ACTION_BYTES_MAX} are the most. Keep it elsewhere.")
    check_spec(command.spec)


def _invalid(name: object, reason: str) -> InvalidSchedule:
    return InvalidSchedule(schedule=f"schedule {name!r:.200}", reason=reason)
