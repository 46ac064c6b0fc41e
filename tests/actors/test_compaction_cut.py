"""Where a conversation is cut, over random ones: what is sent is what a provider takes, and misses no user's word."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    repair_messages,
)

from clew.actors.agent.compaction import with_brief
from clew.actors.agent.compaction_cut import PartDigests, cut_at, places, split_at
from clew.actors.agent.compaction_text import TRANSCRIPT_CHARS_MAX, transcript
from clew.actors.testing import invalid_for_provider

NOT_TAKEN: RetryInfo[Any] = RetryInfo("model_retry")

ROUNDS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["success", "retried", "content"])), max_size=5)
"""The turns of a run before its answer: how many calls each has, and what its results are like."""


class Talk:
    """Makes a conversation, run by run."""

    def __init__(self) -> None:
        self.messages: list[ModelMessage] = []
        self._calls = 0

    def ask(self, *, system: bool = False) -> None:
        first: list[ModelRequestPart] = [SystemPromptPart("Be kind.")] if system else []
        prompt = UserPromptPart(f"question {len(self.messages)}")
        self.messages.append(ModelRequest([*first, prompt]))

    def turn(self, calls: int, results: str) -> None:
        """Take a turn with calls and give their results; one without any is an answer that was not taken."""
        ids = [f"c{self._calls + number}" for number in range(calls)]
        self._calls += calls
        said: list[ModelResponsePart] = [TextPart("Let me see."), *(ToolCallPart("look", {}, id_) for id_ in ids)]
        self.messages.append(ModelResponse(said))
        if not calls:
            self.messages.append(ModelRequest([RetryFeedbackPart("not like that", retry=NOT_TAKEN)]))
            return
        outcome: Any = "retried" if results == "retried" else "success"
        parts: list[ModelRequestPart] = [ToolReturnPart("look", "seen", id_, outcome=outcome) for id_ in ids]
        if results == "content":
            parts.append(UserPromptPart(["a picture that the tool made"]))
        self.messages.append(ModelRequest(parts))

    def answer(self) -> None:
        self.messages.append(ModelResponse([TextPart("answer")]))


@st.composite
def talks(draw: st.DrawFn, *, pending: bool = False) -> list[ModelMessage]:
    """A conversation at the moment of a request: some runs, the last one under way."""
    talk = Talk()
    for number, rounds in enumerate(draw(st.lists(ROUNDS, min_size=1, max_size=5))):
        talk.ask(system=number == 0 and draw(st.booleans()))
        for calls, results in rounds:
            talk.turn(calls, results)
        if draw(st.booleans()):
            talk.answer()
    if isinstance(talk.messages[-1], ModelResponse):
        talk.ask()
    if pending:
        talk.messages.append(ModelResponse([ToolCallPart("pay", {}, "waiting"), ToolCallPart("look", {}, "done")]))
        if draw(st.booleans()):
            talk.messages.append(ModelRequest([ToolReturnPart("look", "seen", "done")]))
    return talk.messages


def compacted(messages: list[ModelMessage], keep: int) -> list[ModelMessage] | None:
    cut = cut_at(messages, least=0, keep=keep)
    return None if cut is None else with_brief("BRIEF", messages[:cut], messages[cut:], asked(messages))


def calls_of(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    return [part.tool_call_id for part in parts if isinstance(part, ToolCallPart)]


def results_of(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    return [part.tool_call_id for part in parts if isinstance(part, ToolReturnPart)]


def asked(messages: list[ModelMessage]) -> list[object]:
    """What the user said, in order, as one can tell it."""
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    return [
        p.content for m in requests for p in m.parts if isinstance(p, UserPromptPart) and isinstance(p.content, str)
    ]


@pytest.mark.scenario("MSG-04")
@given(talks(), st.integers(1, 20))
def test_what_is_sent_after_a_cut_is_what_a_provider_takes(messages: list[ModelMessage], keep: int) -> None:
    sent = compacted(messages, keep)

    if sent is not None:
        assert invalid_for_provider(sent) == invalid_for_provider(messages) == []
        assert calls_of(sent) == results_of(sent)
        assert asked(sent)[-1] == asked(messages)[-1]
        assert sent[-1] is messages[-1]


@pytest.mark.scenario("MSG-04")
@given(talks(pending=True), st.integers(1, 20))
def test_a_call_that_waits_for_people_stays_in_what_is_kept(messages: list[ModelMessage], keep: int) -> None:
    sent = compacted(messages, keep)

    if sent is not None:
        assert "waiting" in calls_of(sent)
        assert set(results_of(sent)) <= set(calls_of(sent))
        assert set(calls_of(sent)) - set(results_of(sent)) == set(calls_of(messages)) - set(results_of(messages))
        assert asked(sent)[-1] == asked(messages)[-1]


@given(talks(), st.integers(1, 20))
def test_what_is_sent_begins_with_the_brief_and_the_user(messages: list[ModelMessage], keep: int) -> None:
    sent = compacted(messages, keep)

    if sent is not None:
        parts = [part for message in sent for part in message.parts]
        briefs = [p for p in parts if isinstance(p, SystemPromptPart) and "BRIEF" in p.content]
        first = next(part for part in parts if not isinstance(part, SystemPromptPart))
        assert len(briefs) == 1
        assert any(part is briefs[0] for part in sent[0].parts)
        assert isinstance(first, UserPromptPart)
        assert sum(isinstance(p, SystemPromptPart) and p.content == "Be kind." for p in parts) == sum(
            isinstance(p, SystemPromptPart) for m in messages for p in m.parts
        )


@given(talks(), st.integers(1, 20))
def test_what_is_kept_begins_with_the_question_that_it_answers(messages: list[ModelMessage], keep: int) -> None:
    """Also where pydantic-ai has joined the question with the results of a run that ran out of turns."""
    joined = repair_messages(messages)
    cut = cut_at(joined, least=0, keep=keep)

    if cut is not None:
        sent = with_brief("BRIEF", joined[:cut], joined[cut:], asked(messages))
        begins_with_answer = isinstance(joined[cut], ModelResponse)
        assert asked(sent[:1])[-1:] == (asked(joined[:cut])[-1:] if begins_with_answer else [])
        assert invalid_for_provider(sent) == []


@given(talks(), st.integers(1, 20))
def test_the_cut_is_as_late_as_it_can_be(messages: list[ModelMessage], keep: int) -> None:
    cut = cut_at(messages, least=0, keep=keep)

    earlier = [at for at in places(messages) if at <= len(messages) - keep]
    assert cut == max(earlier, default=None)
    if cut is not None:
        # A call and its results are two messages, and so is an answer that was refused with what was said to it.
        assert keep <= len(messages) - cut <= keep + 2


@given(talks(), st.data())
def test_a_part_of_a_conversation_is_known_again_when_its_requests_were_joined(
    messages: list[ModelMessage], data: st.DataObject
) -> None:
    cut = data.draw(st.sampled_from(sorted(places(messages)) or [0]))
    parts = sum(len(message.parts) for message in messages[:cut])
    before = PartDigests().of_first(messages, parts)

    joined = repair_messages(messages)
    apart, since = split_at(joined, parts)

    if parts:
        assert PartDigests().of_first(joined, parts) == before
    assert [p for m in apart[:since] for p in m.parts] == [p for m in messages[:cut] for p in m.parts]
    assert [p for m in apart[since:] for p in m.parts] == [p for m in messages[cut:] for p in m.parts]


@given(talks(), st.data())
def test_another_beginning_is_not_taken_for_it(messages: list[ModelMessage], data: st.DataObject) -> None:
    parts = sum(len(message.parts) for message in messages)
    covered = data.draw(st.integers(1, parts))
    digest = PartDigests().of_first(messages, covered)

    other = [ModelRequest([UserPromptPart("something else")]), *messages[1:]]

    assert PartDigests().of_first(other, covered) != digest
    assert PartDigests().of_first(messages, parts + 1) is None


@pytest.mark.scenario("MSG-04")
@pytest.mark.parametrize("keep", range(1, 20))
def test_parallel_calls_stay_together_wherever_the_count_falls(keep: int) -> None:
    talk = Talk()
    talk.ask(system=True)
    for number in range(9):
        talk.turn(3, "retried" if number % 2 else "content")

    sent = compacted(talk.messages, keep)

    assert (sent is None) == (keep == len(talk.messages))
    if sent is not None:
        assert invalid_for_provider(sent) == []
        assert asked(sent) == ["question 0"]


def test_a_request_that_was_broken_off_by_a_prompt_is_cut_only_where_its_results_are_known() -> None:
    talk = Talk()
    talk.ask()
    talk.messages.append(ModelResponse([ToolCallPart("pay", {}, "open")]))
    talk.ask()
    talk.answer()
    talk.ask()

    assert places(talk.messages) == frozenset({1})


@given(st.lists(st.integers(0, 5_000), max_size=60), st.booleans())
def test_a_record_is_bounded_and_keeps_its_beginning_and_its_end(sizes: list[int], earlier: bool) -> None:
    messages: list[ModelMessage] = [
        ModelRequest([UserPromptPart(f"<{number}>{'x' * size}")]) for number, size in enumerate(sizes)
    ]

    record = transcript(messages, earlier="so far" * 10_000 if earlier else None, withhold=False)

    assert len(record) <= TRANSCRIPT_CHARS_MAX + 100
    assert record.startswith("Earlier brief: so far") == earlier
    if sizes:
        assert "<0>" in record
        assert f"<{len(sizes) - 1}>" in record


def test_a_record_is_plain_text_without_what_tools_look_like() -> None:
    messages: list[ModelMessage] = [
        ModelRequest([SystemPromptPart("secret rules"), UserPromptPart(["Look at", "this"])]),
        ModelResponse([TextPart("I look."), ToolCallPart("look", {"at": "it"}, "c1"), ToolCallPart("go", None, "c2")]),
        ModelRequest([ToolReturnPart("look", {"seen": 1}, "c1"), ToolReturnPart("go", "gone", "c2")]),
        ModelRequest([RetryFeedbackPart("not like that", retry=NOT_TAKEN)]),
    ]

    shown = transcript(messages, earlier=None, withhold=False)
    withheld = transcript(messages, earlier=None, withhold=True)

    assert shown.split("\n\n") == [
        "User: Look at this",
        "Assistant: I look.",
        'Assistant called look: {"at":"it"}',
        "Assistant called go: {}",
        'Result of look: {"seen":1}',
        "Result of go: gone",
        "Note: not like that",
    ]
    assert '"at"' not in withheld
    assert 'Result of look: {"seen":1}' in withheld
