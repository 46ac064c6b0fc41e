"""Stop conditions: a run ends, without an answer, when one of them holds after a turn's tools have run.

A condition is a function of what the run has done so far. It runs again on replay, so it looks at nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, cast

import msgspec
from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart

from ...projections.usage import Usage
from ..errors import StepFailed
from .declared import is_async
from .failures import describe
from .steps import RunSteps
from .tool_step import RunNow

__all__ = [
    "REFUSED",
    "CallMade",
    "LoopState",
    "StopCondition",
    "Stopper",
    "TurnTaken",
    "all_of",
    "any_of",
    "conditions_of",
    "cost_budget",
    "has_tool_call",
    "name_of",
    "token_budget",
    "tools_named",
    "turn_count",
]

REFUSED = "clew_refused"
"""In the recorded result of a call: how people refused it, so that it was not made."""


@dataclass(frozen=True)
class CallMade:
    """A tool call of a turn, with what came of it.

    `outcome` is `"success"`, `"failed"` (the tool told of a failure), `"denied"` (people said no) or `"retried"` (it
    was refused, or the tool wants it made again); `result` is what the model gets.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    outcome: str
    result: Any


@dataclass(frozen=True)
class TurnTaken:
    """A turn of the model: what it said, and the tool calls it made, in its order."""

    response: ModelResponse
    calls: tuple[CallMade, ...]


@dataclass(frozen=True)
class LoopState:
    """What a run has done so far: its turns, what it used, and the conversation, of all runs up to here.

    All of it is for reading only. `usage` has the cost as well, and counts what sub-agents used.
    """

    turns: tuple[TurnTaken, ...]
    usage: Usage
    messages: tuple[ModelMessage, ...]
    run: RunNow


StopCondition = Callable[[LoopState], bool]
"""Whether a run stops here, instead of taking another turn."""


@dataclass(frozen=True)
class _Ready:
    """A condition of ours, with its name and the tools or conditions that it is about."""

    name: str
    holds: StopCondition
    tool: str | None = None
    parts: tuple[StopCondition, ...] = ()

    def __call__(self, state: LoopState) -> bool:
        return self.holds(state)


def has_tool_call(name: str) -> StopCondition:
    """Return the condition that the model has called this tool in the run, and that the call succeeded.

    A call that was refused, denied or failed does not count: the model hears of it in another turn.
    """

    def holds(state: LoopState) -> bool:
        return any(call.name == name and call.outcome == "success" for turn in state.turns for call in turn.calls)

    return _Ready(f"has_tool_call({name!r})", holds, tool=name)


def turn_count(turns: int) -> StopCondition:
    """Return the condition that the run has taken that many turns; like `max_turns`, to be combined with others."""
    _check_positive("turn_count", turns)
    return _Ready(f"turn_count({turns})", lambda state: len(state.turns) >= turns)


def token_budget(tokens: int) -> StopCondition:
    """Return the condition that the run has used that many tokens, in and out, those of its sub-agents too."""
    _check_positive("token_budget", tokens)
    return _Ready(f"token_budget({tokens})", lambda state: state.usage.tokens >= tokens)


def cost_budget(usd: Decimal | float | str) -> StopCondition:
    """Return the condition that the run has cost that many US dollars.

    A run fails of which that is not known, as the price of a model is missing: it could cost any amount.
    """
    limit = _amount(usd)

    def holds(state: LoopState) -> bool:
        if (state.usage.cost_usd or 0) >= limit:
            return True
        if state.usage.unpriced:
            raise LookupError(
                f"what {state.usage.unpriced} of {state.usage.requests} requests cost is not known; "
                "limit the tokens of models that have no price: token_budget"
            )
        return False

    return _Ready(f"cost_budget({limit})", holds)


def any_of(*conditions: StopCondition) -> StopCondition:
    """Return the condition that one of these holds; they are asked in order, up to the first that does."""
    parts = conditions_of(conditions)
    return _Ready(_listed("any_of", parts), lambda state: any(_ask(part, state) for part in parts), parts=parts)


def all_of(*conditions: StopCondition) -> StopCondition:
    """Return the condition that each of these holds; they are asked in order, up to the first that does not."""
    parts = conditions_of(conditions)
    return _Ready(_listed("all_of", parts), lambda state: all(_ask(part, state) for part in parts), parts=parts)


