"""Messages on their way into the journal and to a model: small, complete, and valid for a provider."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec
from pydantic import TypeAdapter
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
)

from ...journal.facts import NOTHING
from ...projections import Message
from ...projections.messages import FROM_PROMPT, FROM_STEP, SAME_INSTRUCTIONS

__all__ = ["Tail", "dump_message", "load_messages", "small", "unique_call_ids", "valid_for_provider"]

_MESSAGE: TypeAdapter[ModelMessage] = TypeAdapter(ModelMessage)

CALL_ID_LENGTH_MAX = 128

_WITH_MEANING = frozenset("/#!?>")
"""What sets apart steps within steps, and the commands about a step (`steps`, `attempt`)."""


def dump_message(message: ModelMessage) -> Message:
    """Return a message as JSON values."""
    return cast("Message", _MESSAGE.dump_python(message, mode="json"))


def load_messages(messages: Sequence[Message]) -> list[ModelMessage]:
    """Return messages as pydantic-ai's own."""
    return ModelMessagesTypeAdapter.validate_python(list(messages))


def small(message: Message) -> Message:
    """Leave out what says nothing: fields that are null, and counts that are zero."""
    kept = {key: value for key, value in message.items() if value is not None}
    kept["parts"] = [
        {key: value for key, value in part.items() if value is not None or key in ("content", "args")}
        for part in message["parts"]
    ]
    if isinstance(usage := kept.get("usage"), dict):
        kept["usage"] = {key: value for key, value in cast("Message", usage).items() if value}
    return kept


class Tail:
    """Encodes the messages of a run since its last response, without what the journal already holds."""

    def __init__(self, run_id: str, prompt: msgspec.Raw) -> None:
        self._run_id = run_id
        self._prompt: object = msgspec.json.decode(prompt)
        self._instructions: str | None = None

    def encode(self, messages: Sequence[ModelMessage], results: Mapping[str, msgspec.Raw]) -> msgspec.Raw:
        """Return the tail of `messages`, `NOTHING` where there is none. `results` are those of tools, by step."""
        tail = self._of_run(messages)
        if not tail:
            return NOTHING
        instructions = self._instructions
        small_ones: list[Message] = []
        for message in tail:
            small_ones.append(self._small(message, instructions, results))
            instructions = message.instructions
        return msgspec.Raw(msgspec.json.encode(small_ones))

    def recorded(self, messages: Sequence[ModelMessage]) -> None:
        """Note that the tail of `messages` is in the journal."""
        if tail := self._of_run(messages):
            self._instructions = tail[-1].instructions

    def _of_run(self, messages: Sequence[ModelMessage]) -> list[ModelRequest]:
        tail: list[ModelRequest] = []
        for message in reversed(messages):
            if not isinstance(message, ModelRequest) or message.run_id != self._run_id:
                break
            tail.append(message)
        return tail[::-1]

    def _small(self, message: ModelRequest, instructions: str | None, results: Mapping[str, msgspec.Raw]) -> Message:
        dumped = small(dump_message(message))
        for key in ("run_id", "conversation_id", "timestamp", "kind"):
            dumped.pop(key, None)
        if dumped.get("state") == "complete":
            del dumped["state"]
        if message.instructions is not None and message.instructions == instructions:
            del dumped["instructions"]
            dumped[SAME_INSTRUCTIONS] = True
        dumped["parts"] = [self._refer(part, results) for part in dumped["parts"]]
        return dumped

    def _refer(self, part: Message, results: Mapping[str, msgspec.Raw]) -> Message:
        """Refer to what the journal holds already: the prompt, and results of tools."""
        part.pop("timestamp", None)
        if part == {"part_kind": "user-prompt", "content": self._prompt}:
            return {FROM_PROMPT: True}
        if part["part_kind"] != "tool-return":
            return part
        step = f"tool:{part['tool_name']}:{part['tool_call_id']}"
        if (raw := results.get(step)) is None:
            return part
        result = cast("Message", msgspec.json.decode(raw))
        # True equals 1 in Python and not in JSON, so compare what would be stored.
        if "result" not in result or msgspec.json.encode(result["result"]) != msgspec.json.encode(part["content"]):
            return part
        rest = {key: value for key, value in part.items() if key not in _OF_A_CALL}
        return {FROM_STEP: step, **({} if rest == {"outcome": "success"} else rest)}


_OF_A_CALL = frozenset({"part_kind", "tool_name", "tool_call_id", "content"})


def unique_call_ids(response: ModelResponse, history: Sequence[ModelMessage]) -> ModelResponse:
    """Give every tool call an id that no other call of the conversation has.

    Some models repeat ids, or leave them empty; an id that is good is kept. The new one says which it replaces.
    """
    seen = {
        part.tool_call_id
        for message in history
        if isinstance(message, ModelResponse)
        for part in message.parts
        if isinstance(part, ToolCallPart)
    }
    parts: list[ModelResponsePart] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            unique = _unique(_clean_id(part.tool_call_id), seen)
            seen.add(unique)
            parts.append(part if unique == part.tool_call_id else dataclasses.replace(part, tool_call_id=unique))
        else:
            parts.append(part)
    return response if all(a is b for a, b in zip(parts, response.parts, strict=True)) else _with(response, parts)


def valid_for_provider(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return what may be sent: no empty text, no empty response, and arguments that are JSON objects.

    What was said stays in the journal as it was; only what is sent is made valid.
    """
    valid: list[ModelMessage] = []
    for message in messages:
        if isinstance(message, ModelRequest):
            valid.append(message)
            continue
        parts = [_valid_part(part) for part in message.parts if not _is_blank(part)]
        if not parts:
            continue
        unchanged = len(parts) == len(message.parts) and all(a is b for a, b in zip(parts, message.parts, strict=True))
        valid.append(message if unchanged else _with(message, parts))
    return valid


def _with(response: ModelResponse, parts: list[ModelResponsePart]) -> ModelResponse:
    return dataclasses.replace(response, parts=parts)


def _clean_id(call_id: str) -> str:
    if 0 < len(call_id) <= CALL_ID_LENGTH_MAX and call_id.isprintable() and not _WITH_MEANING & set(call_id):
        return call_id
    kept = "".join(c for c in call_id if c.isalnum() or c in "_-.")[: CALL_ID_LENGTH_MAX // 2]
    return kept or "call"


def _unique(call_id: str, seen: set[str]) -> str:
    unique, number = call_id, 1
    while unique in seen:
        number += 1
        unique = f"{call_id}-{number}"
    return unique


def _is_blank(part: ModelResponsePart) -> bool:
    return isinstance(part, TextPart) and not part.content.strip()


def _valid_part(part: ModelResponsePart) -> ModelResponsePart:
    if not isinstance(part, ToolCallPart) or part.args is None or isinstance(part.args, dict):
        return part
    try:
        if isinstance(msgspec.json.decode(part.args), dict):
            return part
    except (msgspec.MsgspecError, UnicodeError):
        pass
    return dataclasses.replace(part, args={"invalid_arguments": part.args})
