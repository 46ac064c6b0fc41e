"""What becomes of a brief afterwards: other runs, other keys, and others who change what is sent."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from clew.actors import ActorSystem, RunFailed
from clew.actors.agent import AgentDefinition, Compaction, define_agent, replay
from clew.actors.testing import agent_harness, final_turn, invalid_for_provider, tool_call_turn
from clew.adapters.cli.facts import words_of
from clew.journal import MemoryJournal
from clew.journal.facts import RunFinished, StepCompleted
from tests.actors.briefs import Writer, brief_in
from tests.actors.harnesses import calculator, facts

WAIT_S = 10.0


def adder(writer: Writer, **options: Any) -> AgentDefinition[None, str]:
    agent, _ = calculator()
    return AgentDefinition(agent=agent, compaction=Compaction(max_messages=4, model=writer.model), **options)


def calls(count: int) -> list[ModelResponse]:
    return [tool_call_turn(f"c{number}", "add", {"a": number, "b": 1}) for number in range(count)]


def test_the_brief_of_a_run_that_failed_is_used_by_the_next_one() -> None:
    writer = Writer()
    script = [*calls(2), ModelHTTPError(500, "script"), final_turn("here I am")]

    with agent_harness(adder(writer), script) as harness:
        with pytest.raises(RunFailed):
            harness.run("Go")
        assert harness.run("Are you there?").output == "here I am"
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert len(writer.records) == 1
    assert brief_in(harness.script.requests[-1]) == "brief 1"
    assert invalid_for_provider(harness.script.requests[-1]) == []


def test_an_empty_answer_of_the_model_does_not_hide_what_the_brief_stands_for() -> None:
    """It is recorded, and sent to nobody: the next run does not have it in its history."""
    writer = Writer()
    script: list[Any] = [ModelResponse([]), *calls(3), final_turn("done"), final_turn("again")]

    with agent_harness(adder(writer), script) as harness:
        harness.run("Go")
        harness.run("And?")
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert "Earlier brief" not in writer.records[0]
    assert all("Earlier brief" in record for record in writer.records[1:])
    assert all(invalid_for_provider(messages) == [] for messages in harness.script.requests)


class Trimming(AbstractCapability[Any]):
    """Somebody's own way to shorten a conversation: only the last three messages are sent, made anew each time."""

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        if ctx.run_step == 1 and len(request_context.messages) > 6:
            request_context.messages = [*request_context.messages[-3:]]
        return request_context


def test_a_brief_does_not_stand_for_what_somebody_else_has_taken_out() -> None:
    writer = Writer()
    seen: list[list[ModelMessage]] = []

    async def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        seen.append(messages)
        return final_turn("yes")

    agent = Agent(FunctionModel(respond), name="trimmed", capabilities=[Trimming()])
    definition = AgentDefinition(agent=agent, compaction=Compaction(max_messages=4, model=writer.model))
    with ActorSystem(MemoryJournal(), agents=[definition]) as system:
        thread = system.thread(definition, "t")
        for number in range(5):
            thread.run(f"question {number}").result(timeout_s=WAIT_S)
        assert replay(thread, definition).digests_equal

    assert [brief_in(messages) for messages in seen] == [None, None, "brief 1", None, None]
    assert [len(messages) for messages in seen[3:]] == [3, 3]


def test_a_brief_has_a_price_that_is_recorded_with_it() -> None:
    async def write(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        usage = RequestUsage(input_tokens=1_000_000, output_tokens=1)
        return ModelResponse(final_turn("a brief").parts, usage=usage, model_name="gpt-4o", provider_name="openai")

    agent, _ = calculator()
    compaction = Compaction(max_messages=4, model=FunctionModel(write, model_name="gpt-4o"))
    definition = AgentDefinition(agent=agent, compaction=compaction)
    with agent_harness(definition, [*calls(2), final_turn("done")]) as harness:
        harness.run("Go")
        [made] = [step for step in facts(harness, StepCompleted) if step.step == "llm:brief:3"]
        [finished] = facts(harness, RunFinished)

    price = msgspec.json.decode(made.result)["usage"]["cost"]
    assert Decimal(price) > 1
    assert Decimal(msgspec.json.decode(finished.usage)["cost"]) == Decimal(price)


def test_a_brief_is_shown_by_the_command_line_in_its_own_words() -> None:
    writer = Writer("they want a sum", "")

    with agent_harness(adder(writer), [*calls(4), final_turn("done")]) as harness:
        harness.run("Go")
        shown = [words_of(step) for step in facts(harness, StepCompleted) if step.step.startswith("llm:brief:")]

    assert shown == ["they want a sum", "it is empty"]


def test_who_has_no_brief_is_told_why_once(caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer(ModelHTTPError(401, "writer", "no key"))

    with (
        caplog.at_level(logging.WARNING, "clew"),
        agent_harness(adder(writer), [*calls(2), final_turn("x")]) as harness,
    ):
        harness.run("Go", run_id="r1")
        replay(harness.conversation(), harness.definition)

    [told] = [record.getMessage() for record in caplog.records]
    assert "thread/test, run r1: no llm:brief:3, so more is sent: ModelHTTPError" in told


async def test_a_brief_is_not_heard_by_those_who_listen_to_the_answer() -> None:
    heard: list[str] = []

    async def speak(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[str]:
        yield "the answer"

    async def respond(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        return final_turn("the answer")

    writer = Writer()
    agent = define_agent(
        "voice",
        model=FunctionModel(respond, stream_function=speak),
        compaction=Compaction(max_messages=2, model=writer.model),
    )
    with ActorSystem(MemoryJournal(), agents=[agent]) as system:
        thread = system.thread(agent, "t")
        await thread.run("one", run_id="r1")
        async with thread.deltas("r2") as deltas:
            run = thread.run("two", run_id="r2")
            heard += [delta.step async for delta in deltas]
        assert (await run).output == "the answer"

    assert writer.records
    assert set(heard) == {"llm:turn:1"}