def conditions_of(given: StopCondition | Sequence[StopCondition] | None) -> tuple[StopCondition, ...]:
    """Return stop conditions as they were given: none, one, or several.

    Raises:
        TypeError: one is not a function, or an async one.
        ValueError: there are none in a list.
    """
    if given is None:
        return ()
    conditions = (given,) if callable(given) else tuple(given)
    if not conditions:
        raise ValueError("stop conditions: there are none")
    for condition in cast("tuple[object, ...]", conditions):
        if not callable(condition):
            raise TypeError(f"a stop condition is a function of a LoopState, not {condition!r}")
        if is_async(condition):
            raise TypeError(f"stop condition {name_of(condition)} is async; it is a plain function of a LoopState")
    return conditions


def tools_named(conditions: Sequence[StopCondition]) -> frozenset[str]:
    """Return the tools that ready conditions are about."""
    ready = [condition for condition in conditions if isinstance(condition, _Ready)]
    within = [tools_named(condition.parts) for condition in ready]
    return frozenset(condition.tool for condition in ready if condition.tool is not None).union(*within)


def name_of(function: Callable[..., object]) -> str:
    """Return what a function of the user's is called in errors."""
    named = function.name if isinstance(function, _Ready) else getattr(function, "__name__", None)
    return named or type(function).__name__


class Stopper:
    """Keeps count of the turns of one driven run, and says when it stops."""

    def __init__(self, conditions: Sequence[StopCondition]) -> None:
        self._conditions = conditions
        self._turns: list[TurnTaken] = []
        self._seen = 1

    def stops(self, ctx: RunContext[Any], steps: RunSteps, results: Mapping[str, msgspec.Raw]) -> bool:
        """Whether the run stops in front of the turn that is due; `results` are those recorded of tools, by step.

        Raises:
            StepFailed: a condition raised, or said neither yes nor no; names it.
        """
        if ctx.run_step <= self._seen:
            return False
        self._seen = ctx.run_step
        if (taken := _last_turn(ctx.messages, results)) is not None:
            self._turns.append(taken)
        used, run = steps.used.so_far.plus(Usage()), RunNow(steps, f"stop_when:{ctx.run_step}")
        state = LoopState(tuple(self._turns), used, tuple(ctx.messages), run)
        return any(_ask(condition, state) for condition in self._conditions)


def _ask(condition: StopCondition, state: LoopState) -> bool:
    try:
        said = cast("object", condition(state))
        if inspect.iscoroutine(said):
            said.close()
        if not isinstance(said, bool):
            raise TypeError(f"it returns True or False, not {said!r}")
    except StepFailed:
        raise
    except Exception as error:
        fact = describe(error)
        raise StepFailed(step=f"stop_when {name_of(condition)}", type=fact.type, message=fact.message) from error
    return said


def _last_turn(messages: Sequence[ModelMessage], recorded: Mapping[str, msgspec.Raw]) -> TurnTaken | None:
    """Return the last turn of a conversation: a response, and what is behind it."""
    results: dict[str, ToolReturnPart] = {}
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
            return TurnTaken(message, tuple(_made(call, results.get(call.tool_call_id), recorded) for call in calls))
        results |= {part.tool_call_id: part for part in message.parts if isinstance(part, ToolReturnPart)}
    return None


def _made(call: ToolCallPart, result: ToolReturnPart | None, recorded: Mapping[str, msgspec.Raw]) -> CallMade:
    outcome, content = ("interrupted", None) if result is None else (result.outcome, result.content)
    step = recorded.get(f"tool:{call.tool_name}:{call.tool_call_id}")
    if step is not None and REFUSED.encode() in bytes(step) and REFUSED in msgspec.json.decode(step):
        # For pydantic-ai a call that people refused is one with a result.
        outcome = "denied"
    return CallMade(call.tool_call_id, call.tool_name, call.args_as_dict(), outcome, content)


def _listed(what: str, parts: Sequence[StopCondition]) -> str:
    return f"{what}({', '.join(map(name_of, parts))})"


def _check_positive(what: str, value: int) -> None:
    if isinstance(cast("object", value), bool) or not isinstance(cast("object", value), int) or value < 1:
        raise ValueError(f"{what} is a whole number of at least 1, not {value!r}")


def _amount(usd: Decimal | float | str) -> Decimal:
    try:
        # By its text, so that 0.1 is a tenth.
        amount = Decimal(str(usd))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount <= 0:
        raise ValueError(f"cost_budget is an amount of US dollars of more than 0, not {usd!r}")
    return amount
