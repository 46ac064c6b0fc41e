"""What is recorded of the steps of a run, and what becomes of one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

import msgspec

from ...journal import RecordedEvent
from ...journal.facts import NOTHING, ErrorFact, StepCompleted, StepFailed, ThreadEvent

__all__ = ["NOT_RECORDED", "Asked", "HistoryEnds", "Outcome", "Produced", "StepEvents", "settled_steps"]


class HistoryEnds(BaseException):
    """A signal: a replay came to where the recorded run was interrupted. Never caught broadly."""


class Produced(NamedTuple):
    """What a body made: its result, what sub-agents used, and the state it set (None: left alone)."""

    result: msgspec.Raw
    usage: msgspec.Raw = NOTHING
    state: msgspec.Raw | None = None


class Asked(NamedTuple):
    """A step that is asked for: its name, digests of what is asked, its body, and how its errors are described.

    `tail` are the messages since the last response, for a turn of the model.
    """

    name: str
    request: dict[str, str]
    body: Callable[[], Awaitable[Produced]]
    describe: Callable[[BaseException], ErrorFact]
    tail: msgspec.Raw = NOTHING


class Outcome(NamedTuple):
    """A settled step: its result, or its error; the same now and on replay."""

    result: msgspec.Raw
    usage: msgspec.Raw
    error: ErrorFact | None
    ran: bool


class StepEvents(NamedTuple):
    """What is recorded of a step: the event that settled it (if one did), its sequence, and its attempts so far."""

    settled: StepCompleted | StepFailed | None
    sequence: int
    attempts: int


NOT_RECORDED = StepEvents(None, 0, 0)


def settled_steps(
    run: str, events: Iterable[tuple[RecordedEvent, ThreadEvent]], *, resume: bool
) -> dict[str, StepEvents]:
    """Return what is recorded of the steps of a run, by name.

    With `resume`, a failure that is the last thing recorded of a run that did not end is forgotten, so that the step
    is tried again: the process died before it could say what the failure meant.
    """
    steps: dict[str, StepEvents] = {}
    last: str | None = None
    for recorded, event in events:
        if not isinstance(event, StepCompleted | StepFailed) or event.run != run:
            continue
        before = steps.get(event.step, NOT_RECORDED)
        final = isinstance(event, StepCompleted) or event.final
        attempts = event.attempt if isinstance(event, StepFailed) else before.attempts
        steps[event.step] = StepEvents(event if final else None, recorded.sequence, attempts)
        last = event.step
    if resume and last is not None and isinstance(steps[last].settled, StepFailed):
        steps[last] = StepEvents(None, 0, steps[last].attempts)
    return steps
