"""What can happen in a conversation.

The names, versions and field names here are stored for ever: changing one means a new version, an upcaster and a
golden history. Times are nanoseconds since the epoch, UTC, as the command brought them. JSON that comes from models
and tools is kept raw, as it was.
"""

from __future__ import annotations

import msgspec

from ..event import event
from .error import NOTHING, ErrorFact

__all__ = [
    "RunCancelled",
    "RunFailed",
    "RunFinished",
    "RunHalted",
    "RunResumed",
    "RunStarted",
    "StateSet",
    "StepCompleted",
    "StepFailed",
    "ThreadOpened",
]


@event("thread.opened", version=1)
class ThreadOpened(msgspec.Struct, frozen=True):
    """A conversation began; its owner is fixed for ever."""

    owner: str | None
    title: str | None
    at: int


@event("run.started", version=1)
class RunStarted(msgspec.Struct, frozen=True):
    """Somebody asked for an answer; `prompt` is text or a list of user content."""

    run: str
    agent: str
    prompt: msgspec.Raw
    at: int


@event("step.completed", version=1)
class StepCompleted(msgspec.Struct, frozen=True):
    """A step of a run ended with a result, and never runs again.

    `request` are short digests of what was asked, by field. For a turn of the model, `tail` holds the messages since
    the last response, with what the journal already has left out; `usage` is what sub-agents used within a tool.
    """

    run: str
    step: str
    request: dict[str, str]
    result: msgspec.Raw
    at: int
    tail: msgspec.Raw = NOTHING
    usage: msgspec.Raw = NOTHING


@event("step.failed", version=1)
class StepFailed(msgspec.Struct, frozen=True):
    """An attempt at a step raised. When `final`, the error is the step's outcome; otherwise it is tried again."""

    run: str
    step: str
    request: dict[str, str]
    attempt: int
    final: bool
    error: ErrorFact
    at: int
    tail: msgspec.Raw = NOTHING


@event("state.set", version=1)
class StateSet(msgspec.Struct, frozen=True):
    """A step replaced the thread's synced state; recorded together with the step's completion."""

    run: str
    step: str
    value: msgspec.Raw


@event("run.finished", version=1)
class RunFinished(msgspec.Struct, frozen=True):
    """How a run ended: `output` is its answer, `tail` what was said last.

    `stopped` says why: `final`, `max_turns`, `stop_condition` or `budget`; only a `final` one has an answer.
    """

    run: str
    stopped: str
    output: msgspec.Raw
    usage: msgspec.Raw
    tail: msgspec.Raw
    at: int


@event("run.failed", version=1)
class RunFailed(msgspec.Struct, frozen=True):
    """A run ended with an error; the thread stays usable."""

    run: str
    error: ErrorFact
    at: int


@event("run.cancelled", version=1)
class RunCancelled(msgspec.Struct, frozen=True):
    """Somebody stopped a run; what arrives late for it is refused."""

    run: str
    by: str | None
    reason: str
    at: int


@event("run.halted", version=1)
class RunHalted(msgspec.Struct, frozen=True):
    """Recovery met something else than was recorded, and stopped rather than guess."""

    run: str
    step: str
    sequence: int
    field: str
    expected: str
    actual: str
    at: int


@event("run.resumed", version=1)
class RunResumed(msgspec.Struct, frozen=True):
    """A halted run goes on."""

    run: str
    at: int
