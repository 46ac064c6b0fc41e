"""Models that follow a script, in place of one that costs and surprises."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

__all__ = [
    "Script",
    "Turn",
    "final_turn",
    "following_model",
    "scripted_model",
    "tool_call_turn",
    "tool_calls_turn",
]

Turn = ModelResponse | Exception | Callable[[list[ModelMessage], AgentInfo], ModelResponse]
"""One entry of a script: a response, an error to raise, or a function of what was asked."""


def tool_call_turn(id: str, name: str, input: dict[str, Any] | str | None = None, *, text: str = "") -> ModelResponse:  # noqa: A002  (the field's words)
    """Return a turn in which the model calls one tool."""
    said = [TextPart(text)] if text else []
    return ModelResponse([*said, ToolCallPart(name, input, tool_call_id=id)])


def tool_calls_turn(*calls: tuple[str, str, dict[str, Any] | str | None]) -> ModelResponse:
    """Return a turn in which the model calls several tools at once, each as `(id, name, input)`."""
    return ModelResponse([ToolCallPart(name, args, tool_call_id=id_) for id_, name, args in calls])


def final_turn(text: str) -> ModelResponse:
    """Return a turn in which the model answers."""
    return ModelResponse([TextPart(text)])


class Script:
    """The turns a scripted model takes, in order over all runs, and the requests it got."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._turns = list(turns)
        self.requests: list[list[ModelMessage]] = []

    @property
    def calls(self) -> int:
        """How often the model was asked."""
        return len(self.requests)

    async def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Take the next turn.

        Raises:
            AssertionError: the script is over.
        """
        taken = len(self.requests)
        self.requests.append(messages)
        if taken >= len(self._turns):
            raise AssertionError(f"the script has {len(self._turns)} turns, and the model was asked for one more")
        turn = self._turns[taken]
        if isinstance(turn, Exception):
            raise turn
        return turn if isinstance(turn, ModelResponse) else turn(messages, info)


def scripted_model(script: Script | Iterable[Turn], *, name: str = "script") -> FunctionModel:
    """Return a model that follows a script and is never a network."""
    return FunctionModel((script if isinstance(script, Script) else Script(script)).respond, model_name=name)


def following_model(turns: Iterable[Turn], *, name: str = "following") -> FunctionModel:
    """Return a model that looks how far a conversation has come, and takes the turn of that number.

    The same request gets the same turn however often it is asked, also by a process that was started anew. So it is
    the model for what may die in between: `crash_points`, and tests that restart.
    """
    known = list(turns)

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        taken = sum(isinstance(message, ModelResponse) for message in messages)
        if taken >= len(known):
            raise AssertionError(f"there are {len(known)} turns, and the model was asked for number {taken + 1}")
        turn = known[taken]
        if isinstance(turn, Exception):
            raise turn
        return turn if isinstance(turn, ModelResponse) else turn(messages, info)

    return FunctionModel(respond, model_name=name)
