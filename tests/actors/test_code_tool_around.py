"""Scripts in the company of others: of other agents, of other scripts, and where no thread drives them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ToolReturnPart

from clew.actors import ActorSystem
from clew.actors.agent import AgentDefinition, agent_as_tool, code_tool, define_agent, replay, tool_options, tool_step
from clew.actors.testing import final_turn, following_model, tool_call_turn
from tests.actors.scripts import ref, script, step, told
from tests.actors.support import WAIT_S


def test_another_agent_is_asked_from_a_script_and_its_usage_counts_once() -> None:
    expert = define_agent("expert", model=following_model([final_turn("forty two")]))

    def same(value: str) -> str:
        return value

    steps = (step("a", "ask_expert", prompt="why?"), step("b", "same", value=ref("a")))
    boss = define_agent(
        "boss",
        model=following_model([script(*steps), final_turn("ok")]),
        tools=[code_tool([agent_as_tool(expert), same])],
    )
    with pytest.raises(ValueError, match="'expert' as a tool, which is not here"):
        ActorSystem("memory:", agents=[boss])
    with ActorSystem("memory:", agents=[boss, expert]) as system:
        thread = system.thread(boss, "t")
        answer = thread.run("go").result(timeout_s=WAIT_S)
        assert replay(thread, boss, expert).digests_equal
        assert told(thread)["final"] == "forty two"

    assert answer.usage.requests == 3


def test_two_scripts_beside_each_other_and_one_in_a_sub_agent_keep_apart() -> None:
    seen: list[str] = []

    async def look(value: int) -> int:
        seen.append(tool_step().name)
        await asyncio.sleep(0)
        return value + 1

    inner = Agent(
        following_model([script(step("a", "look", value=5)), final_turn("inner done")]),
        name="inner",
        tools=[code_tool([look])],
        capabilities=[*AgentDefinition(agent=Agent("test", name="x")).capabilities],
    )

    async def ask() -> str:
        return (await inner.run("go")).output

    steps = [step("a", "look", value=1), step("b", "look", value=ref("a"))]
    both = script(*steps)
    both.parts = [*both.parts, *script(*steps, call="c2").parts, *tool_call_turn("c3", "ask").parts]
    agent = define_agent("outer", model=following_model([both, final_turn("ok")]), tools=[code_tool([look]), ask])
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t")
        thread.run("go", run_id="r").result(timeout_s=WAIT_S)
        replayed = replay(thread, agent)
        answers = [told(thread, call)["final"] for call in ("c1", "c2")]

    assert answers == [3, 3]
    assert replayed.digests_equal
    assert sorted(seen) == [
        "tool:ask:c3/tool:run_script:c1/tool:look:a",
        *(f"tool:run_script:{call}/tool:look:{id_}" for call in ("c1", "c2") for id_ in "ab"),
    ]


def test_in_an_agent_without_steps_a_script_is_part_of_the_step_around_it() -> None:
    attempts: list[str] = []

    async def look(value: int) -> int:
        attempts.append(tool_step().name)
        return value

    asked = 0

    async def ask() -> str:
        nonlocal asked
        asked += 1
        # Another script each time, as a model would write that is really asked again.
        turns = [script(step("a", "look", value=asked)), final_turn(f"try {asked}")]
        inner = Agent(following_model(turns), name="inner", tools=[code_tool([look])])
        output = (await inner.run("go")).output
        if asked == 1:
            raise OSError("not now")
        return output

    agent = define_agent("outer", model=following_model([tool_call_turn("c1", "ask"), final_turn("ok")]), tools=[ask])
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t")
        assert thread.run("go", run_id="r").result(timeout_s=WAIT_S).output == "ok"

    assert attempts == ["tool:ask:c1"] * 2


async def test_outside_of_a_thread_a_script_runs_as_it_is_and_what_needs_approval_does_not() -> None:
    paid: list[int] = []

    async def pay(cents: int) -> int:
        paid.append(cents)
        return cents

    def odd() -> Any:
        return {1, 2}

    large = Tool(pay, metadata=tool_options(needs_approval=lambda arguments: arguments["cents"] > 10))
    strict = Tool(pay, name="strict", requires_approval=True)
    steps = (step("a", "pay", cents=5), step("b", "pay", cents=50), step("c", "pay", cents=1))
    turns = [
        script(*steps),
        script(step("a", "strict", cents=1), call="c2"),
        script(step("a", "odd"), call="c3"),
        final_turn("ok"),
    ]
    agent = Agent(following_model(turns), tools=[code_tool([large, strict, odd])])

    result = await agent.run("go")

    returns = [part for message in result.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]
    first, second, third = [cast("dict[str, Any]", part.content) for part in returns]
    assert first["steps"][0]["output"] == 5
    assert first["steps"][1]["error"]["code"] == second["steps"][0]["error"]["code"] == "rejected"
    assert "no JSON form" in third["steps"][0]["error"]["message"]
    assert paid == [5]
