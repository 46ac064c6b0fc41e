"""What a conversation decides about its schedules: each tick is a run of its own, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...journal.facts import ScheduleFired, ScheduleSkipped, ThreadEvent, ThreadOpened
from .. import schedule as schedules
from ..errors import CommandRejected, RunConflict
from ..outbox import Outgoing, sent_one
from ..schedule import CancelSchedule, PauseSchedule, ResumeSchedule, SetSchedule
from ..schedule.action import RunAction, action_of, tick_id
from .checks import check_can_own, check_is_there, check_owner
from .commands import CancelRun, ChangeSchedule, StartRun
from .draft import Draft
from .runs import cancel, start
from .state import ThreadState

__all__ = ["change_schedule", "fire_schedules"]

ROUNDS_MAX: Final = 10
"""How often one alarm looks for more that is due; what is left then is due at the next one."""


def change_schedule(thread: ThreadState, command: ChangeSchedule) -> Sequence[ThreadEvent]:
    """Set, pause, resume or end a schedule; to set one opens a thread that is new."""
    change = command.change
    if not isinstance(change, SetSchedule):
        check_is_there(thread, command.owner)
    match change:
        case SetSchedule():
            check_owner(thread, command.owner)
            check_can_own(thread, command.owner)
            action_of(change.name, change.action)
            events = schedules.set_schedule(thread.schedules, change)
            opened = () if thread.opened or not events else (ThreadOpened(command.owner, command.title, change.at),)
            return *opened, *events
        case PauseSchedule():
            return schedules.pause(thread.schedules, change)
        case ResumeSchedule():
            return schedules.resume(thread.schedules, change)
        case CancelSchedule():
            return schedules.cancel(thread.schedules, change)


def fire_schedules(draft: Draft, at: int) -> None:
    """Do what is due; what one wake fires of a schedule does not overlap itself."""
    fired: set[str] = set()
    for _ in range(ROUNDS_MAX):
        events = schedules.fire(draft.thread.schedules, at, lambda name: _open_tick(draft.thread, name) is not None)
        if not events:
            return
        for event in events:
            if isinstance(event, ScheduleFired):
                _fire(draft, event, first=event.name not in fired)
                fired.add(event.name)
            else:
                draft.add(event)


def _fire(draft: Draft, event: ScheduleFired, *, first: bool) -> None:
    try:
        _act(draft, event, first=first)
    except CommandRejected as refused:
        # This tick is over, and holds up neither the next one nor the other schedules.
        reason = "busy" if isinstance(refused, RunConflict) else "refused"
        draft.add(ScheduleSkipped(event.name, event.due, event.next_due, reason, event.missed + 1, event.at))


def _act(draft: Draft, event: ScheduleFired, *, first: bool) -> None:
    thread, name = draft.thread, event.name
    schedule = thread.schedules.active[name]
    action, tick = action_of(name, schedule.action), tick_id(name, event.due)
    if not isinstance(action, RunAction):
        draft.add(event, sent_one(tick, Outgoing(action.to, action.command, action.payload), event.at))
        return
    before = _open_tick(thread, name) if schedule.overlap == "replace" and first else None
    if before is not None and before != thread.open_run:
        # It only waits, behind a run of somebody else's.
        draft.extend(cancel(thread, CancelRun(before, thread.owner, f"replaced by run {tick}", event.at)))
    command = StartRun(
        tick,
        action.agent,
        action.prompt,
        thread.owner,
        None,
        event.at,
        concurrent="replace" if before is not None and before == thread.open_run else "queue",
        queue_max=action.queue_max,
        queue_for=action.queue_for,
        timeout=action.timeout,
        state=action.state,
    )
    draft.add(event, *start(draft.thread, command))


def _open_tick(thread: ThreadState, name: str) -> str | None:
    """Return the run of the last tick, if it goes on, or waits."""
    last = thread.schedules.active[name].last_fired
    if last is None:
        return None
    tick = tick_id(name, last)
    run = thread.runs.get(tick)
    is_open = any(queued.run == tick for queued in thread.queue) or (run is not None and not run.status.ended)
    return tick if is_open else None
