"""Recorded events in a few words, and whole for programs."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from ...journal import Catalog, RecordedEvent
from ...journal.facts import THREAD_EVENTS, ErrorFact, StepCompleted, StepFailed
from .render import one_line

__all__ = ["CATALOG", "EventLine", "call_text", "error_text", "line_of", "value_text", "words_of"]

CATALOG = Catalog(*THREAD_EVENTS)

Json = dict[str, Any]

_SEALED: Final = {frozenset({"clew_sealed"}), frozenset({"sealed", "key", "nonce", "data"})}
"""What is in the place of sealed arguments, in a response of the model and in a question for people."""


class EventLine(msgspec.Struct, frozen=True):
    """An event as programs get it: its place, why it happened, its digest, and its canonical form as `record`."""

    stream: str
    sequence: int
    position: int
    recorded_at: int
    cause: str
    digest: str
    record: msgspec.Raw


def line_of(event: RecordedEvent) -> EventLine:
    """Return an event for programs."""
    return EventLine(
        stream=event.stream,
        sequence=event.sequence,
        position=event.position,
        recorded_at=event.recorded_at,
        cause=event.cause,
        digest=event.digest.hex(),
        record=msgspec.Raw(event.canonical),
    )


def words_of(fact: StepCompleted | StepFailed) -> str:
    """Return what came of a step, in a few words."""
    if isinstance(fact, StepFailed):
        return f"failed{'' if fact.final else ', will be tried again'}: {error_text(fact.error)}"
    result: object = msgspec.json.decode(fact.result)
    if not isinstance(result, dict):
        return value_text(result)
    fields = cast("Json", result)
    if "parts" in fields:
        return ", ".join(_part_text(part) for part in cast("list[Json]", fields["parts"])) or "(nothing)"
    for key in ("result", "message", "brief", "refused"):
        if key in fields:
            return value_text(fields[key])
    return value_text(fields)


def call_text(part: Json) -> str:
    """Return a tool call as it would be written in Python."""
    args: object = part.get("args")
    if isinstance(args, dict) and frozenset(cast("Json", args)) in _SEALED:
        return f"{part['tool_name']}(sealed)"
    if isinstance(args, str):
        try:
            args = msgspec.json.decode(args)
        except msgspec.MsgspecError:
            return f"{part['tool_name']}({args})"
    named = cast("Json", args).items() if isinstance(args, dict) else ()
    return f"{part['tool_name']}({', '.join(f'{key}={_quoted(value)}' for key, value in named)})"


def value_text(value: object) -> str:
    """Return a JSON value as text; text stands for itself."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def error_text(error: ErrorFact) -> str:
    """Return an error as Python would print it."""
    return one_line(f"{error.type}: {error.message}")


def _part_text(part: Json) -> str:
    kind = str(part.get("part_kind", ""))
    if kind.endswith("tool-call"):
        return call_text(part)
    content: object = part.get("content")
    return content if kind == "text" and isinstance(content, str) else f"({kind})"


def _quoted(value: object) -> str:
    return msgspec.json.encode(value).decode()
