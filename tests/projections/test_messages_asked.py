"""The messages of a conversation whose calls wait for decisions, and whose runs wait for their turn."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from clew.actors.testing import invalid_for_provider
from clew.actors.thread import AlarmFired, DoubtStep, ThreadCommand
from clew.projections import conversation, project
from clew.projections.messages import AWAITS_DECISION, INTERRUPTED
from tests.actors.story import Story, cancel, complete, fail, finish
from tests.projections.asking import (
    EXPIRES,
    ask,
    begin,
    begin_run,
    called,
    decide,
    edit,
    queue,
    settle,
    wait_for,
)
from tests.projections.conversations import SECOND, outline, results_tail, said, text, tool, turn

WAITS: list[ThreadCommand] = [begin_run(), called("a", "b"), ask("a"), tool("b", 2), wait_for("approval:a")]


def told(*commands: ThreadCommand) -> list[str]:
    """What is said of the calls."""
    [_, _, results] = outline(Story(*commands).events)
    return results


def test_a_call_whose_approval_is_pending_says_so() -> None:
    assert told(*WAITS) == [f"a!{AWAITS_DECISION}", "b=2"]


def test_a_call_that_was_decided_says_nothing_before_it_has_its_result() -> None:
    assert told(*WAITS, decide()) == ["b=2"]
    assert told(*WAITS, decide(), begin()) == ["b=2"]
    assert told(*WAITS, decide(), begin(), tool("a", 1)) == ["a=1", "b=2"]


@pytest.mark.scenario("HIT-12")
@pytest.mark.parametrize(
    ("then", "content"),
    [
        ([cancel(owner="ann")], "not run: cancelled"),
        ([decide(), cancel(owner="ann")], "not run: cancelled"),
        ([edit(), fail()], "not run: the run failed"),
        ([AlarmFired(2001)], "not run: expired: approval timed out"),
        ([decide(decision="rejected", reason="too much"), cancel(owner="ann")], "not run: rejected: too much"),
        ([decide(decision="rejected"), fail()], "not run: rejected"),
        ([AlarmFired(EXPIRES), cancel(owner="ann")], "not run: expired: approval timed out"),
        ([decide(), finish()], "not run: the run ended"),
    ],
)
def test_a_call_that_was_never_begun_says_that_it_did_not_run(then: list[ThreadCommand], content: str) -> None:
    story = Story(begin_run(timeout=2000), *WAITS[1:], *then, queue("r2"))

    assert outline(story.events)[2:] == [[f"a!{content}", "b=2"], ["later"]]
    assert invalid_for_provider(said(story.events)) == []


@pytest.mark.parametrize("end", [cancel(owner="ann"), fail()])
def test_a_call_that_was_begun_may_have_taken_effect(end: ThreadCommand) -> None:
    assert told(*WAITS, decide(), begin(), end) == [f"a!{INTERRUPTED}", "b=2"]


def test_a_call_in_doubt_may_have_taken_effect() -> None:
    doubted = [begin_run(), called("a"), begin(claimed=True), DoubtStep("r1", "tool:add:a", 3), wait_for("tool:add:a")]

    assert told(*doubted, cancel(owner="ann")) == [f"a!{INTERRUPTED}"]
    assert told(*doubted, settle("result")) == ["a=3"]


def test_a_call_may_be_settled_in_words_that_are_no_tool_s() -> None:
    for word in ("the result came by post", 7, None):
        settled = complete("tool:add:a", result=word, at=SECOND)
        assert told(begin_run(), called("a"), settled) == [f"a={word}"]


@pytest.mark.parametrize("refusal", [decide(decision="rejected"), AlarmFired(EXPIRES)])
def test_a_refused_call_has_the_result_that_was_recorded_for_it(refusal: ThreadCommand) -> None:
    story = Story(
        *WAITS,
        refusal,
        tool("a", "refused by a person; do not repeat it"),
        turn(2, text("bye"), tail=results_tail("a", "b")),
        finish(),
    )

    assert outline(story.events)[2:] == [["a=refused by a person; do not repeat it", "b=2"], ["bye"]]


def test_what_a_sub_agent_asks_for_is_not_said_of_the_call_it_runs_in() -> None:
    nested = replace(ask("x"), step="tool:add:a/approval:x", call="tool:add:a/tool:rm:x")

    story = Story(begin_run(), called("a"), nested, wait_for("tool:add:a/approval:x"))

    assert outline(story.events)[2:] == []
    assert outline(story.tell(cancel(owner="ann")).events)[2:] == [[f"a!{INTERRUPTED}"]]


@pytest.mark.parametrize("gated", [False, True])
def test_a_call_that_asks_something_when_it_has_been_begun_may_have_taken_effect(gated: bool) -> None:
    question = replace(ask("a"), step="tool:add:a/approval")
    answered = replace(decide("a"), step="tool:add:a/approval")
    begun = [ask("a"), decide("a"), begin("a")] if gated else []

    story = Story(begin_run(), called("a"), *begun, question, wait_for("tool:add:a/approval"))

    assert outline(story.events)[2:] == []
    assert outline(story.tell(answered).events)[2:] == []
    assert outline(story.tell(cancel(owner="ann")).events)[2:] == [[f"a!{INTERRUPTED}"]]


def test_approvals_of_one_run_say_nothing_of_the_next() -> None:
    story = Story(*WAITS, cancel(owner="ann"), begin_run("r2"), called("a2", run="r2"), cancel("r2", owner="ann"))

    assert outline(story.events)[-1] == [f"a2!{INTERRUPTED}"]


@pytest.mark.scenario("HIT-10")
def test_a_queued_prompt_is_said_when_its_run_begins() -> None:
    story = Story(*WAITS, queue("r2", prompt="use 5 instead"))
    before = outline(story.events)

    story.tell(decide(), begin(), tool("a", 1), turn(2, text("bye"), tail=results_tail("a", "b")), finish())

    assert "use 5 instead" not in str(before)
    assert outline(story.events)[2:] == [["a=1", "b=2"], ["bye"], ["use 5 instead"]]
    assert invalid_for_provider(said(story.events)) == []


@pytest.mark.parametrize("gone", [cancel("r2", owner="ann"), AlarmFired(504)])
def test_a_run_that_was_never_begun_leaves_no_word_and_ends_no_other(gone: ThreadCommand) -> None:
    story = Story(*WAITS, queue("r2", prompt="use 5 instead"))
    before = outline(story.events)

    story.tell(gone)
    after = outline(story.events)
    story.tell(decide(), begin(), tool("a", 1), turn(2, text("bye"), tail=results_tail("a", "b")), finish())

    assert after == before
    assert outline(story.events)[2:] == [["a=1", "b=2"], ["bye"]]


def test_a_conversation_that_waits_can_be_read_without_changing_it() -> None:
    fold = project(conversation, Story(*WAITS).events)

    assert fold.messages() == fold.messages()
