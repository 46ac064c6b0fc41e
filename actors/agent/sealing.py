"""Arguments at rest: in plain JSON, or sealed with a key that the journal does not hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol, TypeGuard, cast

import msgspec

from ...projections import Message

__all__ = [
    "NO_SEAL",
    "SEALED",
    "Plain",
    "Seal",
    "Unreadable",
    "close_calls",
    "close_result",
    "open_calls",
    "open_history",
    "open_result",
    "place_of_result",
]


class Unreadable(Exception):
    """Stored arguments cannot be opened: their key is gone, or they are not what was sealed."""


class Seal(Protocol):
    """How arguments are kept in the journal; `place` is bound to them, so that they are of no use elsewhere."""

    def close(self, arguments: Mapping[str, Any], place: str) -> msgspec.Raw:
        """Return what is stored."""
        ...

    def open(self, stored: msgspec.Raw, place: str) -> object:
        """Return the arguments.

        Raises:
            Unreadable: they cannot be opened.
        """
        ...


class Plain:
    """Arguments as plain JSON; what was sealed by another one stays closed."""

    def close(self, arguments: Mapping[str, Any], place: str) -> msgspec.Raw:
        """Return the JSON of the arguments."""
        return msgspec.Raw(msgspec.json.encode(arguments))

    def open(self, stored: msgspec.Raw, place: str) -> object:
        """Return the arguments.

        Raises:
            Unreadable: they are sealed, and there is no key here.
        """
        value: object = msgspec.json.decode(stored)
        if isinstance(value, dict) and value.keys() == {"sealed", "key", "nonce", "data"}:
            raise Unreadable(NO_KEY)
        return cast("object", value)


NO_KEY = "its arguments are sealed, and there is no key here"

NO_SEAL = Plain()

SEALED = "clew_sealed"
"""In the place of a call's arguments: they are sealed."""

UNREADABLE = {"unreadable": True}
"""What a model sees in the place of sealed arguments that cannot be opened."""


def close_calls(response: Message, tools: Collection[str], seal: Seal, stream: str) -> Message:
    """Return a response in which the arguments of calls to these tools are sealed."""
    gated = () if isinstance(seal, Plain) else tools
    parts: list[Message] = []
    for part in response["parts"]:
        if part.get("part_kind") == "tool-call" and part.get("tool_name") in gated:
            parts.append(_close(part, seal, stream))
        elif _is_sealed(part):
            # The model's own arguments only look so; as text they mean the same, and nobody tries to open them.
            parts.append({**part, "args": msgspec.json.encode(part["args"]).decode()})
        else:
            parts.append(part)
    return {**response, "parts": parts}


def open_calls(response: Message, seal: Seal, stream: str) -> Message:
    """Return a response with its sealed arguments opened.

    Raises:
        Unreadable: some cannot be.
    """
    return {
        **response,
        "parts": [_open(part, seal, stream) if _is_sealed(part) else part for part in response["parts"]],
    }


def open_history(messages: Iterable[Message], seal: Seal, stream: str) -> list[Message]:
    """Return messages with their sealed arguments opened; in the place of those that cannot be, it says so."""
    return [_open_what_can_be(message, seal, stream) for message in messages]


def close_result(result: msgspec.Raw, seal: Seal, place: str) -> msgspec.Raw:
    """Return the result of a step, sealed as a whole."""
    if isinstance(seal, Plain):
        return result
    closed = seal.close({"args": result}, place)
    return msgspec.Raw(msgspec.json.encode({SEALED: closed}))


def open_result(result: msgspec.Raw, seal: Seal, place: str) -> msgspec.Raw:
    """Return the result of a step as it was before it was sealed, if it was.

    Raises:
        Unreadable: it cannot be opened.
    """
    value: object = msgspec.json.decode(result)
    return msgspec.Raw(msgspec.json.encode(_opened(value[SEALED], seal, place))) if _holds_seal(value) else result


def _open_what_can_be(message: Message, seal: Seal, stream: str) -> Message:
    parts: list[Message] = []
    for part in message["parts"]:
        try:
            parts.append(_open(part, seal, stream) if _is_sealed(part) else part)
        except Unreadable:
            parts.append({**part, "args": UNREADABLE})
    return {**message, "parts": parts}


def _is_sealed(part: Message) -> bool:
    return part.get("part_kind") == "tool-call" and _holds_seal(part.get("args"))


def _holds_seal(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and list(cast("dict[str, Any]", value)) == [SEALED]


def _close(part: Message, seal: Seal, stream: str) -> Message:
    closed = seal.close({"args": part.get("args")}, place_of_call(stream, part["tool_call_id"]))
    return {**part, "args": {SEALED: msgspec.json.decode(closed)}}


def _open(part: Message, seal: Seal, stream: str) -> Message:
    return {**part, "args": _opened(part["args"][SEALED], seal, place_of_call(stream, part["tool_call_id"]))}


def _opened(stored: object, seal: Seal, place: str) -> object:
    if isinstance(seal, Plain):
        raise Unreadable(NO_KEY)
    opened = seal.open(msgspec.Raw(msgspec.json.encode(stored)), place)
    if not isinstance(opened, dict) or "args" not in opened:
        raise Unreadable("its arguments are sealed in another way")
    return cast("dict[str, object]", opened)["args"]


def place_of_call(stream: str, call_id: str) -> str:
    """Return what the sealed arguments of a call are bound to: neither a stream nor an id can hold the NUL."""
    return f"{stream}\0{call_id}"


def place_of_result(stream: str, run: str, step: str) -> str:
    """Return what a result that is sealed as a whole is bound to."""
    return f"{stream}\0{run}\0{step}"
