"""The messages of a conversation: what was said, in the order that a model provider accepts."""

from __future__ import annotations

from itertools import permutations

import pytest

from clew.actors.testing import invalid_for_provider
from clew.actors.thread import ThreadCommand
from clew.projections import messages
from clew.projections.messages import INTERRUPTED
from tests.actors.story import Story, cancel, complete, fail, fail_step, finish, halt, resume, start
from tests.projections.conversations import (
    SECOND,
    call,
    outline,
    prompt_tail,
    results_tail,
    retry,
    said,
    text,
    tool,
    turn,
    whole_run,
)


def test_a_whole_run_is_told_in_full() -> None:
    story = Story(*whole_run())

    assert outline(story.events) == [
        ["add it up, r1"],
        ["Let me see.", "a?", "b?"],
        ["a=2", "b=4"],
        ["c?"],
        ["c=[6, None, 'six']"],
        ["It is 12."],
    ]
    assert invalid_for_provider(said(story.events)[:-1]) == []


def test_what_a_tail_leaves_out_is_put_back() -> None:
    story = Story(*whole_run())

    requests = [message for message in messages(story.events) if message["kind"] == "request"]

    assert [request["instructions"] for request in requests] == ["Be kind."] * 3
    assert [request["run_id"] for request in requests] == ["r1"] * 3
    assert requests[0]["parts"] == [
        {"part_kind": "user-prompt", "content": "add it up, r1", "timestamp": "1970-01-01T00:00:00Z"}
    ]
    assert requests[2]["parts"] == [
        {
            "part_kind": "tool-return",
            "tool_name": "add",
            "tool_call_id": "c",
            "content": [6, None, "six"],
            "outcome": "success",
            "timestamp": "1970-01-01T00:00:02Z",
        }
    ]


def test_times_are_those_of_the_journal_and_never_fall_within_a_run() -> None:
    story = Story(
        start(at=5 * SECOND),
        turn(9, call("a"), tail=prompt_tail()),
        tool("a", 1, at=3 * SECOND),
        turn(4, text("bye"), tail=results_tail("a")),
        finish(),
    )

    stamps = [message["timestamp"] for message in messages(story.events) if message["kind"] == "request"]

    assert stamps == ["1970-01-01T00:00:05Z", "1970-01-01T00:00:09Z"]


def test_instructions_change_and_go_with_the_run() -> None:
    story = Story(
        start(),
        turn(1, call("a"), tail=prompt_tail("one")),
        tool("a", 1),
        turn(2, call("b"), tail=[{"parts": [{"from_step": "tool:add:a"}], "instructions": "two"}]),
        tool("b", 2),
        turn(3, text("bye"), tail=[{"parts": [{"from_step": "tool:add:b"}]}]),
        finish(),
        start("r2"),
        turn(1, text("hi"), tail=[{"parts": [{"from_prompt": True}], "same_instructions": True}], run="r2"),
        finish("r2"),
    )

    told = [message.get("instructions") for message in messages(story.events) if message["kind"] == "request"]

    assert told == ["one", "two", None, None]


@pytest.mark.parametrize("order", list(permutations("abc")))
@pytest.mark.parametrize("end", ["turn", "cancel", "nothing"])
def test_results_stand_in_the_order_of_the_calls_whichever_finished_first(order: tuple[str, ...], end: str) -> None:
    story = Story(
        start(),
        turn(1, call("a"), call("b"), call("c"), tail=prompt_tail()),
        *(tool(id_, f"of {id_}") for id_ in order),
    )
    if end == "turn":
        story.tell(turn(2, text("bye"), tail=results_tail("a", "b", "c")), finish())
    if end == "cancel":
        story.tell(cancel())

    assert outline(story.events)[2] == ["a=of a", "b=of b", "c=of c"]


def test_while_a_turn_is_under_way_what_is_known_of_it_is_shown() -> None:
    story = Story(start(prompt="hello"))
    assert outline(story.events) == [["hello"]]

    story.tell(turn(1, call("a"), call("b"), tail=prompt_tail()))
    assert outline(story.events) == [["hello"], ["a?", "b?"]]

    story.tell(tool("b", 2))
    assert outline(story.events) == [["hello"], ["a?", "b?"], ["b=2"]]


@pytest.mark.parametrize("end", [cancel(), fail()])
def test_a_call_without_a_result_is_closed_when_the_run_ends(end: ThreadCommand) -> None:
    story = Story(start(), turn(1, call("a"), call("b"), tail=prompt_tail()), tool("b", 2), end)

    assert outline(story.events)[2:] == [[f"a!{INTERRUPTED}", "b=2"]]


