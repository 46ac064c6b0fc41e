"""Which tools a turn has, which it must call, and what becomes of calls of the others."""

from __future__ import annotations

from dataclasses import replace
from types import NoneType
from typing import Any

import pytest
from pydantic_ai import Agent, FunctionToolset, RunContext, Tool
from pydantic_ai.messages import ModelMessage, ToolReturnPart
from pydantic_ai.settings import ToolOrOutput
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import DynamicToolset

from clew.actors import ActorSystem, ReplayDivergence, RunFailed
from clew.actors.agent import (
    AgentDefinition,
    DurableSteps,
    TurnChange,
    TurnStart,
    define_agent,
    has_tool_call,
    replay,
    tool_options,
)
from clew.actors.testing import (
    agent_harness,
    final_turn,
    following_model,
    invalid_for_provider,
    tool_call_turn,
    tool_calls_turn,
)
from clew.adapters.encryption import AesGcmSeal
from clew.journal.facts import StepCompleted
from tests.actors.harnesses import City, facts, returned
from tests.actors.prepared import CALLS, Seen, bring_your_own, decoded, look, looker, pay, requests_of, run_it
from tests.actors.sealed import OLD
from tests.actors.support import WAIT_S


@pytest.fixture(autouse=True)
def _no_calls_yet() -> None:  # pyright: ignore[reportUnusedFunction]
    CALLS.clear()


def test_a_tool_that_hides_itself_for_now_may_be_an_active_one() -> None:
    async def not_yet(ctx: RunContext[Any], tool: ToolDefinition) -> ToolDefinition | None:
        return tool if ctx.run_step > 1 else None

    seen = Seen(tool_call_turn("c1", "look", {}), final_turn("done"))
    tools = [look, Tool(pay, prepare=not_yet)]

    run_it(define_agent("looker", model=seen.model, tools=tools, active_tools=["look", "pay"]), "Go")

    assert seen.tools == [["look"], ["look", "pay"]]


@pytest.mark.requirement("L-LOOP-17")
@pytest.mark.parametrize("declare", [looker, bring_your_own])
def test_active_tools_are_all_that_the_model_sees(declare: Any) -> None:
    seen = Seen(tool_call_turn("c1", "look", {}), final_turn("done"))

    run_it(declare(seen, active_tools=["look"]), "Go")

    assert seen.tools == [["look"], ["look"]]


@pytest.mark.requirement("L-LOOP-17")
def test_active_tools_of_a_turn_are_for_that_turn() -> None:
    seen = Seen(*(tool_call_turn(f"c{n}", "look", {}) for n in range(3)), final_turn("done"))
    choices: list[list[str] | None] = [["look"], ["look", "pay"], [], None]

    def prepare(start: TurnStart) -> TurnChange:
        return TurnChange(active_tools=choices[start.step_number])

    # The third call is of a tool that is not active in its turn.
    _, journal = run_it(looker(seen, prepare_step=prepare, active_tools=["look"]), "Go")

    assert seen.tools == [["look"], ["look", "pay"], [], ["look"]]
    assert CALLS["look"] == 2
    tails = [bytes(step.tail) for step in decoded(journal) if isinstance(step, StepCompleted)]
    assert not any(b"delta" in tail for tail in tails)


@pytest.mark.requirement("L-LOOP-17")
def test_a_tool_that_is_not_active_is_not_called_though_the_model_asks_for_it() -> None:
    seen = Seen(
        tool_calls_turn(("c1", "pay", {"usd": 100}), ("c2", "look", {})),
        tool_call_turn("c3", "look", {}),
        final_turn("done"),
    )

    _, journal = run_it(looker(seen, active_tools=["look"]), "Go")

    assert CALLS == {"look": 2}
    assert [part.outcome for part in returns(seen.sent[1])] == ["retried", "success"]
    assert "may not be used now. These may: 'look'" in str(returns(seen.sent[1])[0].content)
    assert not any(step.startswith("tool:pay") for step, _, _ in requests_of(journal))
    assert invalid_for_provider(seen.sent[-1]) == []


def returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def test_a_sub_agent_has_its_own_tools_whatever_is_active_around_it() -> None:
    inner_seen = Seen(tool_call_turn("c1", "pay", {}), final_turn("inner"))
    inner = Agent(inner_seen.model, name="inner", tools=[pay], capabilities=[DurableSteps()])
    seen = Seen(tool_call_turn("a", "ask", {}), final_turn("outer"))
    outer = Agent(seen.model, name="outer", tools=[pay])

    @outer.tool_plain(metadata=tool_options(attempts=1))
    async def ask() -> str:
        return (await inner.run("?")).output

    prepared: list[int] = []

    def prepare(start: TurnStart) -> dict[str, Any]:
        prepared.append(start.step_number)
        return {"settings": {"seed": 7}}

    answers, _ = run_it(AgentDefinition(agent=outer, active_tools=["ask"], prepare_step=prepare), "Go")

    # In the run, and in the replay.
    assert prepared == [0, 1] * 2
    assert (answers[0].output, CALLS["pay"]) == ("outer", 1)
    assert (seen.tools, inner_seen.tools) == ([["ask"], ["ask"]], [["pay"], ["pay"]])
    assert [settings.get("seed") for settings in seen.settings + inner_seen.settings] == [7, 7, None, None]


@pytest.mark.requirement("L-LOOP-17", "L-LOOP-4")
def test_a_tool_is_forced_in_one_turn() -> None:
    seen = Seen(tool_call_turn("c1", "look", {}), final_turn("done"))

    def force(start: TurnStart) -> dict[str, Any]:
        return {"tool_choice": "required"} if start.step_number == 0 else {}

    definition = looker(seen, prepare_step=force, tool_choice="auto")
    _, journal = run_it(definition, "Go")

    assert [settings.get("tool_choice") for settings in seen.settings] == ["required", "auto"]
    digests = [request["settings"] for step, request, _ in requests_of(journal) if step.startswith("llm")]
    assert digests[0] != digests[1]


@pytest.mark.requirement("L-LOOP-17")
@pytest.mark.parametrize("choice", ["auto", "none", ["look"], ToolOrOutput(["look"])])
def test_a_tool_choice_is_the_agents_in_every_turn(choice: Any) -> None:
    seen = Seen(tool_call_turn("c1", "look", {}))

    run_it(looker(seen, tool_choice=choice, stop_when=has_tool_call("look")), "Go")

    assert seen.settings == [{"tool_choice": choice}]


def test_other_tools_than_were_recorded_are_a_divergence_that_names_them() -> None:
    turns = [tool_call_turn("c1", "look", {}), final_turn("done")]
    one = define_agent("looker", model=following_model(turns), tools=[look, pay], active_tools=["look"])
    other = replace(one, active_tools=["pay"])

    with ActorSystem("memory:", agents=[one]) as system:
        thread = system.thread(one, "test")
        thread.run("Go").result(timeout_s=WAIT_S)
        with pytest.raises(ReplayDivergence) as diverged:
            replay(thread, other)

    assert (diverged.value.step, diverged.value.field) == ("llm:turn:1", "request.tools")


@pytest.mark.parametrize("option", ["active_tools", "tool_choice"])
def test_tools_that_come_at_run_time_are_looked_for_when_the_turn_begins(option: str) -> None:
    seen = Seen(tool_call_turn("c1", "look", {}), final_turn("done"))

    def offer(names: list[str]) -> AgentDefinition[None, str]:
        later = DynamicToolset[None](lambda ctx: FunctionToolset[None]([look], id="inner"), id="later")
        agent: Agent[None, str] = Agent(seen.model, name="looker", toolsets=[later], deps_type=NoneType)
        if option == "tool_choice":
            return AgentDefinition(agent=agent, tool_choice=ToolOrOutput(names))
        return AgentDefinition(agent=agent, active_tools=names)

    run_it(offer(["look"]), "Go")
    assert CALLS["look"] == 1
    with pytest.raises(RunFailed, match=f"{option} names 'lok', which it does not have in this turn; there are 'look'"):
        run_it(offer(["lok"]), "Go")


def test_a_choice_may_name_the_tool_of_a_typed_answer() -> None:
    seen = Seen(tool_call_turn("c1", "final_result", {"name": "Oslo", "people": 1}))
    definition = define_agent("looker", model=seen.model, tools=[look], output=City, tool_choice=["final_result"])

    answers, _ = run_it(definition, "Go")

    assert answers[0].output == City(name="Oslo", people=1)


def test_what_a_hidden_tool_is_called_with_is_sealed_as_ever() -> None:
    agent = Agent("test", name="payer", tools=[look])

    @agent.tool_plain(metadata=tool_options(needs_approval=True))
    def transfer(to: str) -> str:
        return to

    definition = AgentDefinition(agent=agent, active_tools=["look"], seal=AesGcmSeal({"k": OLD}, current="k"))
    with agent_harness(definition, [tool_call_turn("c1", "transfer", {"to": "IBAN-77"}), final_turn("no")]) as harness:
        harness.run("Go")

    assert not any(b"IBAN-77" in event.canonical for event in harness.journal.read("thread/test"))
    assert facts(harness, StepCompleted)
    assert returned(harness) != []
