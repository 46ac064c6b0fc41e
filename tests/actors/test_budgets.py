"""Budgets of runs: a run stops before the turn that it may not take; what it costs is looked up once."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any, cast

import pytest
from genai_prices.data_snapshot import get_snapshot, set_custom_snapshot
from genai_prices.types import ClauseEquals, ModelInfo, ModelPrice
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew.actors import ActorSystem
from clew.actors.agent import (
    AgentDefinition,
    Budget,
    DurableSteps,
    define_agent,
    tool_step,
)
from clew.actors.testing import agent_harness, crash_points, following_model, provider_valid
from clew.actors.testing.world import World
from clew.projections import Usage
from tests.actors.paid import add, calls, desk, paid_answer, paid_call, replays
from tests.actors.support import WAIT_S


@pytest.mark.requirement("L-LOOP-15")
@pytest.mark.parametrize("budget", [Budget(run_tokens=200), Budget(run_usd="0.02"), Budget(run_tokens=150)])
def test_a_run_stops_before_the_turn_that_it_may_not_take(budget: Budget) -> None:
    with agent_harness(desk(budget), [*calls(5)[:2], paid_answer("once more")]) as harness:
        answer = harness.run("go")
        again = harness.run("and now?")
        thread = harness.conversation()

        assert (answer.stopped, answer.output) == ("budget", None)
        assert answer.usage == Usage(2, 2, 180, 20, Decimal("0.02"), 0)
        assert (again.stopped, again.output) == ("final", "once more")
        assert provider_valid(harness.script.requests[-1])
        assert [run.usage.cost_usd for run in thread.view().runs] == [Decimal("0.02"), Decimal("0.01")]
        replays(thread, harness.definition)
        assert harness.script.calls == 3


def test_an_answer_is_final_though_it_takes_the_last_of_the_budget() -> None:
    with agent_harness(desk(Budget(run_tokens=100)), [paid_answer(tokens=1000)]) as harness:
        assert harness.run("go").stopped == "final"


def test_an_agent_of_your_own_has_its_budget_too() -> None:
    agent = Agent(following_model(calls(5)), name="own", tools=[add])
    definition = AgentDefinition(agent=agent, budget=Budget(run_tokens=300))
    with ActorSystem("memory:", agents=[definition]) as system:
        thread = system.thread(definition, "t")

        assert thread.run("go").result(timeout_s=WAIT_S).stopped == "budget"
        assert thread.view().usage.requests == 3
        replays(thread, definition)


@pytest.mark.parametrize("durable", [True, False])
def test_what_sub_agents_use_within_a_tool_is_a_part_of_the_run(durable: bool) -> None:
    inner = Agent(
        following_model([paid_answer("in", usd="0.50")]),
        name="inner",
        capabilities=[DurableSteps()] if durable else [],
    )

    async def ask(ctx: RunContext[None]) -> str:
        return (await inner.run("?", usage=ctx.usage)).output

    turns = [paid_call("c1", "ask"), paid_call("c2", "ask"), paid_answer()]
    agent = desk(Budget(run_usd="0.51"), turns, tools=[ask])
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        answer = thread.run("go").result(timeout_s=WAIT_S)

        assert (answer.stopped, answer.usage.cost_usd, answer.usage.requests) == ("budget", Decimal("0.51"), 2)
        replays(thread, agent)
        [row] = system.spending(owner="ann")
        assert (row.usage, row.runs) == (answer.usage, 1)
        assert row.models["following"].usage.requests == (2 if durable else 1)


@pytest.mark.parametrize(("allowed", "stopped"), [(False, "budget"), (True, "final")])
def test_money_that_nobody_knows_the_amount_of_is_not_within_a_budget_unless_that_is_allowed(
    allowed: bool, stopped: str
) -> None:
    turns = [paid_call("c1", "add", {"a": 1, "b": 2}, usd=None), paid_answer(usd="0.02")]
    with agent_harness(desk(Budget(run_usd=1, allow_unpriced=allowed)), turns) as harness:
        answer = harness.run("go")
        usage = harness.thread().usage

    assert (answer.stopped, answer.usage.unpriced) == (stopped, 1)
    assert answer.usage == usage
    assert usage.cost_usd == (Decimal("0.02") if allowed else None)


def test_a_limit_of_tokens_asks_for_no_price() -> None:
    with agent_harness(desk(Budget(run_tokens=10_000)), calls(2, usd=None)) as harness:
        answer = harness.run("go")

    assert (answer.stopped, answer.usage.cost_usd, answer.usage.unpriced) == ("final", None, 3)


@pytest.mark.crash
def test_dying_anywhere_changes_nothing_about_where_a_run_stops() -> None:
    async def pay() -> str:
        world.effect(tool_step().idempotency_key)
        return "paid"

    agent = desk(Budget(run_tokens=250), [paid_call(f"c{n}", "pay") for n in range(5)], tools=[pay])
    world: World

    async def scenario(here: World) -> Any:
        nonlocal world
        world = here
        async with here.open(agents=[agent]) as system:
            answer = await system.thread(agent, "t").run("go", run_id="r")
            [row] = system.spending()
            return answer.stopped, str(answer.usage), str(row)

    assert len(crash_points(scenario).points) > 20


def priced(model: str, turns: list[ModelResponse]) -> FunctionModel:
    """A model whose responses say that they come from a provider with a price list."""
    inner = following_model(turns, name=model)

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        made: Any = inner.function
        response: ModelResponse = await made(messages, info)
        response.provider_name = "openai"
        return response

    return FunctionModel(respond, model_name=model)


@pytest.mark.requirement("L-LOOP-15")
@pytest.mark.parametrize(("model", "known"), [("gpt-4o", True), ("no-such-model", False)])
def test_a_price_is_looked_up_once_and_a_later_list_changes_nothing(model: str, known: bool) -> None:
    turns = [paid_call("c1", "add", {"a": 1, "b": 2}, usd=None), paid_answer(usd=None)]
    agent = define_agent("desk", model=priced(model, turns), tools=[add], budget=Budget(run_usd=1, allow_unpriced=True))
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        answer = thread.run("go").result(timeout_s=WAIT_S)
        now = get_snapshot()
        try:
            set_custom_snapshot(other_prices(now, model))
            replays(thread, agent)
            view, rows = thread.view(), system.spending()
        finally:
            set_custom_snapshot(None)

    assert (answer.usage.cost_usd is not None, answer.usage.unpriced) == (known, 0 if known else 2)
    assert view.usage == rows[0].usage == answer.usage


def other_prices(now: Any, model: str) -> Any:
    """A later price list: `model` is in it, at another price."""
    later = copy.deepcopy(now)
    openai = next(provider for provider in later.providers if provider.id == "openai")
    price = ModelPrice(input_mtok=Decimal(77), output_mtok=Decimal(99))
    openai.models.insert(0, ModelInfo(id=model, match=ClauseEquals(equals=model), prices=price))
    return later


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({}, ValueError, "limits nothing"),
        ({"per": "day"}, ValueError, "limits nothing"),
        ({"run_tokens": 0}, ValueError, "run_tokens is more than 0, not 0"),
        ({"run_tokens": -1}, ValueError, "run_tokens is more than 0"),
        ({"thread_tokens": 1.5}, TypeError, "thread_tokens is a whole number of tokens, not 1.5"),
        ({"owner_tokens": True}, TypeError, "owner_tokens is a whole number"),
        ({"run_usd": 0}, ValueError, "run_usd is more than 0"),
        ({"run_usd": "NaN"}, ValueError, "run_usd is a number of USD"),
        ({"owner_usd": float("inf")}, ValueError, "owner_usd is a number of USD"),
        ({"thread_usd": "much"}, TypeError, "thread_usd is a number of USD, not 'much'"),
        ({"thread_usd": True}, TypeError, "thread_usd is a number of USD"),
        ({"run_usd": []}, TypeError, "run_usd is a number of USD"),
        ({"run_tokens": 1, "per": "week"}, ValueError, "per is one of all, day, month, not 'week'"),
    ],
)
def test_a_budget_that_means_nothing_is_refused(options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Budget(**options)


def test_what_is_no_budget_is_refused_where_the_agent_is_declared() -> None:
    with pytest.raises(TypeError, match="agent 'desk': budget is of type Budget, not int"):
        desk(cast("Any", 5))


def test_a_tenth_is_a_tenth() -> None:
    assert Budget(run_usd=0.1).run_usd == Decimal("0.1")
