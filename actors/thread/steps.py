"""What a conversation decides about the steps of its open run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ...journal.facts import (
    NOTHING,
    ArtifactStored,
    ErrorFact,
    StateSet,
    StepCompleted,
    StepDelayed,
    StepDoubted,
    StepFailed,
    StepSettled,
    StepStarted,
    ThreadEvent,
)
from ..errors import CommandRejected, UnknownSchedule
from ..outbox import sent
from .approvals import close_questions, settle_call
from .checks import check_is_there, run_of
from .children import close_children
from .commands import ChangeSchedule, SettleStep
from .draft import Draft
from .progress import CompleteStep, DoubtStep, FailStep, StartStep
from .scheduling import change_schedule
from .signals import close_signal_waits
from .state import COMPLETED, RunState, ThreadState, approval_key, wait_key

__all__ = ["complete", "doubt", "fail", "settle", "start_step"]

OUTCOMES = ("result", "retry", "fail")


def complete(thread: ThreadState, run: RunState, command: CompleteStep) -> Sequence[ThreadEvent]:
    """Record a step with the state it set and the messages it sent: all or none survives a crash."""
    # Also after a failure for good: the process may have died before the run ended of it, and tried again.
    if run.steps.get(command.step) == COMPLETED:
        return ()
    if lost := [step for step in command.needs if run.steps.get(step) != COMPLETED]:
        raise CommandRejected(
            f"{thread.stream}: step {command.step} rests on {', '.join(lost)}, which did not become durable. Drive the "
            "run again from what is recorded."
        )
    events: list[ThreadEvent] = []
    if command.state is not None:
        events.append(StateSet(command.run, command.step, command.state))
    events += [ArtifactStored(command.run, command.step, a.id, a.content, command.at) for a in command.artifacts]
    events.append(
        StepCompleted(
            command.run, command.step, command.request, command.result, command.at, command.tail, command.usage
        )
    )
    events += sent(f"{command.run}/{command.step}", command.messages, command.at)
    events += _schedules(thread, command)
    events += settle_call(thread, command.run, command.approval, command.outcome, command.at)
    events += _close_within(thread, command.run, command.step, command.approval, command.at)
    return events


def _schedules(thread: ThreadState, command: CompleteStep) -> Sequence[ThreadEvent]:
    """Return the changes to schedules that a step made; one that ends what is over already changes nothing."""
    draft = Draft(thread)
    for change in command.schedules:
        with suppress(UnknownSchedule):
            draft.extend(change_schedule(draft.thread, ChangeSchedule(change, thread.owner)))
    return draft.events


def fail(thread: ThreadState, run: RunState, command: FailStep) -> Sequence[ThreadEvent]:
    """Record that an attempt at a step raised, and when the next one may be."""
    known = run.steps.get(command.step)
    if known is not None and (known == COMPLETED or command.attempt <= known):
        return ()
    failed = StepFailed(
        command.run,
        command.step,
        command.request,
        command.attempt,
        command.final,
        command.error,
        command.at,
        command.tail,
    )
    if command.until is not None and not command.final:
        return failed, StepDelayed(command.run, command.step, command.attempt, command.until, command.at)
    if command.final:
        return failed, *settle_call(thread, command.run, command.approval, "approved", command.at)
    return (failed,)


def start_step(thread: ThreadState, run: RunState, command: StartStep) -> Sequence[ThreadEvent]:
    """Let an attempt at a step begin, unless it may not: it was claimed before, or is not approved."""
    if run.claimed.get(command.step) is not None or run.steps.get(command.step) == COMPLETED:
        raise CommandRejected(
            f"{thread.stream}: step {command.step} of run {command.run} was begun before and may run once at the most."
        )
    if command.approval is not None:
        asked = thread.approvals.get(approval_key(command.run, command.approval))
        if asked is None or asked.decision != "approved" or asked.call != command.step:
            raise CommandRejected(
                f"{thread.stream}: {command.step} of run {command.run} is not approved; it did not run."
            )
    return (
        StepStarted(
            command.run,
            command.step,
            command.attempt,
            command.claimed,
            command.approval,
            command.due,
            command.at,
        ),
    )


def doubt(run: RunState, command: DoubtStep) -> Sequence[ThreadEvent]:
    """Ask for somebody to settle a step that was claimed and has no result."""
    wait = run.waits.get(wait_key("doubt", command.step))
    asked = wait is not None and not wait.settled
    if asked or command.step not in run.claimed:
        return ()
    return (StepDoubted(command.run, command.step, command.at),)


def settle(thread: ThreadState, command: SettleStep) -> Sequence[ThreadEvent]:
    """Take somebody's word for what came of a step in doubt."""
    check_is_there(thread, command.owner)
    run = run_of(thread, command.run)
    if command.outcome not in OUTCOMES:
        raise CommandRejected(
            f"{thread.stream}: a step is settled with one of {', '.join(OUTCOMES)}, not {command.outcome!r}."
        )
    wait = run.waits.get(wait_key("doubt", command.step))
    if wait is None or wait.settled:
        raise CommandRejected(
            f"{thread.stream}: step {command.step} of run {command.run} is not in doubt, so there is nothing to settle."
        )
    settled = StepSettled(command.run, command.step, command.outcome, command.by, command.at)
    call = next(
        (a.step for a in thread.approvals.values() if a.run == command.run and a.call == command.step and a.spent), None
    )
    if command.outcome == "retry":
        return (settled,)
    done = settle_call(thread, command.run, call, "approved", command.at)
    if command.outcome == "result":
        completed = StepCompleted(command.run, command.step, {}, command.result, command.at)
        return settled, completed, *done, *_close_within(thread, command.run, command.step, call, command.at)
    error = command.error or ErrorFact("StepFailed", "somebody said that it failed")
    attempt = run.claimed.get(command.step, 1)
    failed = StepFailed(command.run, command.step, {}, attempt, True, error, command.at, NOTHING)  # noqa: FBT003
    return settled, failed, *done


def _close_within(thread: ThreadState, run: str, step: str, settled: str | None, at: int) -> Sequence[ThreadEvent]:
    """Return the ends of what a step with a result, or a step within it, still waits for, and of what it asked."""
    asked = close_questions(thread, run, step, settled, at)
    return *asked, *close_signal_waits(thread, run, step, at), *close_children(thread, run, step, at)
