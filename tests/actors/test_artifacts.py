"""Results that are too long: the model gets the beginning, the thread keeps the whole, and no other thread sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew.actors import ActorSystem, UnknownArtifact, UnknownThread
from clew.actors.agent import AgentDefinition, DurableSteps, ResultCap, define_agent, replay, tool_options
from clew.actors.testing import (
    agent_harness,
    final_turn,
    tool_call_turn,
    tool_calls_turn,
)
from clew.journal import MemoryJournal
from clew.journal.facts import StepCompleted
from clew.journal.lmdb import LmdbJournal
from tests.actors.harnesses import facts, returned
from tests.actors.long_results import CAP, LONG, artifacts, id_in, read_on, reader

WAIT_S = 10.0


@pytest.mark.requirement("L-LOOP-18")
def test_a_long_result_is_cut_for_the_model_and_kept_whole() -> None:
    definition = reader(LONG, cap=ResultCap())

    with agent_harness(definition, [tool_call_turn("c1", "look"), final_turn("done")]) as harness:
        harness.run("Look")
        [shown] = returned(harness)
        [stored] = artifacts(harness)
        [recorded] = [step for step in facts(harness, StepCompleted) if step.step == "tool:look:c1"]
        assert harness.conversation().artifact(stored.id) == LONG
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert isinstance(shown, str)
    assert len(shown) <= 4000
    assert shown[:3800] == LONG[:3800]
    assert shown.endswith(f'of {len(LONG)}. Read on with read_artifact(id="{stored.id}", offset={id_in(shown)[1]}).]')
    assert (stored.run, stored.step) == (recorded.run, recorded.step)
    assert msgspec.json.decode(recorded.result) == {"result": shown, "kind": "tool_return"}
    assert stored.at == recorded.at


def test_a_result_that_fits_is_left_as_it_is() -> None:
    exact = "x" * 400
    fits = {"rows": list(range(50))}

    with agent_harness(
        reader(exact, fits), [tool_calls_turn(("a", "look", {}), ("b", "look", {})), final_turn("done")]
    ) as harness:
        harness.run("Look")
        assert returned(harness) == [exact, fits]
        assert artifacts(harness) == []


def test_the_whole_can_be_read_piece_by_piece() -> None:
    with agent_harness(
        reader(LONG[:1500]), [tool_call_turn("c1", "look"), *[read_on()] * 4, final_turn("done")]
    ) as harness:
        harness.run("Read it all")
        shown = [
            str(part.content)
            for message in harness.messages()
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]
        replayed = replay(harness.conversation(), harness.definition)

    assert "".join(text.rpartition("\n\n[Characters")[0] for text in shown) == LONG[:1500]
    assert shown[-1].endswith("of 1500: the end.]")
    assert all(len(text) <= 400 for text in shown)
    # What is read never becomes an artifact itself.
    assert len(artifacts(harness)) == 1
    assert replayed.digests_equal


def test_a_long_json_result_becomes_the_beginning_of_its_text() -> None:
    value = {"rows": [{"id": number, "name": "größer"} for number in range(100)], "b": 1.5, "a": None}

    with agent_harness(reader(value), [tool_call_turn("c1", "look"), final_turn("done")]) as harness:
        harness.run("Look")
        [shown] = returned(harness)
        [stored] = artifacts(harness)
        assert harness.conversation().artifact(stored.id) == value

    assert str(shown).startswith('{"rows":[{"id":0,"name":"größer"},')
    assert len(str(shown)) <= 400
    assert msgspec.json.decode(stored.content) == value


def test_later_turns_and_later_runs_read_it_also_after_a_restart(tmp_path: Path) -> None:
    seen: list[str] = []

    async def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        results = [str(p.content) for m in messages for p in m.parts if isinstance(p, ToolReturnPart)]
        seen[:] = results
        if not results:
            return tool_call_turn("c1", "look")
        if len(messages) == 5:
            id_, offset = id_in(results[0])
            return tool_call_turn("c2", "read_artifact", {"id": id_, "offset": offset, "length": 20})
        return final_turn("done")

    async def look() -> str:
        return LONG * 20

    agent = define_agent("reader", model=FunctionModel(respond), tools=[look], result_cap=CAP)
    for prompt in ("Look", "Read on"):
        with LmdbJournal(tmp_path / "journal") as journal, ActorSystem(journal, agents=[agent]) as system:
            thread = system.thread(agent, "t", owner="ann")
            assert thread.run(prompt).result(timeout_s=WAIT_S).output == "done"
            id_, offset = id_in(seen[0])
            assert thread.artifact(id_) == LONG * 20
            assert replay(thread, agent).digests_equal

    assert seen[1].startswith(LONG[offset : offset + 20])


def test_an_artifact_is_its_threads_own() -> None:
    asked: dict[str, str] = {}

    async def look() -> str:
        return LONG

    async def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        prompt = str(getattr(messages[0].parts[-1], "content", ""))
        if len(messages) == 1:
            if prompt == "Look":
                return tool_call_turn("c1", "look")
            return tool_call_turn("c2", "read_artifact", {"id": prompt})
        asked[prompt] = str(getattr(messages[-1].parts[0], "content", ""))
        return final_turn("done")

    agent = define_agent("reader", model=FunctionModel(respond), tools=[look], result_cap=CAP)
    with ActorSystem(MemoryJournal(), agents=[agent]) as system:
        mine = system.thread(agent, "mine", owner="ann")
        mine.run("Look").result(timeout_s=WAIT_S)
        id_, _ = id_in(asked["Look"])
        theirs = system.thread(agent, "theirs", owner="bob")
        theirs.run(id_).result(timeout_s=WAIT_S)

        assert mine.artifact(id_) == LONG
        with pytest.raises(UnknownArtifact, match=f"thread/theirs: there is no artifact '{id_}'"):
            theirs.artifact(id_)
        with pytest.raises(UnknownThread):
            system.thread(agent, "mine", owner="bob").artifact(id_)

    assert asked[id_] == f"There is no artifact '{id_}' in this conversation."


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"id": "none"}, "There is no artifact 'none' in this conversation."),
        ({"offset": 22_000}, "has 22000 characters; there is none at offset 22000."),
        ({"offset": -1}, "there is none at offset -1."),
        ({"length": 0}, "The length is at least 1, not 0."),
    ],
)
def test_what_cannot_be_read_is_said_to_the_model(arguments: dict[str, Any], answer: str) -> None:
    with agent_harness(
        reader(LONG), [tool_call_turn("c1", "look"), read_on(**arguments), final_turn("done")]
    ) as harness:
        assert harness.run("Read").output == "done"
        [told] = returned(harness)
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert answer in str(told)


@pytest.mark.parametrize("length", [1, 50, 399, 400, 1_000_000])
def test_what_is_read_is_as_long_as_asked_for_and_no_longer_than_the_limit(length: int) -> None:
    with agent_harness(
        reader(LONG), [tool_call_turn("c1", "look"), read_on(offset=6, length=length), final_turn("done")]
    ) as harness:
        harness.run("Read")
        [told] = returned(harness)

    shown = str(told).rpartition("\n\n[Characters")[0]
    assert shown == LONG[6 : 6 + len(shown)]
    assert len(shown) == length if length <= 50 else len(str(told)) <= 400
    assert len(shown) >= min(length, 250)


async def test_the_tool_to_read_on_is_there_only_where_results_are_limited() -> None:
    shown: list[set[str]] = []

    def look_at_tools(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        shown.append({tool.name for tool in info.function_tools})
        return final_turn("done")

    agent = Agent("test", name="own")

    @agent.tool_plain(metadata=tool_options(result_chars_max=300))
    async def short() -> str:
        return "short"

    plain = Agent("test", name="plain")
    plain.tool_plain(name="look")(lambda: "seen")
    capped = AgentDefinition(agent=plain, result_cap=CAP)
    for definition in (AgentDefinition(agent=agent), capped, AgentDefinition(agent=plain)):
        with agent_harness(definition, [look_at_tools]) as harness:
            await harness.conversation().run("Hello")

    # Outside of a thread nothing could be read, so it does not show there either.
    await plain.run("Hello", model=FunctionModel(look_at_tools))
    assert shown == [{"short", "read_artifact"}, {"look", "read_artifact"}, {"look"}, {"look"}]


def test_a_tool_may_have_a_limit_of_its_own() -> None:
    agent = Agent("test", name="own")

    @agent.tool_plain(metadata=tool_options(result_chars_max=300))
    async def short() -> str:
        return LONG[:3000]

    @agent.tool_plain(metadata=tool_options(result_chars_max=10_000))
    async def more() -> str:
        return LONG[:9000]

    @agent.tool_plain
    async def usual() -> str:
        return LONG[:3000]

    calls = tool_calls_turn(("a", "short", {}), ("b", "more", {}), ("c", "usual", {}))
    lengths: list[list[int]] = []
    for cap in (None, ResultCap(chars_max=1000)):
        with agent_harness(AgentDefinition(agent=agent, result_cap=cap), [calls, final_turn("done")]) as harness:
            harness.run("Go")
            lengths.append([len(str(content)) for content in returned(harness)])

    assert lengths[0][1:] == [9000, 3000]
    assert lengths[1][1] == 9000
    assert 700 < lengths[1][2] <= 1000
    assert all(150 < each[0] <= 300 for each in lengths)


def test_an_agent_that_brings_its_steps_reads_on_too() -> None:
    async def look() -> str:
        return LONG

    turns = [tool_call_turn("c1", "look"), read_on(), final_turn("done")]
    taken: list[list[ModelMessage]] = []

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        taken.append(messages)
        turn = turns[len(taken) - 1]
        return turn if isinstance(turn, ModelResponse) else cast("ModelResponse", turn(messages, info))

    agent = Agent(FunctionModel(respond), name="own", tools=[look], capabilities=[DurableSteps()])
    definition = AgentDefinition(agent=agent, result_cap=CAP)
    with ActorSystem(MemoryJournal(), agents=[definition]) as system:
        thread = system.thread(definition, "t")
        assert thread.run("Read").result(timeout_s=WAIT_S).output == "done"
        assert replay(thread, definition).digests_equal
        assert "tool:read_artifact:read-3" in replay(thread, definition).runs[0].steps
    assert len(taken) == 3
