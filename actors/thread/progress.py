"""What the driver of a run reports to its thread. Times arrive with it, in nanoseconds since the epoch, UTC."""

from __future__ import annotations

import msgspec

from ...journal.facts import NOTHING, ErrorFact
from ..outbox import Outgoing
from ..schedule import CancelSchedule, SetSchedule

__all__ = [
    "Artifact",
    "AwaitSignal",
    "CompleteStep",
    "DoubtStep",
    "FailRun",
    "FailStep",
    "FinishRun",
    "HaltRun",
    "Progress",
    "RecoverRun",
    "RequestApproval",
    "StartChild",
    "StartStep",
    "SuspendRun",
]


class Artifact(msgspec.Struct, frozen=True):
    """The whole of a result that was too long for the model."""

    id: str
    content: msgspec.Raw


class CompleteStep(msgspec.Struct, frozen=True):
    """Record the result of a step, with the state and schedules it set and the messages it sent, in one append.

    `artifacts` hold what the result leaves out. `approval` is the approval that it settles, and `outcome` how. `needs`
    are steps that it rests on and that were not durable when it began.
    """

    run: str
    step: str
    request: dict[str, str]
    result: msgspec.Raw
    at: int
    tail: msgspec.Raw = NOTHING
    usage: msgspec.Raw = NOTHING
    state: msgspec.Raw | None = None
    messages: tuple[Outgoing, ...] = ()
    schedules: tuple[SetSchedule | CancelSchedule, ...] = ()
    approval: str | None = None
    outcome: str = "approved"
    needs: tuple[str, ...] = ()
    artifacts: tuple[Artifact, ...] = ()


class FailStep(msgspec.Struct, frozen=True):
    """Record that an attempt at a step raised; with `until`, it is tried again then."""

    run: str
    step: str
    request: dict[str, str]
    attempt: int
    final: bool
    error: ErrorFact
    at: int
    tail: msgspec.Raw = NOTHING
    until: int | None = None
    approval: str | None = None


class StartStep(msgspec.Struct, frozen=True):
    """Record that an attempt at a step is about to run: it is claimed, spends an approval or has a deadline."""

    run: str
    step: str
    attempt: int
    claimed: bool
    approval: str | None
    due: int | None
    at: int


class DoubtStep(msgspec.Struct, frozen=True):
    """Record that nobody knows what came of a step that was claimed."""

    run: str
    step: str
    at: int


class FinishRun(msgspec.Struct, frozen=True):
    """End a run with its answer."""

    run: str
    stopped: str
    output: msgspec.Raw
    usage: msgspec.Raw
    tail: msgspec.Raw
    at: int


class FailRun(msgspec.Struct, frozen=True):
    """End a run with an error."""

    run: str
    error: ErrorFact
    at: int


class HaltRun(msgspec.Struct, frozen=True):
    """Stop driving a run because the loop asked for something else than was recorded."""

    run: str
    step: str
    sequence: int
    field: str
    expected: str
    actual: str
    at: int


class SuspendRun(msgspec.Struct, frozen=True):
    """Stop driving a run that cannot go on before one of the steps it waits in is settled."""

    run: str
    waiting: tuple[str, ...]
    at: int


class RecoverRun(msgspec.Struct, frozen=True):
    """Say that a run was found open after a crash; it is left alone after `recoveries_max` times in the same place."""

    run: str
    recoveries_max: int
    at: int


class RequestApproval(msgspec.Struct, frozen=True):
    """Ask people whether a tool may be called."""

    run: str
    step: str
    tool: str
    call: str
    arguments: msgspec.Raw
    fingerprint: str
    principal: str
    policy: str
    notify: bool
    expires_at: int
    at: int


class AwaitSignal(msgspec.Struct, frozen=True):
    """Wait in a step for the next signal of a name."""

    run: str
    step: str
    name: str
    due: int | None
    at: int


class StartChild(msgspec.Struct, frozen=True):
    """Ask another thread for a run, for a step that waits for its end; `state` is as for `StartRun`."""

    run: str
    step: str
    agent: str
    thread: str
    child_run: str
    prompt: msgspec.Raw
    due: int
    at: int
    state: msgspec.Raw = NOTHING


Progress = (
    CompleteStep
    | FailStep
    | StartStep
    | DoubtStep
    | FinishRun
    | FailRun
    | HaltRun
    | SuspendRun
    | RecoverRun
    | RequestApproval
    | AwaitSignal
    | StartChild
)
