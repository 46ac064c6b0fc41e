"""Where a conversation may be cut in two, and how its first part is known again in a later run.

A call and its results stay together, and what is kept begins with what a model may be asked to begin with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

import msgspec
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, UserPromptPart

from .meaning import meaning_of
from .wire import dump_message

__all__ = ["PartDigests", "cut_at", "places", "split_at"]

_Known = tuple[ModelMessage, tuple[bytes, ...]]

_ENCODER = msgspec.json.Encoder(order="sorted")


def cut_at(messages: Sequence[ModelMessage], *, least: int, keep: int) -> int | None:
    """Return where the older messages end, so that at least the last `keep` are kept; None where there is no place.

    It is after `least`, and as late as it can be.
    """
    allowed = places(messages)
    return next((at for at in range(len(messages) - keep, least, -1) if at in allowed), None)


def places(messages: Sequence[ModelMessage]) -> frozenset[int]:
    """Return the places before which a conversation may be cut.

    Every call before such a place has its results before it too, and a response follows it, or a message of the user.
    """
    found: set[int] = set()
    open_calls: set[str] = set()
    for at, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            if at and not open_calls:
                found.add(at)
            open_calls |= {part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)}
            continue
        if at and not open_calls and _is_asked(message):
            found.add(at)
        # Results come as parts of several kinds, also of kinds that a later pydantic-ai may add.
        open_calls -= _answered(message)
    return frozenset(found)


def _is_asked(message: ModelRequest) -> bool:
    return any(isinstance(part, UserPromptPart) for part in message.parts)


def _answered(message: ModelRequest) -> set[str]:
    """Return the ids of the calls that a request holds results of, or what is said in their place."""
    ids = (getattr(part, "tool_call_id", None) for part in message.parts)
    return {id_ for id_ in ids if isinstance(id_, str)}


class PartDigests:
    """Digests of the parts of messages; what was seen before is not encoded again.

    They go over parts, because pydantic-ai joins requests that follow each other: the parts stay, and their order.
    """

    def __init__(self) -> None:
        # The message is kept beside its digests, so that its id is not given to another one.
        self._known: dict[int, _Known] = {}

    def of_first(self, messages: Sequence[ModelMessage], parts: int) -> str | None:
        """Return the digest over the first `parts` parts of a conversation; None where it has fewer.

        What is not among them is forgotten: messages that somebody makes anew for each request would pile up.
        """
        chained, before, self._known = sha256(), self._known, {}
        for message in messages:
            digests = self._of(message, before)
            for digest in digests[:parts]:
                chained.update(digest)
            parts -= len(digests[:parts])
            if not parts:
                return chained.hexdigest()[:16]
        return None

    def _of(self, message: ModelMessage, before: Mapping[int, _Known]) -> tuple[bytes, ...]:
        """Return the digest of each part of a message."""
        known = before.get(id(message))
        if known is None:
            parts = meaning_of(dump_message(message))["parts"]
            known = message, tuple(sha256(_ENCODER.encode([message.kind, part])).digest() for part in parts)
        self._known[id(message)] = known
        return known[1]


def split_at(messages: Sequence[ModelMessage], parts: int) -> tuple[list[ModelMessage], int]:
    """Return messages that can be cut behind their first `parts` parts, and the place of the cut.

    A request that was joined of two since is taken apart again.
    """
    for at, message in enumerate(messages):
        if not parts:
            return list(messages), at
        if parts < len(message.parts):
            first = replace(message, parts=message.parts[:parts])
            rest = replace(message, parts=message.parts[parts:])
            return [*messages[:at], first, rest, *messages[at + 1 :]], at + 1
        parts -= len(message.parts)
    return list(messages), len(messages)
