"""What a fact changes about a conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from ...journal.facts import (
    ApprovalNotified,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalSettled,
    ArtifactStored,
    ChildEnded,
    ChildStarted,
    MessageDelivered,
    MessageSent,
    RunCancelled,
    RunDeadlineSet,
    RunFailed,
    RunFinished,
    RunHalted,
    RunParked,
    RunPaused,
    RunQueued,
    RunRecovered,
    RunRequested,
    RunResumed,
    RunStarted,
    RunSuspended,
    RunWoken,
    ScheduleCancelled,
    ScheduleEvent,
    ScheduleFired,
    SchedulePaused,
    ScheduleResumed,
    ScheduleSet,
    ScheduleSkipped,
    SignalAwaited,
    SignalReceived,
    SignalTaken,
    SignalTimedOut,
    StateSet,
    StepCompleted,
    StepDelayed,
    StepDoubted,
    StepFailed,
    StepSettled,
    StepStarted,
    ThreadEvent,
    ThreadOpened,
)
from ..outbox import evolve_outbox
from ..schedule import evolve as evolve_schedules
from .changes import ended, settle, wake, with_approval, with_run, with_step, with_wait, without, without_requester
from .commands import Requester
from .spent import spend
from .state import (
    COMPLETED,
    Approval,
    Child,
    QueuedRun,
    RunState,
    RunStatus,
    Signal,
    SignalWait,
    ThreadState,
    Wait,
    approval_key,
)

__all__ = ["SIGNALS_REMEMBERED", "evolve"]

SIGNALS_REMEMBERED = 100
"""How many taken signals a thread knows by their ids; an older one is known by the id of the command it came with."""


def evolve(thread: ThreadState, event: ThreadEvent) -> ThreadState:
    """Return the conversation after a fact."""
    return _EVOLVERS[type(event)](thread, event)


def _opened(thread: ThreadState, event: ThreadOpened) -> ThreadState:
    return replace(thread, opened=True, owner=event.owner, title=event.title)


def _state_set(thread: ThreadState, event: StateSet) -> ThreadState:
    return replace(thread, state=event.value)


def _queued(thread: ThreadState, event: RunQueued) -> ThreadState:
    queued = QueuedRun(event.run, event.agent, event.prompt, event.expires_at, event.timeout)
    return replace(thread, queue=(*thread.queue, queued))


def _requested(thread: ThreadState, event: RunRequested) -> ThreadState:
    requester = Requester(event.parent, event.parent_run, event.parent_step)
    return replace(thread, requesters={**thread.requesters, event.run: requester})


def _started(thread: ThreadState, event: RunStarted) -> ThreadState:
    run = RunState(agent=event.agent, status=RunStatus.RUNNING, started_at=event.at)
    left = tuple(queued for queued in thread.queue if queued.run != event.run) if thread.queue else ()
    spent = spend(thread.spent, event)
    return replace(thread, runs={**thread.runs, event.run: run}, open_run=event.run, queue=left, spent=spent)


def _deadline_set(thread: ThreadState, event: RunDeadlineSet) -> ThreadState:
    return with_run(thread, event.run, deadline=event.due)


def _suspended(thread: ThreadState, event: RunSuspended) -> ThreadState:
    return with_run(thread, event.run, status=RunStatus.SUSPENDED, waiting=tuple(event.waiting))


def _woken(thread: ThreadState, event: RunWoken) -> ThreadState:
    return wake(thread, event.run)


def _paused(thread: ThreadState, event: RunPaused) -> ThreadState:
    return with_run(thread, event.run, pausing=True)


def _recovered(thread: ThreadState, event: RunRecovered) -> ThreadState:
    return with_run(thread, event.run, recoveries=thread.runs[event.run].recoveries + 1)


def _parked(thread: ThreadState, event: RunParked) -> ThreadState:
    return with_run(thread, event.run, status=RunStatus.PARKED)


def _halted(thread: ThreadState, event: RunHalted) -> ThreadState:
    return with_run(thread, event.run, status=RunStatus.HALTED)


def _resumed(thread: ThreadState, event: RunResumed) -> ThreadState:
    return with_run(thread, event.run, status=RunStatus.RUNNING, waiting=(), pausing=False, recoveries=0)


def _finished(thread: ThreadState, event: RunFinished) -> ThreadState:
    return ended(replace(thread, spent=spend(thread.spent, event)), event.run, RunStatus.DONE)


def _failed(thread: ThreadState, event: RunFailed) -> ThreadState:
    return ended(thread, event.run, RunStatus.FAILED)


def _cancelled(thread: ThreadState, event: RunCancelled) -> ThreadState:
    if event.run in thread.runs:
        return ended(thread, event.run, RunStatus.CANCELLED)
    agent = next((queued.agent for queued in thread.queue if queued.run == event.run), "")
    never = RunState(agent=agent, status=RunStatus.CANCELLED, started_at=event.at)
    left = tuple(queued for queued in thread.queue if queued.run != event.run)
    return replace(without_requester(thread, event.run), runs={**thread.runs, event.run: never}, queue=left)


def _step_started(thread: ThreadState, event: StepStarted) -> ThreadState:
    run = thread.runs[event.run]
    if event.claimed:
        thread = with_run(thread, event.run, claimed={**run.claimed, event.step: event.attempt})
    if event.approval is None:
        return thread
    return with_approval(thread, approval_key(event.run, event.approval), spent=True)


def _step_completed(thread: ThreadState, event: StepCompleted) -> ThreadState:
    return with_step(replace(thread, spent=spend(thread.spent, event)), event.run, event.step, COMPLETED)


def _step_failed(thread: ThreadState, event: StepFailed) -> ThreadState:
    return with_step(thread, event.run, event.step, event.attempt)


def _step_delayed(thread: ThreadState, event: StepDelayed) -> ThreadState:
    return with_wait(thread, event.run, Wait("retry", event.step, event.until))


def _step_doubted(thread: ThreadState, event: StepDoubted) -> ThreadState:
    return with_wait(thread, event.run, Wait("doubt", event.step, None))


def _step_settled(thread: ThreadState, event: StepSettled) -> ThreadState:
    run = thread.runs[event.run]
    thread = with_run(thread, event.run, claimed=without(run.claimed, event.step))
    return settle(thread, event.run, "doubt", event.step)


def _approval_requested(thread: ThreadState, event: ApprovalRequested) -> ThreadState:
    asked = Approval(
        run=event.run,
        step=event.step,
        call=event.call,
        fingerprint=event.fingerprint,
        arguments=event.arguments,
        expires_at=event.expires_at,
        notify=event.notify,
    )
    thread = replace(thread, approvals={**thread.approvals, approval_key(event.run, event.step): asked})
    return with_wait(thread, event.run, Wait("approval", event.step, event.expires_at))


def _approval_resolved(thread: ThreadState, event: ApprovalResolved) -> ThreadState:
    key = approval_key(event.run, event.step)
    decided = {"decision": event.decision, "by": event.by, "reason": event.reason, "fingerprint": event.fingerprint}
    if bytes(event.arguments) != b"null":
        decided |= {"arguments": event.arguments, "edited": True}
    return settle(with_approval(thread, key, **decided), event.run, "approval", event.step)


def _approval_settled(thread: ThreadState, event: ApprovalSettled) -> ThreadState:
    return with_approval(thread, approval_key(event.run, event.step), outcome=event.outcome)


def _approval_notified(thread: ThreadState, event: ApprovalNotified) -> ThreadState:
    return with_approval(thread, approval_key(event.run, event.step), notified=True)


def _artifact_stored(thread: ThreadState, _: ArtifactStored) -> ThreadState:
    # It is read in the journal; a state with all the long results in it would be no snapshot.
    return thread


def _signal_received(thread: ThreadState, event: SignalReceived) -> ThreadState:
    return replace(thread, signals=(*thread.signals, Signal(event.id, event.name)))


def _signal_awaited(thread: ThreadState, event: SignalAwaited) -> ThreadState:
    wait = SignalWait(event.run, event.step, event.name)
    thread = replace(thread, signal_waits=(*thread.signal_waits, wait))
    return with_wait(thread, event.run, Wait("signal", event.step, event.due))


def _signal_taken(thread: ThreadState, event: SignalTaken) -> ThreadState:
    left = tuple(signal for signal in thread.signals if signal.id != event.id)
    taken = (*thread.signals_taken, event.id)[-SIGNALS_REMEMBERED:]
    return _signal_wait_over(replace(thread, signals=left, signals_taken=taken), event)


def _signal_wait_over(thread: ThreadState, event: SignalTaken | SignalTimedOut) -> ThreadState:
    ended = (event.run, event.step)
    left = tuple(wait for wait in thread.signal_waits if (wait.run, wait.step) != ended)
    return settle(replace(thread, signal_waits=left), event.run, "signal", event.step)


def _child_started(thread: ThreadState, event: ChildStarted) -> ThreadState:
    child = Child(event.run, event.step, event.thread, event.child_run)
    thread = replace(thread, children={**thread.children, f"{event.run}/{event.step}": child})
    return with_wait(thread, event.run, Wait("child", event.step, event.due))


def _child_ended(thread: ThreadState, event: ChildEnded) -> ThreadState:
    thread = replace(thread, children=without(thread.children, f"{event.run}/{event.step}"))
    return settle(thread, event.run, "child", event.step)


def _schedule(thread: ThreadState, event: ScheduleEvent) -> ThreadState:
    return replace(thread, schedules=evolve_schedules(thread.schedules, event))


def _message(thread: ThreadState, event: MessageSent | MessageDelivered) -> ThreadState:
    return replace(thread, outbox=evolve_outbox(thread.outbox, event))


_EVOLVERS: dict[type[msgspec.Struct], Callable[[ThreadState, Any], ThreadState]] = {
    ThreadOpened: _opened,
    StateSet: _state_set,
    RunQueued: _queued,
    RunRequested: _requested,
    RunStarted: _started,
    RunDeadlineSet: _deadline_set,
    RunSuspended: _suspended,
    RunWoken: _woken,
    RunPaused: _paused,
    RunRecovered: _recovered,
    RunParked: _parked,
    RunHalted: _halted,
    RunResumed: _resumed,
    RunFinished: _finished,
    RunFailed: _failed,
    RunCancelled: _cancelled,
    StepStarted: _step_started,
    StepCompleted: _step_completed,
    StepFailed: _step_failed,
    StepDelayed: _step_delayed,
    StepDoubted: _step_doubted,
    StepSettled: _step_settled,
    ApprovalRequested: _approval_requested,
    ApprovalResolved: _approval_resolved,
    ApprovalSettled: _approval_settled,
    ApprovalNotified: _approval_notified,
    ArtifactStored: _artifact_stored,
    SignalReceived: _signal_received,
    SignalAwaited: _signal_awaited,
    SignalTaken: _signal_taken,
    SignalTimedOut: _signal_wait_over,
    ChildStarted: _child_started,
    ChildEnded: _child_ended,
    MessageSent: _message,
    MessageDelivered: _message,
    ScheduleSet: _schedule,
    SchedulePaused: _schedule,
    ScheduleResumed: _schedule,
    ScheduleCancelled: _schedule,
    ScheduleFired: _schedule,
    ScheduleSkipped: _schedule,
}
