"""Agents whose turns cost something, and who have so much and no more."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from clew.actors import BudgetExceeded
from clew.actors.agent import AgentDefinition, Budget, Thread, define_agent, replay
from clew.actors.testing import final_turn, following_model, tool_call_turn
from tests.actors.support import WAIT_S

__all__ = ["add", "calls", "desk", "paid", "paid_answer", "paid_call", "refused", "replays"]


def paid(turn: ModelResponse, *, tokens: int = 100, usd: str | None = "0.01") -> ModelResponse:
    """The turn, with so many tokens used (a tenth of them out) at this cost, or at one that nobody knows."""
    cost = None if usd is None else Decimal(usd)
    turn.usage = RequestUsage(input_tokens=tokens - tokens // 10, output_tokens=tokens // 10, cost=cost)
    return turn


def paid_answer(text: str = "done", **used: Any) -> ModelResponse:
    return paid(final_turn(text), **used)


def paid_call(id_: str, tool: str, args: dict[str, Any] | None = None, **used: Any) -> ModelResponse:
    return paid(tool_call_turn(id_, tool, args or {}), **used)


def add(a: int, b: int) -> int:
    return a + b


def calls(n: int, **used: Any) -> list[ModelResponse]:
    """Turns that call `add`, and then one that answers."""
    return [*(paid_call(f"c{i}", "add", {"a": i, "b": i}, **used) for i in range(n)), paid_answer(**used)]


def desk(budget: Budget | None, turns: list[ModelResponse] | None = None, **options: Any) -> AgentDefinition[Any, str]:
    """An agent that answers every prompt in one turn, unless it is given its turns."""
    given = [paid_answer()] * 50 if turns is None else turns
    options = {"tools": [add], "name": "desk", **options}
    return define_agent(options.pop("name"), model=following_model(given), budget=budget, **options)


def refused(thread: Thread[Any], **run: Any) -> BudgetExceeded:
    with pytest.raises(BudgetExceeded) as caught:
        thread.run("more", **run).result(timeout_s=WAIT_S)
    return caught.value


def replays(thread: Thread[Any], *agents: AgentDefinition[Any, Any]) -> None:
    assert replay(thread, *agents).digests_equal