def test_a_tool_that_failed_for_good_is_closed_without_telling_why() -> None:
    story = Story(start(), turn(1, call("a"), tail=prompt_tail()), fail_step("tool:add:a", final=True), fail())

    assert outline(story.events)[2:] == [[f"a!{INTERRUPTED}"]]


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"message": "twice, please", "kind": "model_retry"}, "a~twice, please"),
        ({"title": "x", "errors": [{"type": "missing"}], "kind": "validation_error"}, "a~[{'type': 'missing'}]"),
        ({"result": {"kind": "tool-return", "return_value": 7, "content": "more"}, "kind": "tool_return"}, "a=7"),
        (
            {"result": {"kind": "tool-return", "own": 1}, "kind": "tool_content_result"},
            "a={'kind': 'tool-return', 'own': 1}",
        ),
        ({"result": None, "kind": "tool_return"}, "a=None"),
        ({"kind": "call_deferred"}, f"a!{INTERRUPTED}"),
    ],
)
def test_whatever_a_tool_came_to_its_call_is_answered_with_it(result: object, shown: str) -> None:
    story = Story(
        start(), turn(1, call("a"), tail=prompt_tail()), complete("tool:add:a", result=result, at=SECOND), cancel()
    )

    assert outline(story.events)[2:] == [[shown]]


def test_what_a_tail_says_itself_is_kept_as_it_is() -> None:
    retried = {
        "part_kind": "tool-return",
        "tool_name": "add",
        "tool_call_id": "a",
        "content": "no",
        "outcome": "retried",
    }
    story = Story(
        start(),
        turn(1, call("a"), tail=prompt_tail()),
        retry("a", "no"),
        turn(2, text("bye"), tail=[{"parts": [retried, {"part_kind": "user-prompt", "content": "and?"}]}]),
        finish(),
    )

    assert outline(story.events)[2] == ["a*no", "and?"]


def test_a_part_that_refers_to_a_step_may_say_more() -> None:
    part = {"from_step": "tool:add:a", "outcome": "denied", "metadata": {"by": "ann"}}
    story = Story(
        start(),
        turn(1, call("a"), tail=prompt_tail()),
        tool("a", 1),
        turn(2, text("bye"), tail=[{"parts": [part]}]),
        finish(),
    )

    [told] = messages(story.events)[2]["parts"]

    assert (told["content"], told["outcome"], told["metadata"]) == (1, "denied", {"by": "ann"})


def test_what_is_said_last_belongs_to_the_conversation() -> None:
    story = Story(
        start(),
        turn(1, call("out", "final_result"), tail=prompt_tail()),
        finish(
            tail=[
                {
                    "parts": [
                        {
                            "part_kind": "tool-return",
                            "tool_name": "final_result",
                            "tool_call_id": "out",
                            "content": "taken",
                        }
                    ]
                }
            ]
        ),
        start("r2", prompt="next"),
    )

    assert outline(story.events) == [["hello"], ["out?"], ["out=taken"], ["next"]]
    assert invalid_for_provider(said(story.events)) == []


def test_a_run_that_finished_on_calls_that_nobody_answered_is_closed_too() -> None:
    story = Story(start(), turn(1, call("a"), tail=prompt_tail()), finish(stopped="max_turns"), start("r2"))

    assert invalid_for_provider(said(story.events)) == []


@pytest.mark.parametrize("end", [finish(), cancel(), fail()])
def test_the_prompt_of_a_run_that_never_asked_is_kept(end: ThreadCommand) -> None:
    story = Story(start(prompt="first"), end, start("r2", prompt="second"))

    assert outline(story.events) == [["first"], ["second"]]


def test_what_sub_agents_and_other_steps_do_is_no_part_of_the_conversation() -> None:
    story = Story(
        start(prompt="hello"),
        complete("instructions", result="be kind", at=SECOND),
        turn(1, call("a", "ask"), tail=prompt_tail()),
        turn(1, call("x"), tail=prompt_tail("inner"), step="tool:ask:a/llm:turn"),
        complete("tool:ask:a/tool:add:x", result={"result": 1}, at=SECOND),
        fail_step("tool:ask:a/llm:turn:2"),
        turn(2, text("inner"), tail=results_tail("x"), step="tool:ask:a/llm:turn"),
        complete("llm:compact:2", result={"messages": []}, at=SECOND),
        tool("a", "asked", name="ask"),
        turn(2, text("bye"), tail=results_tail("a", name="ask")),
        finish(),
    )

    assert outline(story.events) == [["hello"], ["a?"], ["a=asked"], ["bye"]]


def test_a_halted_run_is_told_as_far_as_it_came_and_goes_on() -> None:
    story = Story(start(), turn(1, call("a"), tail=prompt_tail()), tool("a", 1), halt())
    halted = outline(story.events)

    story.tell(resume(), turn(2, text("bye"), tail=results_tail("a")), finish())

    assert halted == [["hello"], ["a?"], ["a=1"]]
    assert outline(story.events) == [*halted, ["bye"]]


def test_a_prompt_may_be_more_than_text() -> None:
    content = ["look", {"kind": "image-url", "url": "https://example.com/a.png"}]
    story = Story(start(prompt=content), turn(1, text("nice"), tail=prompt_tail()), finish())

    assert messages(story.events)[0]["parts"][0]["content"] == content
    assert len(said(story.events)) == 2


def test_a_fold_can_be_read_at_any_time_without_changing_it() -> None:
    from clew.projections import conversation, project

    story = Story(*whole_run()[:4])
    fold = project(conversation, story.events)

    assert fold.messages() == fold.messages() == messages(story.events)
