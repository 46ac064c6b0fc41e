"""What a validator says about a call, without repeating the arguments that are kept sealed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart

__all__ = ["withhold_inputs"]


def withhold_inputs(messages: Sequence[ModelMessage], tools: Collection[str]) -> None:
    """Take the rejected values out of what is sent back about calls to these tools; the model knows what it sent."""
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, ToolReturnPart) and part.tool_name in tools and part.outcome == "retried":
                    part.content = _without_inputs(part.content)


def _without_inputs(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [_without_input(error) for error in cast("list[Any]", content)]


def _without_input(error: Any) -> Any:
    if not isinstance(error, dict):
        return error
    return {key: value for key, value in cast("dict[str, Any]", error).items() if key != "input"}
