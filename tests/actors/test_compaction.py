"""Long conversations: the older part of what a model is sent becomes a brief, which is made once."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew.actors import ActorSystem
from clew.actors.agent import AgentDefinition, Compaction, DurableSteps, define_agent, replay
from clew.actors.testing import (
    agent_harness,
    final_turn,
    invalid_for_provider,
    tool_call_turn,
    tool_calls_turn,
)
from clew.journal import MemoryJournal
from clew.journal.facts import RunFinished, StepCompleted
from tests.actors.briefs import Writer, brief_in, steps_in
from tests.actors.harnesses import calculator, facts, steps_of


def talker(compaction: Compaction | None) -> AgentDefinition[Any, str]:
    return define_agent("talker", model="test", compaction=compaction)


def answers(count: int) -> list[ModelResponse]:
    return [final_turn(f"answer {number}") for number in range(count)]


def asked_in(messages: list[ModelMessage]) -> list[object]:
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    return [part.content for m in requests for part in m.parts if isinstance(part, UserPromptPart)]


@pytest.mark.requirement("L-LOOP-7")
def test_older_messages_become_one_brief_and_the_recent_ones_are_sent_as_they_are() -> None:
    writer = Writer()
    compaction = Compaction(max_messages=6, keep_recent=3, model=writer.model)

    with agent_harness(talker(compaction), answers(5)) as harness:
        for number in range(5):
            harness.run(f"question {number}", run_id=f"r{number}")
        sent = harness.script.requests
        said = harness.messages()

    # Seven messages are one too many, and three of them stay: a question, its answer, the next question.
    assert [brief_in(messages) for messages in sent] == [None, None, None, "brief 1", "brief 1"]
    assert asked_in(sent[3]) == ["question 2", "question 3"]
    assert asked_in(sent[4]) == ["question 2", "question 3", "question 4"]
    assert sent[3][-2].parts[0] == said[5].parts[0]
    assert all(invalid_for_provider(messages) == [] for messages in sent)
    assert "question 0" in writer.records[0]
    assert "answer 1" in writer.records[0]
    assert "question 2" not in writer.records[0]
    assert len(said) == 10
    assert brief_in(said) is None


@pytest.mark.requirement("L-LOOP-8")
@pytest.mark.parametrize(("limit", "kept"), [(2, 1), (4, 2), (5, 3), (6, 3), (8, 4), (9, 5)])
def test_half_of_the_messages_are_kept_rounded_up(limit: int, kept: int) -> None:
    assert Compaction(max_messages=limit).kept == kept
    writer = Writer()

    with agent_harness(talker(Compaction(max_messages=limit, model=writer.model)), answers(8)) as harness:
        for number in range(8):
            harness.run(f"question {number}")
            if writer.records:
                break
        sent = harness.script.requests[-1]

    # Where what is kept begins with an answer, its question stands in front of it.
    assert sum(isinstance(message, ModelResponse) for message in sent) == kept // 2
    assert len(asked_in(sent)) == kept // 2 + 1


@pytest.mark.requirement("L-LOOP-9")
def test_a_recorded_brief_is_never_made_again() -> None:
    writer = Writer()

    with agent_harness(talker(Compaction(max_messages=4, model=writer.model)), answers(6)) as harness:
        for number in range(6):
            harness.run(f"question {number}", run_id=f"r{number}")
            harness.restart()
        made = len(writer.records)
        replayed = replay(harness.conversation(), harness.definition)

    assert made == 2
    assert len(writer.records) == made
    assert harness.script.calls == 6
    assert replayed.digests_equal
    assert [step for run in replayed.runs for step in run.steps].count("llm:brief:1") == made
    assert steps_of(harness).count("llm:brief:1") == made


def test_the_next_brief_is_made_of_the_last_one_and_of_what_was_cut_off_since() -> None:
    writer = Writer()

    with agent_harness(talker(Compaction(max_messages=4, model=writer.model)), answers(6)) as harness:
        for number in range(6):
            harness.run(f"question {number}")
        sent = harness.script.requests

    first, second = writer.records
    assert "Earlier brief" not in first
    assert "Earlier brief: brief 1" in second
    assert "question 0" in first
    assert "question 0" not in second
    told = [first, second, *map(str, asked_in(sent[-1]))]
    assert all(any(f"question {number}" in text for text in told) for number in range(6))


@pytest.mark.requirement("L-LOOP-10")
def test_the_agents_own_model_writes_the_brief_where_no_other_is_given() -> None:
    script = [*answers(2), final_turn("a brief by the agent's own"), *answers(1)]

    with agent_harness(talker(Compaction(max_messages=4)), script) as harness:
        for number in range(3):
            harness.run(f"question {number}")
        asked, sent = harness.script.requests[2:]

    [record] = asked_in(asked)
    assert "question 0" in str(record)
    assert brief_in(sent) == "a brief by the agent's own"


@pytest.mark.requirement("L-LOOP-10")
def test_another_model_writes_it_where_one_is_given_also_by_name() -> None:
    writer = Writer()
    by_model = Compaction(max_messages=4, model=writer.model, instructions="In three words.")

    with agent_harness(talker(by_model), answers(3)) as harness:
        for number in range(3):
            harness.run(f"question {number}")
        assert writer.instructions == ["In three words."]
    with agent_harness(talker(Compaction(max_messages=4, model="test")), answers(3)) as harness:
        for number in range(3):
            harness.run(f"question {number}")
        assert brief_in(harness.script.requests[-1]) == "success (no tool calls)"
        [made] = [e for e in facts(harness, StepCompleted) if e.step == "llm:brief:1"]
        assert made.request["model"] == "test"


@pytest.mark.requirement("L-LOOP-12")
def test_without_compaction_everything_is_sent_every_time() -> None:
    with agent_harness(talker(None), answers(12)) as harness:
        for number in range(12):
            harness.run(f"question {number}")

    assert len(harness.script.requests[-1]) == 23
    assert set(steps_of(harness)) == {"llm:turn:1"}


@pytest.mark.scenario("MSG-04")
def test_a_long_answer_is_compacted_in_the_middle_and_the_question_stays() -> None:
    agent, calls = calculator()
    writer = Writer()
    turns = [
        tool_calls_turn(*((f"c{n}-{m}", "add", {"a": n, "b": "x" if n == m == 2 else m}) for m in range(3)))
        for n in range(12)
    ]
    definition = AgentDefinition(agent=agent, compaction=Compaction(max_messages=8, model=writer.model), max_turns=20)

    with agent_harness(definition, [*turns, final_turn("done")]) as harness:
        answer = harness.run("Add it all up.")
        again = replay(harness.conversation(), harness.definition)
        sent = harness.script.requests

    assert answer.output == "done"
    assert calls["add"] == 35
    assert all(invalid_for_provider(messages) == [] for messages in sent)
    assert all(asked_in(messages)[0] == "Add it all up." for messages in sent)
    assert max(map(len, sent)) == 9
    assert again.digests_equal
    assert len(harness.messages()) == 26
    briefs = [step for step in steps_of(harness) if step.startswith("llm:brief:")]
    assert briefs == [f"llm:brief:{turn}" for turn in (5, 8, 11)]


def test_a_run_that_ran_out_of_turns_does_not_hide_the_next_question() -> None:
    agent, _ = calculator()
    writer = Writer()
    turns = [tool_call_turn(f"c{n}", "add", {"a": n, "b": 1}) for n in range(12)]
    definition = AgentDefinition(agent=agent, compaction=Compaction(max_messages=6, model=writer.model), max_turns=4)

    with agent_harness(definition, turns) as harness:
        for number in range(3):
            assert harness.run(f"question {number}").stopped == "max_turns"
        replayed = replay(harness.conversation(), harness.definition)
        sent = harness.script.requests

    assert all(invalid_for_provider(messages) == [] for messages in sent)
    assert [asked_in(messages)[-1] for messages in sent] == [f"question {n // 4}" for n in range(12)]
    for messages in sent[4:]:
        # What is kept begins with a call of one of the runs, and that run's question stands before it.
        call = next(p for m in messages for p in m.parts if isinstance(p, ToolCallPart))
        assert asked_in(messages)[0] == f"question {int(call.tool_call_id[1:]) // 4}"
    assert replayed.digests_equal


@pytest.mark.requirement("L-LOOP-15")
def test_what_a_brief_used_counts_in_its_run_and_in_the_thread() -> None:
    writer = Writer()

    with agent_harness(talker(Compaction(max_messages=4, model=writer.model)), answers(3)) as harness:
        before, _, answer = (harness.run(f"question {number}") for number in range(3))
        view = harness.thread()
        [*_, finished] = facts(harness, RunFinished)

    assert answer.usage.requests == 2
    assert answer.usage.input_tokens > 100
    assert view.usage.requests == 4
    assert view.runs[-1].usage == answer.usage
    assert before.usage.requests == 1
    assert b'"requests":2' in bytes(finished.usage)


def test_usage_is_the_same_before_the_end_of_a_run_as_after() -> None:
    agent, _ = calculator()
    writer = Writer("", "brief")
    turns = [tool_call_turn(f"c{n}", "add", {"a": n, "b": 1}) for n in range(6)]
    definition = AgentDefinition(agent=agent, compaction=Compaction(max_messages=4, model=writer.model))

    with agent_harness(definition, [*turns, final_turn("done")]) as harness:
        answer = harness.run("Go")
        from_steps = harness.thread().runs[0].usage

    assert len(writer.records) > 1
    assert answer.usage == from_steps
    assert answer.usage.requests == 7 + len(writer.records)


def test_the_option_works_with_an_agent_of_your_own_that_brings_its_steps() -> None:
    writer = Writer()
    seen: list[list[ModelMessage]] = []

    async def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        seen.append(messages)
        return final_turn("yes")

    agent = Agent(FunctionModel(respond), name="own", system_prompt="Be kind.", capabilities=[DurableSteps()])
    definition = AgentDefinition(agent=agent, compaction=Compaction(max_messages=4, model=writer.model))

    with ActorSystem(MemoryJournal(), agents=[definition]) as system:
        thread = system.thread(definition, "test")
        for number in range(4):
            thread.run(f"question {number}").result(timeout_s=10)
        assert replay(thread, definition).digests_equal

    assert brief_in(seen[-1]) == "brief 1"
    assert [getattr(part, "content", "") for part in seen[-1][0].parts][:1] == ["Be kind."]
    assert "Be kind." not in writer.records[0]


def test_a_sub_agent_in_a_tool_is_not_compacted_with_its_caller() -> None:
    writer = Writer()
    seen: list[int] = []

    async def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        seen.append(len(messages))
        return tool_call_turn(f"s{len(seen)}", "look") if len(seen) % 5 else final_turn("found")

    sub = Agent(FunctionModel(respond), name="sub", capabilities=[DurableSteps()])
    agent = Agent("test", name="caller")

    @sub.tool_plain
    async def look() -> str:
        return "seen"

    @agent.tool_plain
    async def ask() -> str:
        return (await sub.run("look around")).output

    definition = AgentDefinition(agent=agent, compaction=Compaction(max_messages=4, model=writer.model))
    with agent_harness(definition, [tool_call_turn("c1", "ask"), final_turn("done")]) as harness:
        assert harness.run("Go").output == "done"

    assert seen == [1, 3, 5, 7, 9]
    assert writer.records == []
    assert steps_in(harness.journal)[-1] == "llm:turn:2"


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"max_messages": 1}, "max_messages is at least 2, not 1"),
        ({"max_messages": 4, "keep_recent": 0}, "keep_recent is from 1 to 3"),
        ({"max_messages": 4, "keep_recent": 4}, "keep_recent is from 1 to 3"),
    ],
)
def test_numbers_out_of_range_are_refused_where_they_are_declared(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        Compaction(**options)


def test_a_model_that_is_none_is_refused_where_it_is_declared() -> None:
    model: Any = object()

    with pytest.raises(TypeError, match="a model or the name of one, not object"):
        Compaction(max_messages=4, model=model)
