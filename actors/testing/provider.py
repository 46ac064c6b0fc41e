"""What a model provider takes for a conversation, and what a strict one refuses."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

__all__ = ["invalid_for_provider", "provider_valid"]


def provider_valid(messages: Sequence[ModelMessage]) -> bool:
    """Whether a strict model provider takes these messages as a request; `invalid_for_provider` says why not."""
    return not invalid_for_provider(messages)


def invalid_for_provider(messages: Sequence[ModelMessage]) -> list[str]:
    """Return what a strict model provider would refuse in a request; nothing when it is fine.

    Every tool call has exactly one result, in the next request; ids are unique; no text is empty; arguments are JSON
    objects; the conversation begins and ends with a request.
    """
    wrong: list[str] = []
    if not messages or not isinstance(messages[0], ModelRequest) or not isinstance(messages[-1], ModelRequest):
        wrong.append("the conversation does not begin and end with a request")
    seen: set[str] = set()
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        if isinstance(message, ModelRequest):
            wrong += [f"message {index}: {text}" for text in _wrong_request(message, open_calls)]
            open_calls = []
            continue
        if open_calls:
            wrong.append(f"message {index}: calls {open_calls} have no result before it")
        open_calls = [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
        wrong += [f"message {index}: {text}" for text in _wrong_response(message, seen)]
        seen.update(open_calls)
    return wrong + ([f"calls {open_calls} have no result"] if open_calls else [])


def _wrong_request(message: ModelRequest, open_calls: list[str]) -> list[str]:
    results = [part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)]
    wrong = [] if results == open_calls else [f"results {results} for calls {open_calls}"]
    if any(isinstance(part, UserPromptPart) and part.content == "" for part in message.parts):
        wrong.append("an empty user prompt")
    return wrong


def _wrong_response(message: ModelResponse, seen: set[str]) -> list[str]:
    wrong = [] if message.parts else ["an empty response"]
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    ids = [part.tool_call_id for part in calls]
    if len(set(ids)) != len(ids) or seen & set(ids):
        wrong.append(f"call ids {ids} are not unique")
    if any(not id_ for id_ in ids):
        wrong.append("an empty call id")
    if any(isinstance(part, TextPart) and not part.content.strip() for part in message.parts):
        wrong.append("an empty text")
    wrong += [f"arguments of {part.tool_call_id} are not a JSON object" for part in calls if not _is_object(part.args)]
    return wrong


def _is_object(args: object) -> bool:
    if args is None or isinstance(args, dict):
        return True
    try:
        return isinstance(msgspec.json.decode(args), dict) if isinstance(args, str) else False
    except msgspec.MsgspecError:
        return False
