"""Preparing a turn: which model, which messages, which tools and which settings its request is made of.

What a turn changes is for that request alone; the history of the thread stays what was said. The user's function
runs again on replay, so it looks only at what it is given.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, cast

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters
from pydantic_ai.settings import ModelSettings, ToolChoice, ToolOrOutput
from pydantic_ai.tools import ToolDefinition

from ...projections.usage import Usage
from ..errors import StepFailed
from .failures import describe
from .steps import RunSteps
from .tool_step import RunNow

__all__ = ["PrepareStep", "Preparer", "TurnChange", "TurnStart", "Turns", "chosen_names"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TurnStart:
    """A turn of the model that is about to be taken.

    `step_number` is how many turns the run has taken before, so the first one is 0 (and is recorded as `llm:turn:1`).
    `messages` are what would be sent, `model` is the id of the model that would be asked (`"openai:gpt-5"`), and
    `tools` are the names of those that the agent has. All of it is for reading only.
    """

    step_number: int
    messages: tuple[ModelMessage, ...]
    usage: Usage
    model: str
    tools: tuple[str, ...]
    run: RunNow


@dataclasses.dataclass(frozen=True, kw_only=True)
class TurnChange:
    """What is different about one turn; what is None stays as it is.

    - `model` is the name of one of the agent's `models`.
    - `messages` are sent in place of the conversation. A call and its results stay together.
    - `active_tools` are the only tools that the model may call; in place of those of the agent.
    - `tool_choice` is pydantic-ai's: `"auto"`, `"none"`, `"required"`, a list of names of which it has to call one, or
      `ToolOrOutput`.
    - `settings` are laid over the model settings of the agent.
    - `instructions` come behind those of the agent.
    """

    model: str | None = None
    messages: Sequence[ModelMessage] | None = None
    tool_choice: ToolChoice = None
    active_tools: Collection[str] | None = None
    settings: ModelSettings | None = None
    instructions: str | None = None


PrepareStep = Callable[
    [TurnStart], "TurnChange | Mapping[str, Any] | Awaitable[TurnChange | Mapping[str, Any] | None] | None"
]
"""Returns what is different about a turn: a `TurnChange`, or its fields as a mapping; nothing, or `{}`, for none."""

_FIELDS = tuple(field.name for field in dataclasses.fields(TurnChange))
_NO_CHANGE = TurnChange()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Turns:
    """How the turns of an agent are prepared: by its own options, and by its function for each.

    `declared` are the tools that the agent is known to have, offered in this turn or not.
    """

    agent: str
    prepare_step: PrepareStep | None = None
    active_tools: Collection[str] | None = None
    tool_choice: ToolChoice = None
    declared: frozenset[str] = frozenset()


class Preparer:
    """Prepares the turns of one driven run.

    `hidden` are the tools that the agent has and that the model may not call in the turn that is taken.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._settings: ModelSettings = {}
        self._choice: ToolChoice = None
        self._active: frozenset[str] | None = None
        self.hidden: tuple[ToolDefinition, ...] = ()

    async def prepare(
        self, ctx: RunContext[Any], request: ModelRequestContext, steps: RunSteps, models: Mapping[str, Model]
    ) -> None:
        """Prepare the request of a turn; another model becomes one whose requests are steps when it is asked.

        Raises:
            ValueError: the change names a model or a tool that there is not, or messages that cannot be sent.
            StepFailed: the user's function raised.
        """
        change = await self._change(ctx, request, steps)
        active = self._turns.active_tools if change.active_tools is None else change.active_tools
        self._active = None if active is None else frozenset(active)
        self._choice = self._turns.tool_choice if change.tool_choice is None else change.tool_choice
        self._settings = {**(change.settings or {})}
        if self._choice is not None:
            self._settings["tool_choice"] = self._choice
        self._check_tools(request.model_request_parameters)
        if change.messages is not None:
            self._check_messages(change.messages, request.messages)
            request.messages = list(change.messages)
        if change.instructions is not None:
            parameters = request.model_request_parameters
            added = [*(parameters.instruction_parts or ()), InstructionPart(change.instructions, dynamic=True)]
            request.model_request_parameters = dataclasses.replace(parameters, instruction_parts=added)
        if change.model is not None:
            if change.model not in models:
                raise ValueError(f"{self._who}: there is no model {change.model!r}; its models are {_names(models)}")
            request.model, request.model_id = models[change.model], change.model

    def restrict(self, request: ModelRequestContext) -> None:
        """Put the settings and the tools of the turn into its request; several times, where several models are asked.

        Not before, as pydantic-ai makes notes in the history about what comes and goes, and this is for one request.
        """
        last = request.messages[-1]
        if isinstance(last, ModelRequest) and last.instructions is None:
            # One of the user's own, which is to say as much of what is sent as those that pydantic-ai makes.
            told = InstructionPart.join(request.model_request_parameters.instruction_parts or [])
            request.messages = [*request.messages[:-1], dataclasses.replace(last, instructions=told)]
        if self._settings:
            request.model_settings = cast("ModelSettings", {**(request.model_settings or {}), **self._settings})
        self.hidden = ()
        if (active := self._active) is not None:
            parameters = request.model_request_parameters
            shown = [tool for tool in parameters.function_tools if tool.name in active]
            self.hidden = tuple(tool for tool in parameters.function_tools if tool.name not in active)
            request.model_request_parameters = dataclasses.replace(parameters, function_tools=shown)

    def admit(self, tool: str) -> None:
        """Refuse a call of a tool that the model was not shown in this turn.

        Raises:
            ModelRetry: tells the model so.
        """
        if self._active is not None and tool not in self._active:
            raise ModelRetry(f"Tool {tool!r} may not be used now. These may: {_names(self._active)}.")

    @property
    def _who(self) -> str:
        return f"prepare_step of agent {self._turns.agent!r}"

    async def _change(self, ctx: RunContext[Any], request: ModelRequestContext, steps: RunSteps) -> TurnChange:
        prepare = self._turns.prepare_step
        if prepare is None:
            return _NO_CHANGE
        start = TurnStart(
            step_number=ctx.run_step - 1,
            messages=tuple(request.messages),
            usage=steps.used.so_far.plus(Usage()),
            model=request.model.model_id,
            tools=tuple(tool.name for tool in request.model_request_parameters.function_tools),
            run=RunNow(steps, f"prepare_step:{ctx.run_step}"),
        )
        try:
            said = prepare(start)
            return _change_of(await said if inspect.isawaitable(said) else said)
        except Exception as error:
            fact = describe(error)
            raise StepFailed(step="prepare_step", type=fact.type, message=fact.message) from error

    def _check_tools(self, parameters: ModelRequestParameters) -> None:
        """Refuse names of tools that there are not: it would be thought that they are used, or that others are not."""
        offered = {tool.name for tool in parameters.function_tools}
        active = offered if self._active is None else self._active
        self._check_names("active_tools", active, offered | self._turns.declared)
        usable = offered & active
        self._check_names(
            "tool_choice", chosen_names(self._choice), usable | {tool.name for tool in parameters.output_tools}
        )
        if self._choice == "required" and not usable:
            raise ValueError(
                f"agent {self._turns.agent!r}: tool_choice is 'required', and there is no tool in this turn"
            )

    def _check_names(self, option: str, names: Collection[str], known: Collection[str]) -> None:
        if unknown := set(names).difference(known):
            raise ValueError(
                f"agent {self._turns.agent!r}: {option} names {_names(unknown)}, which it does not have in this turn; "
                f"there are {_names(known)}"
            )

    def _check_messages(self, messages: Sequence[ModelMessage], given: Sequence[ModelMessage]) -> None:
        """Refuse messages in which a call and its results were torn apart; a call that was cut off has none."""
        if not messages or not isinstance(messages[-1], ModelRequest):
            raise ValueError(f"{self._who}: its messages do not end with a request")
        calls, results = _alone(messages)
        before_calls, before_results = _alone(given)
        if torn := calls - before_calls:
            raise ValueError(f"{self._who}: its messages have the calls {_names(torn)} without their results")
        if torn := results - before_results:
            raise ValueError(f"{self._who}: its messages have the results of {_names(torn)} without the calls")


