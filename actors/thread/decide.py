"""What a conversation decides. Pure: asking the same twice changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ...journal.facts import (
    RunCancelled,
    RunFailed,
    RunFinished,
    RunHalted,
    RunResumed,
    RunStarted,
    StateSet,
    StepCompleted,
    StepFailed,
    ThreadEvent,
    ThreadOpened,
)
from ..decider import Decider
from ..errors import CommandRejected, RunConflict, RunEnded, UnknownRun, UnknownThread
from .commands import (
    CancelRun,
    CompleteStep,
    FailRun,
    FailStep,
    FinishRun,
    HaltRun,
    ResumeRun,
    StartRun,
    ThreadCommand,
)
from .state import COMPLETED, RunState, RunStatus, ThreadState, effects, evolve

__all__ = ["RUN_ID_LENGTH_MAX", "thread_decider"]

RUN_ID_LENGTH_MAX = 128


def _answer(thread: ThreadState, _: Sequence[ThreadEvent]) -> ThreadState:
    return thread


def _decide(thread: ThreadState, command: ThreadCommand) -> Sequence[ThreadEvent]:
    match command:
        case StartRun():
            return _start(thread, command)
        case CancelRun():
            return _cancel(thread, command)
        case ResumeRun():
            return _resume(thread, command)
        case _:
            return _progress(thread, command)


def _start(thread: ThreadState, command: StartRun) -> Sequence[ThreadEvent]:
    _check_owner(thread, command.owner)
    _check_names(thread, command)
    if command.run in thread.runs:
        return ()
    if thread.open_run is not None:
        open_run = thread.runs[thread.open_run]
        raise RunConflict(thread=thread.stream, run=thread.open_run, status=open_run.status.value)
    started = RunStarted(command.run, command.agent, command.prompt, command.at)
    if thread.opened:
        return (started,)
    return (ThreadOpened(command.owner, command.title, command.at), started)


def _cancel(thread: ThreadState, command: CancelRun) -> Sequence[ThreadEvent]:
    _check_is_there(thread, command.owner)
    run = _run(thread, command.run)
    if run.status.ended:
        return ()
    return (RunCancelled(command.run, command.owner, command.reason, command.at),)


def _resume(thread: ThreadState, command: ResumeRun) -> Sequence[ThreadEvent]:
    _check_is_there(thread, command.owner)
    run = _run(thread, command.run)
    if run.status.ended:
        raise RunEnded(thread=thread.stream, run=command.run, status=run.status.value, what="resuming it")
    return (RunResumed(command.run, command.at),) if run.status is RunStatus.HALTED else ()


def _progress(
    thread: ThreadState, command: CompleteStep | FailStep | FinishRun | FailRun | HaltRun
) -> Sequence[ThreadEvent]:
    """Take what the driver of a run reports, unless the run is over."""
    run = _run(thread, command.run)
    if run.status is not RunStatus.RUNNING:
        what = getattr(command, "step", type(command).__name__)
        raise RunEnded(thread=thread.stream, run=command.run, status=run.status.value, what=str(what))
    known = run.steps.get(command.step) if isinstance(command, CompleteStep | FailStep) else None
    match command:
        case CompleteStep() | FailStep() if known == COMPLETED:
            return ()
        case CompleteStep():
            # Also after a failure for good: the process may have died before the run ended of it, and tried again.
            return _complete(command)
        case FailStep() if known is not None and command.attempt <= known:
            return ()
        case FailStep():
            return (
                StepFailed(
                    command.run,
                    command.step,
                    command.request,
                    command.attempt,
                    command.final,
                    command.error,
                    command.at,
                    command.tail,
                ),
            )
        case FinishRun():
            return (RunFinished(command.run, command.stopped, command.output, command.usage, command.tail, command.at),)
        case FailRun():
            return (RunFailed(command.run, command.error, command.at),)
        case HaltRun():
            return (
                RunHalted(
                    command.run,
                    command.step,
                    command.sequence,
                    command.field,
                    command.expected,
                    command.actual,
                    command.at,
                ),
            )


def _complete(command: CompleteStep) -> Sequence[ThreadEvent]:
    """Record a step together with the state it set: all or none survives a crash."""
    completed = StepCompleted(
        command.run, command.step, command.request, command.result, command.at, command.tail, command.usage
    )
    if command.state is None:
        return (completed,)
    return (StateSet(command.run, command.step, command.state), completed)


def _check_owner(thread: ThreadState, principal: str | None) -> None:
    """Let only the owner in; a thread without an owner is open to whoever knows its key."""
    if thread.owner is not None and thread.owner != principal:
        raise UnknownThread(thread=thread.stream)


def _check_is_there(thread: ThreadState, principal: str | None) -> None:
    """Refuse what is about a thread that is not there just as if it were someone else's."""
    if not thread.opened:
        raise UnknownThread(thread=thread.stream)
    _check_owner(thread, principal)


def _check_names(thread: ThreadState, command: StartRun) -> None:
    run = command.run
    if not 0 < len(run) <= RUN_ID_LENGTH_MAX or "/" in run or not run.isprintable():
        reason = f"a run id is printable text without a slash, at most {RUN_ID_LENGTH_MAX} characters"
        raise CommandRejected(f"{thread.stream}: {run!r} is not a run id: {reason}. Choose another one.")
    if command.owner is not None and not command.owner.strip():
        # An identity that was missing somewhere on the way must not become an owner that all such callers share.
        raise CommandRejected(
            f"{thread.stream}: {command.owner!r} owns nothing: give an owner's name, or None for none."
        )


def _run(thread: ThreadState, name: str) -> RunState:
    run = thread.runs.get(name)
    if run is None:
        raise UnknownRun(thread=thread.stream, run=name)
    return run


thread_decider = Decider[ThreadState, ThreadCommand, ThreadEvent, ThreadState](
    initial=ThreadState(), decide=_decide, evolve=evolve, answer=_answer, effects=effects
)
"""The pure half of a conversation; it answers every command with its state."""
