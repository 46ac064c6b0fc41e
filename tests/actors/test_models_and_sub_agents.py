"""Models that fail, and agents inside of agents."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from pydantic_ai import Agent, ModelResponse, RunContext, Tool
from pydantic_ai.capabilities import ModelFallback
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew.actors import ActorSystem, RunFailed
from clew.actors.agent import DurableSteps, define_agent, replay, tool_options, tool_step
from clew.actors.testing import (
    Script,
    VirtualClock,
    agent_harness,
    final_turn,
    invalid_for_provider,
    scripted_model,
    tool_call_turn,
    tool_calls_turn,
)
from clew.journal.facts import StepCompleted
from tests.actors.harnesses import calculator, facts, returned, steps_of
from tests.actors.support import until


def test_a_model_error_is_recorded_and_the_model_that_failed_is_not_asked_again() -> None:
    asked: Counter[str] = Counter()

    def bad(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked["bad"] += 1
        raise ModelHTTPError(503, "bad", {"reason": "busy"})

    def good(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked["good"] += 1
        return final_turn("from the second model")

    second = FunctionModel(good, model_name="good")
    agent = Agent(
        FunctionModel(bad, model_name="bad"),
        name="careful",
        capabilities=[ModelFallback("second"), DurableSteps(models={"second": second})],
    )
    with ActorSystem("memory:", agents=[agent]) as system:
        answer = system.thread(agent, "test").run("Go").result(timeout_s=10)
        replayed = replay(system.thread(agent, "test"), agent)

    assert answer.output == "from the second model"
    assert asked == {"bad": 1, "good": 1}
    assert replayed.digests_equal
    assert replayed.runs[0].steps == ("llm:turn:1", "llm:turn:1#2")


def test_a_model_that_fails_ends_the_run_with_its_error_and_replays_it() -> None:
    agent, _ = calculator()
    script = Script([ModelHTTPError(500, "script", {"why": "broken"}), final_turn("fine")])

    with agent_harness(agent, script) as harness:
        with pytest.raises(RunFailed, match=r"ModelHTTPError: .*500"):
            harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)
        after = harness.run("And now?")

    assert (replayed.digests_equal, replayed.runs[0].ended) == (True, "failed")
    assert after.output == "fine"
    assert invalid_for_provider(script.requests[-1]) == []


def test_what_a_sub_agent_used_counts_the_same_on_replay() -> None:
    inner = Agent(scripted_model([final_turn("inner")]), name="inner")
    outer = Agent("test", name="outer")

    @outer.tool
    async def ask(ctx: RunContext[object]) -> str:
        return (await inner.run("?", usage=ctx.usage)).output

    with agent_harness(outer, [tool_call_turn("c1", "ask", {}), final_turn("done")]) as harness:
        answer = harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)

    assert answer.usage.requests == 3
    assert replayed.digests_equal
    assert facts(harness, StepCompleted)[1].usage != b"null"


def test_sub_agents_in_parallel_tools_keep_their_own_steps() -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked = [part.content for part in messages[0].parts if isinstance(part, UserPromptPart)]
        return final_turn(f"answer to {asked[0]}")

    inner = Agent(FunctionModel(answer), name="inner", capabilities=[DurableSteps()])
    outer = Agent("test", name="outer")

    @outer.tool_plain
    async def ask(question: str) -> str:
        return (await inner.run(question)).output

    turns = tool_calls_turn(("a", "ask", {"question": "A"}), ("b", "ask", {"question": "B"}))
    with agent_harness(outer, [turns, final_turn("done")]) as harness:
        harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)

    assert returned(harness) == ["answer to A", "answer to B"]
    assert {"tool:ask:a/llm:turn:1", "tool:ask:b/llm:turn:1"} < set(steps_of(harness))
    assert replayed.digests_equal
    assert len(harness.messages()) == 4


def test_toolsets_that_arrive_at_run_time_are_refused() -> None:
    inner = Agent(scripted_model([final_turn("inner")]), name="inner", capabilities=[DurableSteps()])
    outer = Agent("test", name="outer")

    @outer.tool_plain(metadata=tool_options(attempts=1))
    async def ask() -> str:
        from pydantic_ai import FunctionToolset

        late = FunctionToolset(id="late")
        late.add_function(lambda: "x", name="x")
        return (await inner.run("?", toolsets=[late])).output

    with (
        agent_harness(outer, [tool_call_turn("c1", "ask", {})]) as harness,
        pytest.raises(RunFailed, match="UserError"),
    ):
        harness.run("Go")


def test_an_error_of_a_model_whose_body_is_no_text_is_recorded_without_it() -> None:
    agent, _ = calculator()
    script = Script([ModelHTTPError(500, "script\ud800", {"why": "\ud800"}), final_turn("fine")])

    with agent_harness(agent, script) as harness:
        with pytest.raises(RunFailed, match="ModelHTTPError"):
            harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)

    assert replayed.digests_equal


def test_a_tool_that_is_tried_again_does_not_repeat_what_its_sub_agent_did() -> None:
    paid: list[str] = []
    tries: Counter[str] = Counter()

    def pay() -> str:
        paid.append(tool_step().idempotency_key)
        return "paid"

    model = scripted_model([tool_call_turn("p1", "pay", {}), final_turn("it is paid")])
    inner = Agent(model, name="inner", tools=[pay], capabilities=[DurableSteps()])
    outer = Agent("test", name="outer")

    @outer.tool_plain
    async def ask() -> str:
        said = (await inner.run("pay")).output
        tries["ask"] += 1
        if tries["ask"] == 1:
            raise ConnectionError("afterwards")
        return said

    with agent_harness(outer, [tool_call_turn("c1", "ask", {}), final_turn("done")]) as harness:
        answer = harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)
        stream = harness.conversation().stream

    assert answer.output == "done"
    assert returned(harness) == ["it is paid"]
    assert paid == [f"{stream}/{answer.run}/tool:ask:c1/tool:pay:p1"]
    assert tries["ask"] == 2
    assert replayed.digests_equal


def test_what_failed_in_a_sub_agent_is_tried_again_with_its_tool() -> None:
    asked: Counter[str] = Counter()

    def flaky(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked["model"] += 1
        if asked["model"] == 1:
            raise ModelHTTPError(503, "inner", "busy")
        return final_turn("well")

    inner = Agent(FunctionModel(flaky), name="inner", capabilities=[DurableSteps()])
    outer = Agent("test", name="outer")

    @outer.tool_plain
    async def ask() -> str:
        return (await inner.run("how are you?")).output

    with agent_harness(outer, [tool_call_turn("c1", "ask", {}), final_turn("done")]) as harness:
        harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)

    assert returned(harness) == ["well"]
    assert asked["model"] == 2
    assert replayed.digests_equal


def test_a_call_of_a_sub_agent_that_may_run_once_is_in_doubt_when_its_tool_takes_too_long() -> None:
    paid: list[str] = []
    clock = VirtualClock()

    async def pay() -> str:
        paid.append("pay")
        await asyncio.Event().wait()
        return "paid"

    model = scripted_model([tool_call_turn("p1", "pay", {}), final_turn("it is paid")])
    once = Tool(pay, metadata=tool_options(at_most_once=True))
    inner = Agent(model, name="inner", tools=[once], capabilities=[DurableSteps()])

    async def ask() -> str:
        return (await inner.run("pay")).output

    tools = [Tool(ask, metadata=tool_options(attempts=3, timeout_s=30))]
    script = [tool_call_turn("c1", "ask", {}), final_turn("done")]
    outer = define_agent("outer", model=scripted_model(script), tools=tools)
    with ActorSystem("memory:", agents=[outer], clock=clock) as system:
        thread = system.thread(outer, "t")
        run = thread.run("Go", run_id="r")
        until(lambda: paid)
        clock.advance(31)
        until(lambda: thread.status("r") == "awaiting_input")
        thread.settle("r", "tool:ask:c1/tool:pay:p1", result="paid").get(timeout=10)

        assert run.result(timeout_s=10).output == "done"
        assert replay(thread, outer).digests_equal
    assert paid == ["pay"]
