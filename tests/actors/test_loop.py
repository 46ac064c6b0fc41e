"""The agent loop, live: turns, answers, limits, and what is recorded of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import Agent, ModelResponse, RunContext, TextPart, ToolCallPart
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage

from clew.actors import RunFailed
from clew.actors.agent import AgentDefinition, define_agent, replay
from clew.actors.testing import (
    agent_harness,
    final_turn,
    invalid_for_provider,
    tool_call_turn,
    tool_calls_turn,
)
from clew.projections import view_of
from tests.actors.harnesses import City, calculator, steps_of


@pytest.mark.requirement("L-DEF-2", "L-REPLAY-1", "L-LOOP-3", "L-TEST-1", "L-TEST-2", "L-TEST-3")
def test_every_turn_and_every_tool_call_is_a_named_step() -> None:
    agent, _ = calculator()
    script = [tool_call_turn("c1", "add", {"a": 1, "b": 2}, text="Let me see."), final_turn("3")]

    with agent_harness(agent, script) as harness:
        answer = harness.run("What is 1 + 2?")

        assert (answer.output, answer.stopped) == ("3", "final")
        assert steps_of(harness) == ["llm:turn:1", "tool:add:c1", "llm:turn:2"]
        assert [message.kind for message in harness.messages()] == ["request", "response", "request", "response"]
        assert not harness.system.failures


@pytest.mark.requirement("L-LOOP-15", "L-TEST-4")
def test_usage_adds_up_over_turns_and_is_kept_with_the_thread() -> None:
    agent, _ = calculator()
    script = [tool_call_turn("c1", "add", {"a": 1, "b": 2}), final_turn("3"), final_turn("again")]

    with agent_harness(agent, script) as harness:
        first, second = harness.run("What is 1 + 2?"), harness.run("And now?")
        view = harness.thread()

    assert (first.usage.requests, first.usage.tool_calls, second.usage.requests) == (2, 1, 1)
    assert view.usage.requests == 3
    assert view.usage.input_tokens == first.usage.input_tokens + second.usage.input_tokens > 0


async def test_calls_that_run_beside_each_other_each_count_once() -> None:
    agent = Agent("test", name="racer")
    recorded = asyncio.Event()

    @agent.tool_plain
    async def slow() -> str:
        await recorded.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        return "slow"

    @agent.tool_plain
    async def quick() -> str:
        recorded.set()
        return "quick"

    with agent_harness(agent, [tool_calls_turn(("s", "slow", {}), ("q", "quick", {})), final_turn("done")]) as harness:
        answer = await harness.conversation().run("Go")

    assert answer.usage.tool_calls == 2


@pytest.mark.requirement("L-RUN-2", "L-LOOP-12")
def test_a_second_run_sees_all_that_was_said_before() -> None:
    agent, _ = calculator()
    script = [tool_call_turn("c1", "add", {"a": 1, "b": 2}), final_turn("It is 3."), final_turn("You are welcome.")]

    with agent_harness(agent, script) as harness:
        harness.run("What is 1 + 2?")
        harness.run("Thank you.")
        said = harness.messages()

    sent = harness.script.requests[-1]
    assert len(sent) == 5
    assert invalid_for_provider(sent) == []
    assert [type(a).__name__ for a in said[:4]] == [type(a).__name__ for a in sent[:4]]
    assert [a.parts for a in said[:4]] == [a.parts for a in sent[:4]]


def test_messages_folded_from_the_journal_are_those_the_loop_had() -> None:
    agent, _ = calculator()
    had: list[list[ModelMessage]] = []

    @agent.output_validator
    def keep(ctx: RunContext[None], output: str) -> str:
        had.append(list(ctx.messages))
        return output

    turns = tool_calls_turn(("a", "add", {"a": 1, "b": 2}), ("b", "nothing", {}), ("c", "add", {"a": "x"}))
    with agent_harness(agent, [turns, final_turn("3")]) as harness:
        harness.run("What is 1 + 2?")
        folded = harness.messages()

    for mine, theirs in zip(folded, had[-1], strict=False):
        assert mine.parts == theirs.parts
        assert getattr(mine, "instructions", None) == getattr(theirs, "instructions", None)


@pytest.mark.requirement("L-LOOP-1")
def test_a_run_out_of_turns_stops_gracefully_and_the_thread_stays_usable() -> None:
    agent, calls = calculator()
    script = [tool_call_turn(f"c{n}", "add", {"a": n, "b": 1}) for n in range(2)] + [final_turn("Here I am.")]

    with agent_harness(AgentDefinition(agent=agent, max_turns=2), script) as harness:
        stopped = harness.run("Count for ever.")
        after = harness.run("Are you there?")

    assert (stopped.stopped, stopped.output, calls["add"]) == ("max_turns", None, 2)
    assert after.output == "Here I am."
    assert invalid_for_provider(harness.script.requests[-1]) == []


@pytest.mark.requirement("L-LOOP-13")
def test_a_structured_answer_comes_back_as_its_type() -> None:
    agent = Agent("test", name="geographer", output_type=City)
    script = [tool_call_turn("c1", "final_result", {"name": "Oslo", "people": 700_000})]

    with agent_harness(agent, script) as harness:
        answer = harness.run("Which city?")
        again = harness.conversation().attach(answer.run).result(timeout_s=5)

        assert answer.output == City(name="Oslo", people=700_000)
        assert again.output == answer.output
        assert replay(harness.conversation(), harness.definition).output == {"name": "Oslo", "people": 700_000}


@pytest.mark.requirement("L-LOOP-14")
def test_on_step_finish_hears_of_each_step_once_and_cannot_break_the_run() -> None:
    agent, _ = calculator()
    heard: list[str] = []

    def listen(finished: Any) -> None:
        heard.append(finished.step)
        raise RuntimeError("the listener is broken")

    script = [tool_call_turn("c1", "add", {"a": 1, "b": 2}), final_turn("3")]
    with agent_harness(AgentDefinition(agent=agent, on_step_finish=listen), script) as harness:
        harness.run("What is 1 + 2?")
        replay(harness.conversation(), harness.definition)

    assert heard == ["llm:turn:1", "tool:add:c1", "llm:turn:2"]


@pytest.mark.requirement("L-DEF-6")
def test_an_instructions_function_is_called_once_a_run_and_recorded() -> None:
    asked: list[str] = []

    def instructions(run: Any) -> str:
        asked.append(run.thread)
        return f"Answer in thread {run.thread}, call number {len(asked)}."

    definition = define_agent("formal", model="test", instructions=instructions)
    script = [final_turn("Good day.")]

    with agent_harness(definition, script) as harness:
        harness.run("Hello")
        replay(harness.conversation(), harness.definition)

    assert asked == ["test"]
    assert steps_of(harness)[0] == "instructions"
    assert getattr(harness.script.requests[0][-1], "instructions", "") == "Answer in thread test, call number 1."


def test_usage_limits_of_pydantic_ai_do_not_count_our_turns() -> None:
    agent, _ = calculator()
    script = [tool_call_turn(f"c{n}", "add", {"a": n, "b": 1}) for n in range(60)] + [final_turn("done")]

    with agent_harness(AgentDefinition(agent=agent, max_turns=100), script) as harness:
        assert harness.run("Count.").usage == harness.thread().usage
        assert harness.thread().usage.requests == 61


def test_a_text_and_a_call_in_one_turn_keep_their_order() -> None:
    agent, _ = calculator()
    turn = ModelResponse([TextPart("one"), ToolCallPart("add", {"a": 1, "b": 1}, tool_call_id="x"), TextPart("two")])

    with agent_harness(agent, [turn, final_turn("2")]) as harness:
        harness.run("Go")
        kinds = [part.part_kind for part in harness.messages()[1].parts]

    assert kinds == ["text", "tool-call", "text"]


@pytest.mark.requirement("L-LOOP-15")
def test_usage_counts_also_when_a_run_fails_and_agrees_with_the_loop_when_it_does_not() -> None:
    agent, _ = calculator()
    script = [
        tool_call_turn("c1", "add", {"a": 1, "b": 2}),
        ModelHTTPError(500, "script"),
        tool_call_turn("c2", "add", {"a": 1, "b": 2}),
        final_turn("3"),
    ]

    with agent_harness(agent, script) as harness:
        with pytest.raises(RunFailed):
            harness.run("What is 1 + 2?")
        failed = harness.thread().runs[0].usage
        answer = harness.run("And now?")
        events = list(harness.journal.read("thread/test"))
        before_the_end, at_the_end = view_of(events[:-1]), view_of(events)

    assert (failed.requests, failed.tool_calls, failed.input_tokens > 0) == (1, 1, True)
    assert before_the_end.runs[1].usage == at_the_end.runs[1].usage == answer.usage
    assert at_the_end.usage.requests == 3
