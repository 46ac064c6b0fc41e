"""What becomes of the schedules that are due. Pure: firing again at the same time gives nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ...journal.facts.schedule import ScheduleCancelled, ScheduleEvent, ScheduleFired, ScheduleSkipped
from ..errors import InvalidSchedule
from .spec import After, At
from .state import Schedule, Schedules
from .ticks import next_tick, passed_ticks
from .times import SECOND_NS

__all__ = ["FIRED_MAX", "GRACE_NS", "fire"]

FIRED_MAX: Final = 1000
"""About so many events come of one call; what is left is still due."""

GRACE_NS: Final = 60 * SECOND_NS
"""With `missed="none"`, a tick that is later than this is missed; or than half of the way to the next one."""


class _Step(NamedTuple):
    """A tick that fires, `number` others joined into it; with a `reason`, the last of `number` that are skipped."""

    due: int
    number: int
    reason: str | None = None


def fire(
    schedules: Schedules,
    at: int,
    busy: bool | Callable[[str], bool],  # noqa: FBT001  (or a function that tells)
    *,
    events_max: int = FIRED_MAX,
) -> list[ScheduleEvent]:
    """Return what becomes of all that is due at `at`, the earliest first; then it is due later than `at`, or over.

    `busy` says, for all schedules or by name, whether the run of the last tick goes on: then a tick with the overlap
    policy `skip` is skipped; a one-shot fires, and is to wait. What fires under `queue` and `replace` while it is busy
    is for the caller to queue, or to start in the other's place. A schedule whose next tick cannot be told any more
    (its time zone is gone) is cancelled with the reason, so that it does not hold up the others.

    One call gives about `events_max` events at the most. What is left is still due at `at`: call again after them.
    """
    waiting = sorted(
        (schedule.next_due, name)
        for name, schedule in schedules.active.items()
        if schedule.next_due <= at and not schedule.paused
    )
    events: list[ScheduleEvent] = []
    for _, name in waiting:
        if len(events) >= events_max:
            break
        schedule = schedules.active[name]
        try:
            events += _fire(name, schedule, at, busy=busy if isinstance(busy, bool) else busy(name))
        except InvalidSchedule as error:
            events.append(ScheduleCancelled(name, str(error), at))
    return events


def _fire(name: str, schedule: Schedule, at: int, *, busy: bool) -> Iterator[ScheduleEvent]:
    keep = schedule.missed_max if schedule.missed == "all" else 1
    # One more than may fire: the last of those that are skipped.
    newest, before = passed_ticks(schedule.spec, schedule.next_due, at=at, keep=keep + 1)
    following = next_tick(schedule.spec, newest[-1], after=at)
    left_out, ticks = newest[:-keep], newest[-keep:]
    before += len(left_out)
    steps: list[_Step]
    if busy and schedule.overlap == "skip" and not isinstance(schedule.spec, At | After):
        steps = [_Step(ticks[-1], before + len(ticks), "overlap")]
    elif schedule.missed == "all":
        steps = _skipped(left_out, before) + [_Step(tick, 0) for tick in ticks]
    elif schedule.missed == "none" and _is_missed(ticks[-1], following, at):
        steps = [_Step(ticks[-1], before + 1, "missed")]
    elif schedule.missed == "none":
        steps = [*_skipped(left_out, before), _Step(ticks[-1], 0)]
    else:
        steps = [_Step(ticks[-1], before)]
    for step, then in zip(steps, [*(step.due for step in steps[1:]), following], strict=True):
        if step.reason is None:
            yield ScheduleFired(name, step.due, then, step.number, at)
        else:
            yield ScheduleSkipped(name, step.due, then, step.reason, step.number, at)


def _skipped(left_out: list[int], number: int) -> list[_Step]:
    return [_Step(left_out[-1], number, "missed")] if left_out else []


def _is_missed(tick: int, following: int | None, at: int) -> bool:
    late = at - tick
    return late > GRACE_NS or (following is not None and late > (following - tick) // 2)
