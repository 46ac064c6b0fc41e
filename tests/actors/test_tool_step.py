"""What a tool and the code around it can know and set of their thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext

from clew.actors import RunFailed
from clew.actors.agent import AgentDefinition, replay, this_run, tool_options, tool_step
from clew.actors.agent.steps import current_steps
from clew.actors.testing import (
    agent_harness,
    final_turn,
    tool_call_turn,
    tool_calls_turn,
)
from clew.journal.facts import StateSet
from tests.actors.harnesses import facts, returned


@pytest.mark.requirement("L-STATE-2", "L-STATE-3", "L-STATE-7")
def test_state_set_by_a_tool_is_recorded_with_its_result() -> None:
    agent = Agent("test", name="planner")
    seen: list[Any] = []

    @agent.tool_plain
    def plan(note: str) -> str:
        step = tool_step()
        seen.append(step.get_state())
        step.set_state({"notes": [*(step.get_state() or {"notes": []})["notes"], note]})
        return "noted"

    script = [
        tool_call_turn("c1", "plan", {"note": "a"}),
        tool_call_turn("c2", "plan", {"note": "b"}),
        final_turn("ok"),
    ]
    with agent_harness(agent, script) as harness:
        harness.run("Plan")
        names = [event.type.name for event in harness.journal.read("thread/test")]
        state = harness.conversation().state()

    assert seen == [None, {"notes": ["a"]}]
    assert state == {"notes": ["a", "b"]}
    assert names[names.index("state.set") + 1] == "step.completed"
    assert len(facts(harness, StateSet)) == 2


def test_state_that_is_not_json_is_refused_where_it_is_set() -> None:
    agent = Agent("test", name="planner")

    @agent.tool_plain(metadata=tool_options(attempts=1))
    def plan() -> str:
        tool_step().set_state({"when": [object()]})
        return "noted"

    with (
        agent_harness(agent, [tool_call_turn("c1", "plan", {})]) as harness,
        pytest.raises(RunFailed, match=r"when\[0\]"),
    ):
        harness.run("Plan")


@dataclass
class Services:
    greeting: str


def test_the_accessor_works_beside_any_deps_in_sync_and_async_tools() -> None:
    agent = Agent("test", name="mixed", deps_type=Services)
    seen: list[tuple[str, str, str | None]] = []

    @agent.tool
    def sync_tool(ctx: RunContext[Services]) -> str:
        seen.append((tool_step().name, tool_step().thread, tool_step().owner))
        return ctx.deps.greeting

    @agent.tool
    async def async_tool(ctx: RunContext[Services]) -> str:
        seen.append((tool_step().name, tool_step().run, tool_step().owner))
        return ctx.deps.greeting

    turns = tool_calls_turn(("s", "sync_tool", {}), ("a", "async_tool", {}))
    definition = AgentDefinition(agent=agent, deps=Services("hello"))
    with agent_harness(definition, [turns, final_turn("done")]) as harness:
        harness.run("Go", owner="ann", run_id="r1")

    assert sorted(seen) == [("tool:async_tool:a", "r1", "ann"), ("tool:sync_tool:s", "test", "ann")]
    assert returned(harness) == ["hello", "hello"]


def test_deps_can_be_made_for_each_run() -> None:
    agent = Agent("test", name="each", deps_type=Services)

    @agent.tool
    def greet(ctx: RunContext[Services]) -> str:
        return ctx.deps.greeting

    definition = AgentDefinition(agent=agent, deps_for=lambda run: Services(f"hello {run.owner} in {run.thread}"))
    with agent_harness(definition, [tool_call_turn("c1", "greet", {}), final_turn("done")]) as harness:
        harness.run("Go", owner="ann")

    assert returned(harness) == ["hello ann in test"]


@dataclass
class Bank:
    refund: Callable[[str, int], str]


def test_in_a_harness_stubs_stand_behind_the_functions_that_tools_call() -> None:
    calls: list[tuple[str, object]] = []

    def of_the_bank(order: str, cents: int) -> str:
        raise AssertionError(f"{cents} cents of real money for {order}")

    def stub(order: str, cents: int) -> str:
        calls.append((order, cents))
        return f"stub-{len(calls)}"

    agent = Agent("test", name="clerk", deps_type=Bank)

    @agent.tool
    def give_back(ctx: RunContext[Bank], order: str, cents: int) -> str:
        return ctx.deps.refund(order, cents)

    production = AgentDefinition(agent=agent, deps=Bank(of_the_bank))
    script = [tool_call_turn(f"c{n}", "give_back", {"order": "7", "cents": n}) for n in (1, 2)]
    with agent_harness(replace(production, deps=Bank(stub)), [*script, final_turn("done")]) as harness:
        answer = harness.run("Give it back.")
        replay(harness.conversation(), harness.definition)

    assert (answer.stopped, returned(harness)) == ("final", ["stub-2"])
    assert calls == [("7", 1), ("7", 2)]


@pytest.mark.scenario("RPL-01")
def test_time_ids_and_chance_are_the_same_for_every_attempt_and_do_not_shift() -> None:
    agent = Agent("test", name="lucky")
    drawn: list[tuple[object, ...]] = []

    @agent.tool_plain(metadata=tool_options(attempts=2))
    def draw() -> str:
        step = tool_step()
        if drawn:
            assert step.uuid("another") != step.uuid("child")
        drawn.append((step.uuid("child"), step.random("dice").randrange(10**9), step.now))
        if len(drawn) == 1:
            raise OSError("again")
        return str(step.uuid("child"))

    with agent_harness(agent, [tool_call_turn("c1", "draw", {}), final_turn("done")]) as harness:
        harness.run("Go")

    assert drawn[0] == drawn[1]


def test_the_run_is_known_to_code_of_the_loop_and_to_nothing_outside() -> None:
    agent = Agent("test", name="where")
    seen: list[object] = []

    @agent.instructions
    def where() -> str:
        run = this_run()
        seen.append((run.thread, run.run, run.now))
        return f"You are in {run.thread}."

    with agent_harness(agent, [final_turn("ok")]) as harness:
        harness.run("Go", run_id="r1")
        replay(harness.conversation(), harness.definition)

    assert len(set(seen)) == 1
    assert current_steps() is None
    with pytest.raises(RuntimeError, match="drives"):
        this_run()
    with pytest.raises(RuntimeError, match="tool"):
        tool_step()
