"""Wherever a run is cut short, what is sent next is a conversation that a provider accepts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage

from clew.actors.agent.wire import valid_for_provider
from clew.actors.testing import invalid_for_provider
from clew.actors.thread import AlarmFired, DoubtStep, ThreadCommand
from clew.projections import view_of
from clew.projections.messages import AWAITS_DECISION
from tests.actors.story import Story, cancel, complete, fail, finish, start
from tests.projections.asking import (
    EVERYTHING,
    EXPIRES,
    ask,
    await_signal,
    begin,
    begin_run,
    cancel_all,
    decide,
    queue,
    retry_later,
    settle,
    wait_for,
)
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

DEADLINE = 10 * EXPIRES

TWO_RUNS = [*whole_run("r1"), *whole_run("r2", ids=("d", "e", "f"))]


def sent_next(story: Story) -> list[ModelMessage]:
    """What the first request of another run would be, once nothing is open or queued any more."""
    if story.events and story.events[-1].type.name != "thread.opened":
        story.tell(cancel_all())
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
    for number in range(draw(st.integers(1, 3))):
        commands += draw(runs(f"r{number}"))
    return commands


@st.composite
def runs(draw: st.DrawFn, name: str) -> list[ThreadCommand]:
    """A run with a deadline, others that wait behind it, and calls of which some wait for one thing or another."""
    commands: list[ThreadCommand] = [begin_run(name, timeout=DEADLINE)]
    ids, tail = list[str](), prompt_tail()
    for number in range(1, draw(st.integers(1, 4))):
        ids = [f"{name}-{number}-{place}" for place in range(draw(st.integers(1, 3)))]
        parts = [text(said) for said in draw(st.lists(st.text(), max_size=2))]
        commands.append(turn(number, *parts, *(call(id_) for id_ in ids), tail=tail, run=name))
        if draw(st.booleans()):
            behind = f"{name}-{number}"
            commands += [queue(behind), cancel(behind, owner="ann")][: draw(st.integers(1, 2))]
        retried = {id_ for id_ in ids if draw(st.booleans())}
        asking = {id_: draw(st.sampled_from(HOW)) for id_ in ids}
        commands += [ask(id_, run=name, expires=SOON[asking[id_]]) for id_ in ids if asking[id_] in SOON]
        for id_ in draw(st.permutations(ids)):
            commands += _waited(name, id_, asking[id_])
            commands.append(retry(id_, "no", run=name) if id_ in retried else tool(id_, 1, run=name))
        tail = [{"parts": [_result(id_, retried) for id_ in ids]}]
    last = finish(name, tail=tail if ids else None)
    ends: list[ThreadCommand] = [last, cancel(name, owner="ann"), fail(name), AlarmFired(DEADLINE + 1)]
    return [*commands, draw(st.sampled_from(ends)), cancel_all()]


SOON = {"approved": EXPIRES, "rejected": EXPIRES, "expired": 100}
"""When the questions expire that are to end so."""

HOW = ("at once", "signal", "retry", "doubt", *SOON)


def _waited(run: str, id_: str, how: str) -> list[ThreadCommand]:
    """What happens to a call before it has its result."""
    step = f"tool:add:{id_}"
    match how:
        case "approved":
            return [wait_for(f"approval:{id_}", run=run), decide(id_, run=run), begin(id_, run=run)]
        case "rejected":
            return [wait_for(f"approval:{id_}", run=run), decide(id_, "rejected", run=run)]
        case "expired":
            return [wait_for(f"approval:{id_}", run=run), AlarmFired(100)]
        case "signal":
            return [await_signal(id_, run=run), wait_for(f"signal:{id_}", run=run), AlarmFired(90)]
        case "retry":
            return [retry_later(id_, run=run), wait_for(step, run=run), AlarmFired(70)]
        case "doubt":
            doubted = [begin(id_, run=run, claimed=True), DoubtStep(run, step, 3), wait_for(step, run=run)]
            return [*doubted, settle("retry", id_, run=run)]
        case _:
            return []


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
    story = Story(*history[: data.draw(st.integers(0, len(history)))])
    if run := view_of(story.events).open_run:
        ends: list[ThreadCommand] = [cancel(run.run, owner="ann"), AlarmFired(DEADLINE + 1)]
        story.tell(data.draw(st.sampled_from(ends if run.suspended else [*ends, fail(run.run)])))

    assert invalid_for_provider(sent_next(story)) == []


@pytest.mark.scenario("HIT-12")
@pytest.mark.parametrize("how", ["cancel", "time out"])
@pytest.mark.parametrize("cut", range(len(EVERYTHING) + 1))
def test_a_run_that_waits_for_anything_at_all_may_be_cut_short(cut: int, how: str) -> None:
    story = Story(*EVERYTHING[:cut])
    if how == "time out" and cut:
        story.tell(AlarmFired(DEADLINE))

    sent = sent_next(story)

    assert invalid_for_provider(sent) == []
    assert AWAITS_DECISION not in str(sent)


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
