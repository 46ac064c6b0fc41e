"""What a conversation decides. Pure: asking the same twice changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ...journal.facts import RunCancelled, RunFailed, RunFinished, RunHalted, ThreadEvent
from ..decider import Decider
from ..errors import RunEnded
from ..outbox import Acknowledge
from . import approvals, children, runs, scheduling, signals, steps
from .alarm import alarm
from .checks import RUN_ID_LENGTH_MAX, run_of
from .commands import (
    AlarmFired,
    CancelRun,
    ChangeSchedule,
    EndChild,
    NoteNotified,
    PauseRun,
    ResolveApproval,
    ResumeRun,
    SendSignal,
    SettleStep,
    StartRun,
    ThreadCommand,
)
from .draft import Draft
from .evolve import evolve
from .progress import (
    AwaitSignal,
    CompleteStep,
    DoubtStep,
    FailRun,
    FailStep,
    FinishRun,
    HaltRun,
    Progress,
    RecoverRun,
    RequestApproval,
    StartChild,
    StartStep,
    SuspendRun,
)
from .state import RunState, RunStatus, ThreadState, due, effects

__all__ = ["RUN_ID_LENGTH_MAX", "thread_decider"]


def _answer(thread: ThreadState, _: Sequence[ThreadEvent]) -> ThreadState:
    return thread


def _decide(thread: ThreadState, command: ThreadCommand) -> tuple[ThreadEvent, ...]:
    return tuple(_events(thread, command))


def _events(thread: ThreadState, command: ThreadCommand) -> Sequence[ThreadEvent]:  # noqa: C901, PLR0912  (one case a command)
    match command:
        case StartRun():
            return runs.start(thread, command)
        case CancelRun():
            return runs.cancel(thread, command)
        case PauseRun():
            return runs.pause(thread, command)
        case ResumeRun():
            return runs.resume(thread, command)
        case ResolveApproval():
            return approvals.resolve(thread, command)
        case NoteNotified():
            return approvals.notified(thread, command)
        case SettleStep():
            return steps.settle(thread, command)
        case SendSignal():
            return signals.send(thread, command)
        case EndChild():
            return children.end_child(thread, command)
        case Acknowledge():
            return children.delivered(thread, command)
        case ChangeSchedule():
            return scheduling.change_schedule(thread, command)
        case AlarmFired():
            return alarm(thread, command.at)
        case _:
            return _progress(thread, _driven(thread, command), command)


def _driven(thread: ThreadState, command: Progress) -> RunState:
    """Return the run that a driver reports about, unless it is over, or is not driven any more."""
    run = run_of(thread, command.run)
    if run.status is not RunStatus.RUNNING:
        what = getattr(command, "step", type(command).__name__)
        raise RunEnded(thread=thread.stream, run=command.run, status=run.status.value, what=str(what))
    return run


def _progress(thread: ThreadState, run: RunState, command: Progress) -> Sequence[ThreadEvent]:  # noqa: C901  (as above)
    """Take what the driver of a run reports."""
    match command:
        case CompleteStep():
            return steps.complete(thread, run, command)
        case FailStep():
            return steps.fail(thread, run, command)
        case StartStep():
            return steps.start_step(thread, run, command)
        case DoubtStep():
            return steps.doubt(run, command)
        case RequestApproval():
            return approvals.request(thread, command)
        case AwaitSignal():
            return signals.await_signal(thread, run, command)
        case StartChild():
            return children.start_child(thread, run, command)
        case SuspendRun():
            return runs.suspend(thread, command)
        case RecoverRun():
            return runs.recover(thread, command)
        case HaltRun():
            return (_halted(command),)
        case FinishRun() | FailRun():
            draft = Draft(thread)
            runs.end_run(draft, _end(command), command.at)
            return draft.events


def _end(command: FinishRun | FailRun) -> RunFinished | RunFailed | RunCancelled:
    if isinstance(command, FailRun):
        return RunFailed(command.run, command.error, command.at)
    return RunFinished(command.run, command.stopped, command.output, command.usage, command.tail, command.at)


def _halted(command: HaltRun) -> RunHalted:
    return RunHalted(
        command.run, command.step, command.sequence, command.field, command.expected, command.actual, command.at
    )


thread_decider = Decider[ThreadState, ThreadCommand, ThreadEvent, ThreadState](
    initial=ThreadState(), decide=_decide, evolve=evolve, answer=_answer, effects=effects, due=due
)
"""The pure half of a conversation; it answers every command with its state."""
