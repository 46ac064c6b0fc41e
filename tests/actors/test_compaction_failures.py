"""Briefs that cannot be made, processes that die while one is, and conversations that are long."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic_ai import Agent, Tool
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew.actors import ActorSystem
from clew.actors.agent import AgentDefinition, Compaction, define_agent, replay, tool_options
from clew.actors.testing import (
    World,
    agent_harness,
    crash_points,
    final_turn,
    following_model,
    invalid_for_provider,
    tool_call_turn,
)
from clew.journal import Journal, MemoryJournal
from clew.journal.facts import StepCompleted, StepFailed
from clew.journal.lmdb import LmdbJournal
from tests.actors.briefs import Writer, brief_in, steps_in
from tests.actors.harnesses import calculator, facts

WAIT_S = 10.0


def adder(writer: Writer, **options: Any) -> AgentDefinition[None, str]:
    agent, _ = calculator()
    return AgentDefinition(agent=agent, compaction=Compaction(max_messages=4, model=writer.model), **options)


def calls(count: int) -> list[ModelResponse]:
    return [tool_call_turn(f"c{number}", "add", {"a": number, "b": 1}) for number in range(count)]


@pytest.mark.scenario("MSG-06")
def test_a_writer_that_fails_harms_no_run_and_is_not_asked_at_each_turn() -> None:
    writer = Writer(*[ModelHTTPError(400, "writer", "tools without schemas")] * 9)

    with agent_harness(adder(writer), [*calls(8), final_turn("done"), final_turn("again")]) as harness:
        first = harness.run("Go")
        asked_in_first = len(writer.records)
        second = harness.run("And now?")
        replayed = replay(harness.conversation(), harness.definition)
        failed = facts(harness, StepFailed)

    assert (first.output, second.output) == ("done", "again")
    # At five messages, at seven, and so on: each time they are more by half of four. The next run tries anew.
    assert [step.step for step in failed] == [
        *[f"llm:brief:{turn}" for turn in range(3, 10)],
        "llm:brief:1",
    ]
    assert asked_in_first == 7
    assert {(step.final, step.error.type) for step in failed} == {(True, "ModelHTTPError")}
    assert len(harness.script.requests[-1]) == 19
    assert replayed.digests_equal
    assert len(writer.records) == 8


@pytest.mark.scenario("MSG-06")
def test_after_a_failure_a_brief_is_made_when_the_conversation_has_grown_by_half_of_the_limit() -> None:
    writer = Writer(ModelHTTPError(503, "writer"))
    agent, _ = calculator()
    compaction = Compaction(max_messages=8, model=writer.model)

    with agent_harness(AgentDefinition(agent=agent, compaction=compaction), [*calls(8), final_turn("done")]) as harness:
        harness.run("Go")

    assert [step for step in steps_in(harness.journal) if "brief" in step] == ["llm:brief:5!", "llm:brief:7"]
    assert all(invalid_for_provider(messages) == [] for messages in harness.script.requests)
    assert brief_in(harness.script.requests[6]) == "brief 2"


def test_no_brief_is_made_in_the_place_of_a_single_message() -> None:
    writer = Writer()
    agent, _ = calculator()
    compaction = Compaction(max_messages=4, keep_recent=3, model=writer.model)

    with agent_harness(AgentDefinition(agent=agent, compaction=compaction), [*calls(3), final_turn("done")]) as harness:
        harness.run("Go")

    # At five messages only the question could go, and it is kept anyway.
    assert [step for step in steps_in(harness.journal) if "brief" in step] == ["llm:brief:4"]


@pytest.mark.parametrize(
    ("written", "why"),
    [("", "it is empty"), (" \n ", "it is empty"), (lambda record: record * 2, "characters, for")],  # type: ignore[reportUnknownLambdaType]  (given to a test)
)
def test_a_brief_that_is_none_is_refused_and_what_it_used_counts(written: Any, why: str) -> None:
    writer = Writer(written)

    with agent_harness(adder(writer), [*calls(2), final_turn("done")]) as harness:
        answer = harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)
        [made] = [step for step in facts(harness, StepCompleted) if step.step == "llm:brief:3"]

    assert why in msgspec.json.decode(made.result)["refused"]
    assert len(harness.script.requests[-1]) == 5
    assert brief_in(harness.script.requests[-1]) is None
    assert answer.usage.requests == 4
    assert replayed.digests_equal


def test_a_refused_brief_is_not_taken_for_one_in_the_next_run() -> None:
    writer = Writer("a good one", "")

    with agent_harness(adder(writer), [*calls(4), final_turn("done"), final_turn("again")]) as harness:
        harness.run("Go")
        harness.restart()
        harness.run("And?")
        sent = harness.script.requests[-1]

    assert "Earlier brief: a good one" in writer.records[-1]
    assert brief_in(sent) == "brief 3"


def test_a_writer_that_takes_longer_than_a_turn_may_is_given_up() -> None:
    async def dawdle(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        await asyncio.sleep(3600)
        return final_turn("late")

    async def scenario(world: World) -> list[str]:
        agent = define_agent(
            "long",
            model=FunctionModel(lambda _, __: final_turn("yes")),
            compaction=Compaction(max_messages=2, model=FunctionModel(dawdle)),
            turn_timeout_s=30.0,
        )
        async with world.open(agents=[agent]) as system:
            thread = system.thread(agent, "t")
            begun = world.clock()
            assert [(await thread.run(name)).output for name in ("one", "two")] == ["yes", "yes"]
            assert 30e9 <= world.clock() - begun < 60e9
            return steps_in(world.journal, "thread/t")

    assert World().run(scenario) == ["llm:turn:1", "llm:brief:1!", "llm:turn:1"]


@pytest.mark.crash
@pytest.mark.requirement("L-LOOP-9")
def test_dying_anywhere_changes_nothing_about_a_compacted_conversation() -> None:
    made: list[str] = []

    async def scenario(world: World) -> list[str]:
        sent: list[str] = []

        async def write(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
            record = str(getattr(messages[0].parts[0], "content", ""))
            made.append(record)
            return final_turn(f"brief of {len(record)}")

        async def act() -> str:
            return "acted"

        async def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
            assert invalid_for_provider(messages) == []
            sent.append(str(brief_in(messages)))
            last = messages[-1].parts[-1]
            turn = 0 if last.part_kind == "user-prompt" else int(str(getattr(last, "tool_call_id", "")).split("-")[-1])
            prompt = _prompt(messages)
            return final_turn(f"end of {prompt}") if turn == 3 else tool_call_turn(f"{prompt}-{turn + 1}", "act")

        agent = define_agent(
            "long",
            model=FunctionModel(respond),
            tools=[act],
            compaction=Compaction(max_messages=4, model=FunctionModel(write)),
        )
        async with world.open(agents=[agent]) as system:
            thread = system.thread(agent, "t", owner="ann")
            answers = [(await thread.run(name, run_id=name)).output for name in ("one", "two")]
            replayed = replay(list(world.journal.read("thread/t")), agent)
            assert replayed.digests_equal
            return [*answers, *[step for step in steps_in(world.journal, "thread/t") if "brief" in step]]

    tried = crash_points(scenario)

    assert len(tried.points) > 40
    assert made


def _prompt(messages: list[ModelMessage]) -> str:
    """The name of the run that a request belongs to: what the user asked last."""
    prompts = [
        str(getattr(part, "content", ""))
        for message in messages
        for part in message.parts
        if part.part_kind == "user-prompt"
    ]
    return prompts[-1]


def test_a_brief_that_was_durable_is_not_made_again_by_the_process_that_goes_on(tmp_path: Path) -> None:
    made: list[str] = []

    async def write(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        made.append(str(messages))
        return final_turn("the brief")

    sent: list[list[ModelMessage]] = []

    async def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        sent.append(messages)
        return final_turn("yes")

    agent = define_agent(
        "long", model=FunctionModel(respond), compaction=Compaction(max_messages=4, model=FunctionModel(write))
    )
    for number in range(5):
        with LmdbJournal(tmp_path / "journal") as journal, ActorSystem(journal, agents=[agent]) as system:
            assert system.thread(agent, "t").run(f"question {number}").result(timeout_s=WAIT_S).output == "yes"

    assert len(made) == 2
    assert [brief_in(messages) for messages in sent] == [None, None, *["the brief"] * 3]


def test_what_is_recorded_grows_with_what_is_said_and_not_with_what_is_sent() -> None:
    """Each turn costs as much as any other, however long the conversation has become."""
    sizes: list[int] = []

    async def write(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        return final_turn("a brief of the same length")

    agent = define_agent(
        "long",
        model=FunctionModel(lambda _, __: final_turn("yes")),
        compaction=Compaction(max_messages=10, model=FunctionModel(write)),
    )
    with ActorSystem(MemoryJournal(), agents=[agent]) as system:
        thread = system.thread(agent, "t")
        for number in range(60):
            thread.run(f"question {number:03}", run_id=f"r{number:03}").result(timeout_s=WAIT_S)
            sizes.append(_bytes(system.journal))

    grown = [after - before for before, after in pairwise(sizes)]
    with_brief = [size for size in grown if size > min(grown) + 100]
    assert max(grown) - min(grown) < 600
    assert len(with_brief) == 19


def _bytes(journal: Journal) -> int:
    return sum(len(event.canonical) for event in journal.read("thread/t"))


class Box:
    """Keeps arguments unreadable, to look at: whatever is open in the journal came from elsewhere."""

    def close(self, arguments: Mapping[str, Any], place: str) -> msgspec.Raw:
        held = base64.b64encode(msgspec.json.encode({"place": place, "arguments": arguments})).decode()
        return msgspec.Raw(msgspec.json.encode({"box": held}))

    def open(self, stored: msgspec.Raw, place: str) -> object:
        opened = msgspec.json.decode(base64.b64decode(msgspec.json.decode(stored)["box"]))
        assert opened["place"] == place
        return opened["arguments"]


def test_sealed_arguments_are_not_told_to_the_writer_whose_brief_is_stored_in_plain() -> None:
    writer = Writer(*[lambda record: f"It said: {record[-300:]}"[:200]] * 9)  # type: ignore[reportUnknownLambdaType]  (given to a test)

    async def pay(account: str) -> str:
        return "paid"

    tool = Tool(pay, metadata=tool_options(needs_approval=lambda _: False))
    turns = [tool_call_turn(f"c{n}", "pay", {"account": "SECRET-1234"}) for n in range(6)]
    agent = define_agent(
        "payer",
        model=following_model([]),
        tools=[tool],
        seal=Box(),
        compaction=Compaction(max_messages=4, model=writer.model),
    )

    with agent_harness(agent, [*turns, final_turn("done")]) as harness:
        harness.run("Pay them all.")
        stored = b"".join(event.canonical for event in harness.journal.read("thread/test"))
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert writer.records
    assert all("Assistant called pay: withheld" in record for record in writer.records)
    assert b"SECRET-1234" not in stored


def test_another_agent_of_the_thread_goes_on_with_the_brief_that_is_there() -> None:
    writer = Writer()
    seen: list[list[ModelMessage]] = []

    async def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        seen.append(messages)
        return final_turn("yes")

    compaction = Compaction(max_messages=4, model=writer.model)
    first = define_agent("first", model=FunctionModel(respond), compaction=compaction)
    second = define_agent("second", model=FunctionModel(respond), compaction=compaction)
    whole = AgentDefinition(agent=Agent(FunctionModel(respond), name="whole"))

    with ActorSystem(MemoryJournal(), agents=[first, second, whole]) as system:
        for number in range(3):
            system.thread(first, "t").run(f"question {number}").result(timeout_s=WAIT_S)
        system.thread(second, "t").run("to the second").result(timeout_s=WAIT_S)
        system.thread(whole, "t").run("to the third").result(timeout_s=WAIT_S)

    assert [brief_in(messages) for messages in seen] == [None, None, "brief 1", "brief 1", None]
    assert len(seen[-1]) == 9
    assert len(writer.records) == 1