def _alone(messages: Sequence[ModelMessage]) -> tuple[set[str], set[str]]:
    """Return the calls that have no result behind them, and the results that have no call before them."""
    calls: set[str] = set()
    results: set[str] = set()
    for message in messages:
        if isinstance(message, ModelResponse):
            calls |= {part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)}
            continue
        results |= {part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)} - calls
        # What is said in the place of a result comes as parts of several kinds.
        calls -= {id_ for part in message.parts if isinstance(id_ := getattr(part, "tool_call_id", None), str)}
    return calls, results


def chosen_names(choice: ToolChoice) -> Sequence[str]:
    """Return the tools that a tool choice names."""
    if isinstance(choice, ToolOrOutput):
        return choice.function_tools
    return choice if isinstance(choice, list) else ()


def _change_of(said: object) -> TurnChange:
    if said is None:
        return _NO_CHANGE
    if isinstance(said, TurnChange):
        change = said
    elif isinstance(said, Mapping):
        given = dict(cast("Mapping[str, Any]", said))
        if unknown := [name for name in given if name not in _FIELDS]:
            raise TypeError(f"it may change {', '.join(_FIELDS)}, and not {_names(unknown)}")
        change = TurnChange(**given)
    else:
        raise TypeError(f"it returns a TurnChange, a mapping or None, not {said!r}")
    if not isinstance(cast("object", change.model), str | None):
        raise TypeError(f"a turn's model is the name of one of the agent's models, not {change.model!r}")
    if isinstance(change.active_tools, str):
        raise TypeError(f"active_tools is a list of names, not {change.active_tools!r}")
    return change


def _names(names: Collection[str]) -> str:
    return ", ".join(sorted(map(repr, names))) or "none"
