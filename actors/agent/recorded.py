"""What is recorded of the steps of a run and of their waits, and what becomes of a step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from ...journal import RecordedEvent
from ...journal.facts import (
    NOTHING,
    ApprovalRequested,
    ApprovalResolved,
    ChildEnded,
    ChildStarted,
    ErrorFact,
    RunPaused,
    RunResumed,
    SignalAwaited,
    SignalTaken,
    SignalTimedOut,
    StepCompleted,
    StepDelayed,
    StepDoubted,
    StepFailed,
    StepSettled,
    StepStarted,
    ThreadEvent,
)
from ..outbox import Outgoing
from ..schedule import CancelSchedule, SetSchedule
from ..thread import Artifact

__all__ = [
    "NOT_RECORDED",
    "Asked",
    "HistoryEnds",
    "Outcome",
    "Produced",
    "StepEvents",
    "Waits",
    "settled_steps",
    "waits_of",
]


class HistoryEnds(BaseException):
    """A signal: a replay came to where the recorded run was interrupted. Never caught broadly."""


class Produced(NamedTuple):
    """What a body made: its result, what sub-agents used, and what it wrote.

    `state` makes the state to set from the one there is (None: left alone); `messages` go to other actors, `schedules`
    are set or ended. `outcome` is how the approval of the call is settled. `artifacts` hold what the result leaves out.
    """

    result: msgspec.Raw
    usage: msgspec.Raw = NOTHING
    state: Callable[[msgspec.Raw | None], msgspec.Raw | None] | None = None
    messages: tuple[Outgoing, ...] = ()
    schedules: tuple[SetSchedule | CancelSchedule, ...] = ()
    outcome: str = "approved"
    artifacts: tuple[Artifact, ...] = ()


class Asked(NamedTuple):
    """A step that is asked for: its name, digests of what is asked, its body, and how its errors are described.

    `tail` are the messages since the last response, for a turn of the model. `approval` is the step that people decided
    about a tool, which is settled with this one. `needs` are steps it rests on that were not durable when it began.
    """

    name: str
    request: dict[str, str]
    body: Callable[[], Awaitable[Produced]]
    describe: Callable[[BaseException], ErrorFact]
    tail: msgspec.Raw = NOTHING
    approval: str | None = None
    needs: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """A settled step: its result, or its error; the same now and on replay."""

    result: msgspec.Raw
    usage: msgspec.Raw
    error: ErrorFact | None
    ran: bool


class StepEvents(NamedTuple):
    """What is recorded of a step.

    The event that settled it (if one did), its sequence, its attempts so far, until when the next attempt waits, the
    attempt that was claimed and has no result, and when the attempt under way must have ended. `lapsed` counts how
    often that time was given up because the attempt waited: it runs again from its beginning, with a time of its own.
    """

    settled: StepCompleted | StepFailed | None
    sequence: int
    attempts: int
    until: int | None = None
    claimed: int | None = None
    due: int | None = None
    lapsed: int = 0


NOT_RECORDED = StepEvents(None, 0, 0)

Question = ApprovalRequested | SignalAwaited | ChildStarted | StepDoubted
Answer = ApprovalResolved | SignalTaken | SignalTimedOut | ChildEnded | StepSettled


@dataclass
class Waits:
    """What the steps of a run waited for, and what they got, by the name of the step; and whether the run is to pause.

    `payloads` are those of the signals, by their ids.
    """

    asked: dict[str, Question] = field(default_factory=dict[str, Question])
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    payloads: Mapping[str, msgspec.Raw] = field(default_factory=dict[str, msgspec.Raw])
    pausing: bool = False


def waits_of(events: Iterable[ThreadEvent], payloads: Mapping[str, msgspec.Raw]) -> Waits:
    """Return what is recorded of the waits of a run, from its own events."""
    waits = Waits(payloads=payloads)
    for event in events:
        match event:
            case ApprovalRequested() | SignalAwaited() | ChildStarted():
                waits.asked[event.step] = event
            case StepDoubted():
                # A second doubt about the same step waits for an answer of its own.
                waits.asked[event.step] = event
                waits.answers.pop(event.step, None)
            case ApprovalResolved() | SignalTaken() | SignalTimedOut() | ChildEnded() | StepSettled():
                waits.answers[event.step] = event
            case RunPaused():
                waits.pausing = True
            case RunResumed():
                waits.pausing = False
            case _:
                pass
    return waits


def settled_steps(
    run: str, events: Iterable[tuple[RecordedEvent, ThreadEvent]], *, resume: bool
) -> dict[str, StepEvents]:
    """Return what is recorded of the steps of a run, by name.

    With `resume`, a failure that is the last thing recorded of a run that did not end is forgotten, so that the step
    is tried again: the process died before it could say what the failure meant.
    """
    steps: dict[str, StepEvents] = {}
    last: ThreadEvent | None = None
    said = set[str]()
    for recorded, event in events:
        match event:
            case StepCompleted() if event.run == run:
                before = steps.get(event.step, NOT_RECORDED)
                steps[event.step] = StepEvents(event, recorded.sequence, before.attempts)
                last = event
            case StepFailed() if event.run == run:
                steps[event.step] = StepEvents(event if event.final else None, recorded.sequence, event.attempt)
                if not event.final:
                    _reopen_within(steps, event.step)
                # What somebody said to have failed did fail; only the process's own last word may have been cut off.
                last = None if event.step in said else event
            case StepDelayed() if event.run == run:
                steps[event.step] = steps[event.step]._replace(until=event.until)
            case StepStarted() if event.run == run:
                before = steps.get(event.step, NOT_RECORDED)
                claimed = event.attempt if event.claimed else None
                steps[event.step] = before._replace(claimed=claimed, due=event.due, until=None)
            case StepSettled() if event.run == run:
                before = steps.get(event.step, NOT_RECORDED)
                # An attempt that nobody knows the end of counts, and its time is over.
                steps[event.step] = before._replace(claimed=None, due=None, attempts=before.claimed or before.attempts)
                said.add(event.step)
            case ApprovalRequested() | SignalAwaited() | ChildStarted() if event.run == run:
                _lapse(steps, event)
            case _:
                pass
    if resume and isinstance(last, StepFailed) and steps[last.step].settled is not None:
        steps[last.step] = StepEvents(None, 0, steps[last.step].attempts)
    return steps


def _lapse(steps: dict[str, StepEvents], asked: ApprovalRequested | SignalAwaited | ChildStarted) -> None:
    """Give up the time by which an attempt must have ended that waits now, itself or in a step within it."""
    parts = asked.step.split("/")
    around = ["/".join(parts[:number]) for number in range(1, len(parts))]
    for name in (*around, asked.call) if isinstance(asked, ApprovalRequested) else around:
        if (known := steps.get(name)) is not None and known.due is not None:
            steps[name] = known._replace(due=None, lapsed=known.lapsed + 1)


def _reopen_within(steps: dict[str, StepEvents], step: str) -> None:
    """Let what failed within a step be tried again with it; what has its result keeps it."""
    for name, known in steps.items():
        if name.startswith(f"{step}/") and isinstance(known.settled, StepFailed):
            steps[name] = known._replace(settled=None)
