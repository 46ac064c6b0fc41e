"""Long results of every kind, what dying does to them, and limits that are none."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from pydantic_ai import Agent, BinaryContent, ModelRetry, Tool, ToolReturn
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolKind, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew.actors import RunFailed
from clew.actors.agent import DurableSteps, ResultCap, define_agent, replay, tool_options, tool_step
from clew.actors.testing import (
    World,
    agent_harness,
    crash_points,
    final_turn,
    invalid_for_provider,
    tool_call_turn,
    tool_calls_turn,
)
from clew.journal.facts import StepFailed
from tests.actors.harnesses import facts, returned, steps_of
from tests.actors.long_results import CAP, LONG, artifacts, id_in, reader

KIND: ToolKind[Any, Any] = ToolKind("tests", "look")


def test_files_stay_and_texts_beside_them_are_cut() -> None:
    picture = BinaryContent(b"\x89PNG" + b"\0" * 2_000, media_type="image/png")
    wrapped = ToolReturn(LONG, content=[LONG, picture], metadata={"kept": LONG})

    with agent_harness(
        reader([LONG, picture], wrapped), [tool_calls_turn(("a", "look", {}), ("b", "look", {})), final_turn("done")]
    ) as harness:
        harness.run("Look")
        first, second = returned(harness)
        replayed = replay(harness.conversation(), harness.definition)
        stored = artifacts(harness)
        sent = harness.script.requests[-1]

    assert isinstance(first, list)
    text, image = cast("list[Any]", first)
    assert (len(text) <= 400, image.data) == (True, picture.data)
    assert len(str(second)) <= 400
    content: Any = next(part.content for part in sent[-1].parts if part.part_kind == "user-prompt")
    assert len(content[0]) <= 400
    assert content[1].data == picture.data
    assert [msgspec.json.decode(one.content) for one in stored] == [LONG, LONG, LONG]
    assert len({one.id for one in stored}) == 3
    assert replayed.digests_equal


def test_a_value_that_looks_like_the_wrapper_is_kept_as_it_is() -> None:
    value = {"kind": "tool-return", "return_value": LONG}

    with agent_harness(reader(value), [tool_call_turn("c1", "look"), final_turn("done")]) as harness:
        harness.run("Look")
        [stored] = artifacts(harness)
        [shown] = returned(harness)
        assert [part.content for part in harness.messages()[2].parts if isinstance(part, ToolReturnPart)] == [shown]
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert msgspec.json.decode(stored.content) == value
    assert str(shown).startswith('{"kind":"tool-return"')


def test_a_long_word_of_a_tool_that_wants_another_try_is_cut_too() -> None:
    tries: list[int] = []

    async def look() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ModelRetry(LONG)
        return "seen"

    definition = define_agent("reader", model="test", tools=[look], result_cap=CAP)
    turns = [tool_call_turn("c1", "look"), tool_call_turn("c2", "look"), final_turn("done")]
    with agent_harness(definition, turns) as harness:
        assert harness.run("Look").output == "done"
        told = harness.script.requests[1][-1].parts[0]
        assert [msgspec.json.decode(one.content) for one in artifacts(harness)] == [LONG]
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert len(str(getattr(told, "content", ""))) <= 400


def test_a_sub_agent_gets_its_results_whole_for_it_cannot_read_on() -> None:
    got: list[str] = []

    async def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        results = [str(p.content) for m in messages for p in m.parts if isinstance(p, ToolReturnPart)]
        got.extend(results)
        return final_turn("found") if results else tool_call_turn("s1", "look")

    async def look() -> str:
        return LONG

    sub = Agent(FunctionModel(respond), name="sub", tools=[look], capabilities=[DurableSteps()])

    async def ask() -> str:
        return (await sub.run("look around")).output

    definition = define_agent("caller", model="test", tools=[ask], result_cap=CAP)
    with agent_harness(definition, [tool_call_turn("c1", "ask"), final_turn("done")]) as harness:
        harness.run("Go")
        assert "tool:ask:c1/tool:look:s1" in steps_of(harness)
        assert artifacts(harness) == []

    assert got == [LONG]


def test_a_result_that_pydantic_ai_reads_itself_is_left_whole() -> None:
    async def look() -> dict[str, str]:
        return {"text": LONG}

    definition = define_agent("reader", model="test", tools=[Tool(look, tool_kind=KIND)], result_cap=CAP)
    with agent_harness(definition, [tool_call_turn("c1", "look"), final_turn("done")]) as harness:
        harness.run("Look")
        assert returned(harness) == [{"text": LONG}]
        assert artifacts(harness) == []


def test_what_a_step_sets_is_recorded_with_its_artifact_or_not_at_all() -> None:
    """Also where the artifact does not fit into the journal: then the step failed, and left nothing behind."""

    async def look() -> str:
        tool_step().set_state("changed")
        return "x" * (17 * 1024 * 1024)

    definition = define_agent("reader", model="test", tools=[look], result_cap=CAP)
    with agent_harness(definition, [tool_call_turn("c1", "look")]) as harness:
        with pytest.raises(RunFailed, match="PayloadTooLarge"):
            harness.run("Look")
        assert harness.conversation().state() is None
        assert artifacts(harness) == []
        assert [(step.step, step.error.type) for step in facts(harness, StepFailed)] == [
            ("tool:look:c1", "PayloadTooLarge")
        ]


@pytest.mark.crash
def test_dying_anywhere_loses_no_artifact_and_makes_none_twice() -> None:
    async def scenario(world: World) -> list[Any]:
        async def look() -> str:
            world.effect(tool_step().idempotency_key)
            tool_step().update_state(lambda count: (count or 0) + 1)
            return LONG

        async def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
            assert invalid_for_provider(messages) == []
            results = [str(p.content) for m in messages for p in m.parts if isinstance(p, ToolReturnPart)]
            if not results:
                return tool_calls_turn(("a", "look", {}), ("b", "look", {}))
            if len(results) == 2:
                id_, offset = id_in(results[1])
                return tool_call_turn("r", "read_artifact", {"id": id_, "offset": offset})
            return final_turn(results[-1])

        agent = define_agent("reader", model=FunctionModel(respond), tools=[look], result_cap=CAP)
        async with world.open(agents=[agent]) as system:
            thread = system.thread(agent, "t", owner="ann")
            answer = await thread.run("Look", run_id="r")
            ids = [id_in(str(p.content))[0] for p in thread.messages()[2].parts if isinstance(p, ToolReturnPart)]
            assert replay(list(world.journal.read("thread/t")), agent).digests_equal
            assert [thread.artifact(id_) for id_ in ids] == [LONG, LONG]
            kept = [e for e in world.journal.read("thread/t") if e.type.name == "artifact.stored"]
            return [answer.output, thread.state(), ids, len(kept)]

    assert len(crash_points(scenario).points) > 20


@pytest.mark.parametrize("chars_max", [0, 255, 1_000_001])
def test_limits_out_of_range_are_refused_where_they_are_declared(chars_max: int) -> None:
    with pytest.raises(ValueError, match=f"chars_max is from 256 to 1e\\+06, not {chars_max}"):
        ResultCap(chars_max=chars_max)
    with pytest.raises(ValueError, match="result_chars_max is from 256"):
        tool_options(result_chars_max=chars_max)


def test_a_tool_of_the_same_name_is_refused_where_the_agent_is_declared() -> None:
    async def read_artifact() -> str:
        return "mine"

    with pytest.raises(ValueError, match="it gets a tool 'read_artifact', and has one of its own"):
        define_agent("reader", model="test", tools=[read_artifact], result_cap=CAP)

    with agent_harness(
        define_agent("reader", model="test", tools=[read_artifact]),
        [tool_call_turn("c1", "read_artifact"), final_turn("done")],
    ) as harness:
        harness.run("Go")
        assert returned(harness) == ["mine"]
        assert steps_of(harness)[1] == "tool:read_artifact:c1"
