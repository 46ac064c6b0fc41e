"""What a conversation decides about its runs: who may start one, who waits, what their end brings with it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...journal.facts import (
    NOTHING,
    ErrorFact,
    MessageSent,
    RunCancelled,
    RunDeadlineSet,
    RunFailed,
    RunFinished,
    RunParked,
    RunPaused,
    RunQueued,
    RunRecovered,
    RunRequested,
    RunResumed,
    RunStarted,
    RunSuspended,
    StateSet,
    ThreadEvent,
    ThreadOpened,
)
from ...projections.usage import tell_usage
from ..errors import CommandRejected, RunConflict, RunEnded
from ..outbox import message_of, sent_one
from .approvals import close_approvals
from .checks import check_is_there, check_owner, check_start, run_of
from .children import stop_child
from .commands import CancelRun, EndChild, PauseRun, ResumeRun, StartRun
from .draft import Draft
from .progress import RecoverRun, SuspendRun
from .spent import check_spent
from .state import COMPLETED, PAUSE, QueuedRun, RunStatus, ThreadState

__all__ = ["cancel", "end_run", "pause", "recover", "resume", "start", "suspend"]

UNREADABLE = "Unreadable"
"""The type of the error of a run whose sealed arguments could not be opened."""

INITIAL_STATE = "initial_state"
"""The step that sets the synced state of a new thread."""


def start(thread: ThreadState, command: StartRun) -> Sequence[ThreadEvent]:
    """Start a run, let it wait, or refuse it; the same run id a second time changes nothing."""
    check_owner(thread, command.owner)
    check_start(thread, command)
    if command.run in thread.runs or any(queued.run == command.run for queued in thread.queue):
        return ()
    if command.limits is not None:
        check_spent(thread.stream, thread.spent, command.limits, command.at)
    draft = Draft(thread)
    if not thread.opened:
        draft.add(ThreadOpened(command.owner, command.title, command.at))
    if bytes(command.state) != bytes(NOTHING) and not thread.runs:
        # A thread that was opened by a schedule has not begun.
        draft.add(StateSet(command.run, INITIAL_STATE, command.state))
    if (asked := command.requester) is not None:
        draft.add(RunRequested(command.run, asked.thread, asked.run, asked.step, command.at))
    if thread.open_run is None:
        _begin(draft, command.run, command.agent, command.prompt, command.timeout, command.at)
        return draft.events
    open_run = thread.runs[thread.open_run]
    if command.concurrent == "replace":
        cancelled = RunCancelled(thread.open_run, command.owner, f"replaced by run {command.run}", command.at)
        end_run(draft, cancelled, command.at, then_next=False)
        _begin(draft, command.run, command.agent, command.prompt, command.timeout, command.at)
        return draft.events
    # What is said while somebody is asked to decide something is never lost: it is answered afterwards.
    if command.concurrent == "reject" and open_run.status is not RunStatus.SUSPENDED:
        raise RunConflict(thread=thread.stream, run=thread.open_run, status=open_run.status.value)
    # Those that waited too long are as good as gone, though the alarm may be late.
    queued = sum(waiting.expires_at > command.at for waiting in thread.queue)
    if queued >= command.queue_max:
        raise RunConflict(thread=thread.stream, run=thread.open_run, status=open_run.status.value, queued=queued)
    expires_at = command.at + command.queue_for
    draft.add(RunQueued(command.run, command.agent, command.prompt, expires_at, command.timeout, command.at))
    return draft.events


def cancel(thread: ThreadState, command: CancelRun) -> Sequence[ThreadEvent]:
    """Cancel a run that is open or waits; one that has ended stays as it is. Without a name, everything."""
    check_is_there(thread, command.owner)
    draft = Draft(thread)
    by, reason, at = command.owner, command.reason, command.at
    if command.run is None:
        for queued in thread.queue:
            draft.extend(_give_up(thread, RunCancelled(queued.run, by, reason, at), at))
        if thread.open_run is not None:
            end_run(draft, RunCancelled(thread.open_run, by, reason, at), at)
        return draft.events
    if any(queued.run == command.run for queued in thread.queue):
        return _give_up(thread, RunCancelled(command.run, by, reason, at), at)
    if not run_of(thread, command.run).status.ended:
        end_run(draft, RunCancelled(command.run, by, reason, at), at)
    return draft.events


def pause(thread: ThreadState, command: PauseRun) -> Sequence[ThreadEvent]:
    """Have a run stop before its next step."""
    check_is_there(thread, command.owner)
    run = run_of(thread, command.run)
    if run.status.ended:
        raise RunEnded(thread=thread.stream, run=command.run, status=run.status.value, what="pausing it")
    return () if run.pausing else (RunPaused(command.run, command.owner, command.reason, command.at),)


def resume(thread: ThreadState, command: ResumeRun) -> Sequence[ThreadEvent]:
    """Have a halted, parked or paused run go on."""
    check_is_there(thread, command.owner)
    run = run_of(thread, command.run)
    if run.status.ended:
        raise RunEnded(thread=thread.stream, run=command.run, status=run.status.value, what="resuming it")
    stopped = run.pausing or run.status in (RunStatus.HALTED, RunStatus.PARKED)
    return (RunResumed(command.run, command.at),) if stopped else ()


def suspend(thread: ThreadState, command: SuspendRun) -> Sequence[ThreadEvent]:
    """Suspend a run, unless one of the steps that it waits in has got what it waits for meanwhile.

    Raises:
        CommandRejected: nothing could ever wake it; a wait has to be asked for before.
    """
    run = thread.runs[command.run]
    suspended = RunSuspended(command.run, list(command.waiting), command.at)
    if PAUSE in command.waiting:
        return (suspended,) if run.pausing else ()
    holds = False
    for step in command.waiting:
        waits = [wait for wait in run.waits.values() if wait.step == step]
        if any(wait.holds(command.at) for wait in waits):
            holds = True
        elif waits or run.steps.get(step) == COMPLETED:
            # Also a step whose result was still on its way when its driver looked.
            return ()
    if not holds:
        raise CommandRejected(
            f"{thread.stream}: run {command.run} is not suspended, for nothing could wake it: {command.waiting!r} "
            "wait for nothing. Ask for what they wait for first."
        )
    return (suspended,)


def recover(thread: ThreadState, command: RecoverRun) -> Sequence[ThreadEvent]:
    """Count that a run was found open after a crash; park it when that happened too often in the same place."""
    run = thread.runs[command.run]
    recovered = RunRecovered(command.run, command.at)
    if run.recoveries < command.recoveries_max:
        return (recovered,)
    reason = f"its process ended {run.recoveries + 1} times without a new step of it being recorded"
    return (RunParked(command.run, run.recoveries + 1, reason, command.at),)


def end_run(draft: Draft, event: RunFinished | RunFailed | RunCancelled, at: int, *, then_next: bool = True) -> None:
    """End a run, with all that hangs on it: questions, children, whoever asked for it, and who waits behind it."""
    thread, run = draft.thread, event.run
    unreadable = isinstance(event, RunFailed) and event.error.type == UNREADABLE
    draft.extend(close_approvals(thread, run, at, unreadable=unreadable))
    for child in thread.children.values():
        if child.run == run:
            draft.add(stop_child(thread, child, "its parent ended", at))
    draft.extend(_tell_requester(thread, event, at))
    draft.add(event)
    if then_next:
        begin_next(draft, at)


def begin_next(draft: Draft, at: int) -> None:
    """Start the run that has waited longest, if the thread is free; those that waited too long are given up."""
    while draft.thread.open_run is None and draft.thread.queue:
        first = draft.thread.queue[0]
        if first.expires_at <= at:
            draft.extend(expire(draft.thread, first, at))
        else:
            _begin(draft, first.run, first.agent, first.prompt, first.timeout, at)


def expire(thread: ThreadState, queued: QueuedRun, at: int) -> Sequence[ThreadEvent]:
    """Give up a run that waited too long."""
    return _give_up(thread, RunCancelled(queued.run, None, "it waited too long for the thread to be free", at), at)


def _give_up(thread: ThreadState, cancelled: RunCancelled, at: int) -> Sequence[ThreadEvent]:
    return (*_tell_requester(thread, cancelled, at), cancelled)


def _begin(draft: Draft, run: str, agent: str, prompt: msgspec.Raw, timeout: int | None, at: int) -> None:
    draft.add(RunStarted(run, agent, prompt, at))
    if timeout is not None:
        draft.add(RunDeadlineSet(run, at + timeout, at))


def _tell_requester(
    thread: ThreadState, event: RunFinished | RunFailed | RunCancelled, at: int
) -> Sequence[MessageSent]:
    asked = thread.requesters.get(event.run)
    if asked is None:
        return ()
    # What a run used that ended without an answer was paid for too.
    used = tell_usage(thread.spent.run) if event.run == thread.open_run else NOTHING
    output, error, usage = NOTHING, None, used
    match event:
        case RunFinished():
            status, output, usage = "done", event.output, event.usage
            if event.stopped != "final":
                status, error = "failed", _without_answer(event.stopped)
        case RunFailed():
            status, error = "failed", event.error
        case RunCancelled():
            status, error = "cancelled", ErrorFact("RunCancelled", event.reason)
    told = EndChild(asked.run, asked.step, status, output, error, usage, at)
    return (sent_one(f"{event.run}/end", message_of(asked.thread, "child_ended", told), at),)


def _without_answer(stopped: str) -> ErrorFact:
    if stopped == "max_turns":
        return ErrorFact("MaxTurns", "it took all the turns it may take without an answer")
    return ErrorFact("RunStopped", f"it stopped before it had an answer: {stopped}")
