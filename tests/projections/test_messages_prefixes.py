"""Wherever a run is cut short, what is sent next is a conversation that a provider accepts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage

from clew.actors.agent.wire import valid_for_provider
from clew.actors.testing import invalid_for_provider
from clew.actors.thread import ThreadCommand
from tests.actors.story import Story, cancel, complete, fail, finish, start
from tests.projections.conversations import (
    call,
    outline,
    prompt_tail,
    retry,
    said,
    text,
    tool,
    turn,
    whole_run,
)

TWO_RUNS = [*whole_run("r1"), *whole_run("r2", ids=("d", "e", "f"))]


def sent_next(story: Story) -> list[ModelMessage]:
    """What the first request of another run would be."""
    story.tell(start("next", owner="ann", prompt="and now?"))
    return valid_for_provider(said(story.events))


def run_open_at(cut: int) -> str | None:
    return None if cut in (0, 8, 16) else "r1" if cut < 8 else "r2"


@pytest.mark.scenario("MSG-01")
@pytest.mark.parametrize("how", ["cancel", "fail"])
@pytest.mark.parametrize("cut", range(17))
def test_a_run_that_is_cut_short_anywhere_leaves_a_conversation_to_go_on_with(cut: int, how: str) -> None:
    story = Story(*TWO_RUNS[:cut])
    if run := run_open_at(cut):
        story.tell(cancel(run, owner="ann") if how == "cancel" else fail(run))
    before = outline(story.events)

    sent = sent_next(story)

    assert invalid_for_provider(sent) == []
    assert outline(story.events) == [*before, ["and now?"]]


@pytest.mark.parametrize("cut", range(1, 17))
def test_what_was_said_before_a_cut_is_said_after_it_word_for_word(cut: int) -> None:
    whole = outline(Story(*TWO_RUNS).events)
    story = Story(*TWO_RUNS[:cut])
    if run := run_open_at(cut):
        story.tell(cancel(run, owner="ann"))

    told = outline(story.events)

    closed = [part for message in told for part in message if "!" in part]
    assert len(closed) in {0, 1, 2}
    agreed = told[:-1] if closed else told
    assert agreed == whole[: len(agreed)]


@pytest.mark.parametrize("first", range(1, 9))
@pytest.mark.parametrize("second", range(9, 17))
def test_several_runs_may_be_cut_short_one_after_the_other(first: int, second: int) -> None:
    story = Story(*TWO_RUNS[:first])
    if run_open_at(first):
        story.tell(cancel("r1", owner="ann"))
    story.tell(*TWO_RUNS[8:second])
    if run_open_at(second):
        story.tell(fail("r2"))

    assert invalid_for_provider(sent_next(story)) == []


@st.composite
def histories(draw: st.DrawFn) -> list[ThreadCommand]:
    """Runs of several turns, with calls that finish in any order or not at all, each ended in some way."""
    commands: list[ThreadCommand] = []
    for run in range(draw(st.integers(1, 3))):
        name, ids, tail = f"r{run}", list[str](), prompt_tail()
        commands.append(start(name, prompt=draw(st.text(min_size=1)), owner="ann"))
        for number in range(1, draw(st.integers(1, 4))):
            ids = [f"{name}-{number}-{place}" for place in range(draw(st.integers(1, 3)))]
            parts = [text(said) for said in draw(st.lists(st.text(), max_size=2))]
            commands.append(turn(number, *parts, *(call(id_) for id_ in ids), tail=tail, run=name))
            retried = {id_ for id_ in ids if draw(st.booleans())}
            commands += [
                retry(id_, "no", run=name) if id_ in retried else tool(id_, 1, run=name)
                for id_ in draw(st.permutations(ids))
            ]
            tail = [{"parts": [_result(id_, retried) for id_ in ids]}]
        last = finish(name, tail=tail if ids else None)
        commands.append(draw(st.sampled_from([last, cancel(name, owner="ann"), fail(name)])))
    return commands


def _result(id_: str, retried: set[str]) -> dict[str, object]:
    if id_ not in retried:
        return {"from_step": f"tool:add:{id_}"}
    return {"part_kind": "tool-return", "tool_name": "add", "tool_call_id": id_, "content": "no", "outcome": "retried"}


@pytest.mark.property
@pytest.mark.scenario("MSG-01")
@settings(max_examples=100, deadline=None, derandomize=True)
@given(histories(), st.data())
def test_any_history_cut_anywhere_leaves_a_conversation_to_go_on_with(
    history: list[ThreadCommand], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(history)))
    story = Story(*history[:cut])
    if cut and story.events[-1].type.name not in {"run.finished", "run.failed", "run.cancelled"}:
        run = history[cut - 1].run
        story.tell(data.draw(st.sampled_from([cancel(run, owner="ann"), fail(run)])))

    assert invalid_for_provider(sent_next(story)) == []


@pytest.mark.parametrize("parts", [[], [text("")], [text(" \n")], [text(""), text("")]])
def test_an_empty_answer_is_recorded_and_not_sent(parts: list[dict[str, object]]) -> None:
    story = Story(start(owner="ann"), turn(1, *parts, tail=prompt_tail()), finish())

    assert len(said(story.events)) == 2
    assert invalid_for_provider(sent_next(story)) == []


def test_arguments_that_were_cut_off_are_recorded_and_sent_as_json() -> None:
    story = Story(
        start(owner="ann"),
        turn(1, call("a", args='{"path": "/a", "content": "abc'), tail=prompt_tail()),
        complete("tool:add:a", result={"title": "x", "errors": [], "kind": "validation_error"}),
        cancel(owner="ann"),
    )

    assert '"abc' in str(said(story.events)[1])
    assert invalid_for_provider(sent_next(story)) == []
