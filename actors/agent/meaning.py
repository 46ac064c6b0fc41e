"""What a message means to a model, apart from how a version of pydantic-ai writes it down.

Digests and comparisons go over this, so that an upgrade which adds a field halts no run in flight.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

__all__ = ["meaning_of", "same_meaning"]

_OF_A_PART = frozenset(
    {"part_kind", "content", "tool_name", "tool_call_id", "args", "outcome", "from_prompt", "from_step"}
)
_OF_A_MESSAGE = frozenset({"kind", "instructions", "same_instructions"})


def meaning_of(message: dict[str, Any]) -> dict[str, Any]:
    """Return what counts of a message as JSON values."""
    kept = {key: value for key, value in message.items() if key in _OF_A_MESSAGE and value is not None}
    kept["parts"] = [
        {key: value for key, value in part.items() if key in _OF_A_PART and value is not None}
        for part in message["parts"]
    ]
    return kept


def same_meaning(one: msgspec.Raw, other: msgspec.Raw) -> bool:
    """Whether two messages, or lists of messages, as raw JSON, mean the same."""
    return bytes(one) == bytes(other) or _meaning(one) == _meaning(other)


def _meaning(raw: msgspec.Raw) -> object:
    value: object = msgspec.json.decode(raw)
    if isinstance(value, list):
        return [meaning_of(message) for message in cast("list[dict[str, Any]]", value)]
    if isinstance(value, dict) and "parts" in value:
        return meaning_of(cast("dict[str, Any]", value))
    return cast("object", value)
