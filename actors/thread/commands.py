"""What can be asked of a conversation. Times arrive with the command, in nanoseconds since the epoch, UTC."""

from __future__ import annotations

import msgspec

from ...journal.facts import NOTHING, ErrorFact

__all__ = [
    "CancelRun",
    "CompleteStep",
    "FailRun",
    "FailStep",
    "FinishRun",
    "HaltRun",
    "ResumeRun",
    "StartRun",
    "ThreadCommand",
]


class StartRun(msgspec.Struct, frozen=True):
    """Open the thread if it is new, and start a run in it."""

    run: str
    agent: str
    prompt: msgspec.Raw
    owner: str | None
    title: str | None
    at: int


class CompleteStep(msgspec.Struct, frozen=True):
    """Record the result of a step, with the state it set, in one append."""

    run: str
    step: str
    request: dict[str, str]
    result: msgspec.Raw
    at: int
    tail: msgspec.Raw = NOTHING
    usage: msgspec.Raw = NOTHING
    state: msgspec.Raw | None = None


class FailStep(msgspec.Struct, frozen=True):
    """Record that an attempt at a step raised."""

    run: str
    step: str
    request: dict[str, str]
    attempt: int
    final: bool
    error: ErrorFact
    at: int
    tail: msgspec.Raw = NOTHING


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


class CancelRun(msgspec.Struct, frozen=True):
    """Stop a run, wherever it is. `owner` is who is acting: to anyone else the run does not exist."""

    run: str
    owner: str | None
    reason: str
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


class ResumeRun(msgspec.Struct, frozen=True):
    """Drive a halted run again."""

    run: str
    owner: str | None
    at: int


ThreadCommand = StartRun | CompleteStep | FailStep | FinishRun | FailRun | CancelRun | HaltRun | ResumeRun
