"""Runs asked of other threads: one for a step, with an end, whoever ends first."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from clew.actors.thread import CancelRun, EndChild, Requester, RunStatus, StartRun, ThreadCommand, ThreadState
from clew.actors.thread.state import due
from clew.journal.facts import (
    NOTHING,
    ChildEnded,
    ChildStarted,
    ErrorFact,
    MessageDelivered,
    MessageSent,
    RunStarted,
    StepCompleted,
)
from tests.actors.asks import acknowledge, alarm, begin, complete_call, end_child, fail_until, start_child, suspend
from tests.actors.story import cancel, decide, evolved, fail, finish, given, halt, raw, start

ASK = "tool:ask:c1"
BUSY = ErrorFact("RunConflict", "thread/child: run x is running")


def waiting(*more: ThreadCommand) -> ThreadState:
    return given(start(), start_child(), suspend(ASK), *more)


def stop(reason: str, *, at: int, owner: str | None = None) -> MessageSent:
    cancel_it = raw(CancelRun(f"r1.{ASK}", owner, reason, at))
    return MessageSent(f"r1/{ASK}/cancel", "thread/child", "cancel_run", cancel_it, at)


def test_a_child_is_asked_for_in_the_append_that_says_so_acting_as_the_owner() -> None:
    events = decide(given(begin(owner="ann")), start_child())

    assert events[0] == ChildStarted("r1", ASK, "helper", "thread/child", f"r1.{ASK}", 300, 3)
    assert isinstance(events[1], MessageSent)
    assert (events[1].id, events[1].to, events[1].command) == (f"r1/{ASK}/start", "thread/child", "start_run")
    assert msgspec.json.decode(events[1].payload, type=StartRun) == StartRun(
        f"r1.{ASK}",
        "helper",
        raw("help"),
        "ann",
        None,
        3,
        concurrent="queue",
        requester=Requester("thread/t", "r1", ASK),
    )


@pytest.mark.parametrize("since", [[], [end_child()], [end_child(), fail_until(9, ASK)]])
def test_a_step_has_one_child_however_often_it_is_tried(since: list[ThreadCommand]) -> None:
    assert decide(given(start(), start_child(), *since), start_child(thread="thread/other", at=8)) == ()


def test_a_step_that_failed_before_it_asked_has_its_child_when_it_is_tried_again() -> None:
    thread = given(start(), fail_until(9, ASK))

    assert [type(event) for event in decide(thread, start_child())] == [ChildStarted, MessageSent]


def test_the_end_of_a_child_wakes_the_run_and_comes_once() -> None:
    thread = waiting()
    assert due(thread) == 300

    events = decide(thread, end_child())

    assert events == (ChildEnded("r1", ASK, "done", raw("answer"), None, NOTHING, 6),)
    after = evolved(thread, events)
    assert (after.runs["r1"].status, due(after), after.children) == (RunStatus.RUNNING, None, {})
    assert decide(after, end_child(status="failed")) == ()


def test_a_child_whose_start_was_refused_has_ended() -> None:
    thread = given(start(), start_child(), start_child(f"{ASK}/start:x"), suspend(ASK, f"{ASK}/start:x"))

    events = decide(thread, acknowledge(f"r1/{ASK}/start", refused=BUSY))

    assert events == (
        MessageDelivered(f"r1/{ASK}/start", BUSY, 6),
        ChildEnded("r1", ASK, "refused", NOTHING, BUSY, NOTHING, 6),
    )
    assert evolved(thread, events).runs["r1"].status is RunStatus.RUNNING
    assert decide(evolved(thread, events), acknowledge(f"r1/{ASK}/start", refused=BUSY)) == ()
    other = decide(thread, acknowledge(f"r1/{ASK}/start:x/start", refused=BUSY))
    assert [event.step for event in other if isinstance(event, ChildEnded)] == [f"{ASK}/start:x"]


def test_a_start_that_was_taken_or_a_cancel_that_was_refused_ends_nothing() -> None:
    thread = waiting()

    assert [type(event) for event in decide(thread, acknowledge(f"r1/{ASK}/start"))] == [MessageDelivered]
    cancelled = waiting(cancel())
    late = decide(cancelled, acknowledge(f"r1/{ASK}/cancel", refused=BUSY))
    assert [type(event) for event in late] == [MessageDelivered]
    assert [type(event) for event in decide(cancelled, acknowledge(f"r1/{ASK}/start", refused=BUSY))] == [
        MessageDelivered
    ]


def test_a_child_that_takes_too_long_is_cancelled_and_its_end_ignored() -> None:
    thread = waiting()
    assert decide(thread, alarm(299)) == ()

    events = decide(thread, alarm(300))

    error = ErrorFact("ChildTimedOut", f"run r1.{ASK} of thread/child took longer than it may")
    assert events == (
        ChildEnded("r1", ASK, "timed_out", NOTHING, error, NOTHING, 300),
        stop("it took too long", at=300),
    )
    after = evolved(thread, events)
    assert (after.runs["r1"].status, due(after)) == (RunStatus.RUNNING, None)
    assert decide(after, end_child(status="cancelled")) == ()
    assert decide(after, alarm(300)) == ()
    assert [event.id for event in decide(after, finish()) if isinstance(event, MessageSent)] == []


@pytest.mark.parametrize("end", [finish(), fail(), cancel()])
def test_the_children_of_a_run_that_ends_are_cancelled(end: ThreadCommand) -> None:
    thread = given(start(), start_child(), begin("r2"))

    events = decide(thread, end)

    assert events[0] == stop("its parent ended", at=9)
    assert isinstance(events[-1], RunStarted)
    after = evolved(thread, events)
    assert after.children == {}
    assert decide(after, end_child()) == ()


def test_the_child_of_a_step_that_has_its_result_is_cancelled() -> None:
    thread = given(start(), start_child())

    events = decide(thread, complete_call(ASK, approval=None))

    error = ErrorFact("RunCancelled", f"step {ASK} ended before run r1.{ASK} of thread/child")
    assert [type(event) for event in events] == [StepCompleted, ChildEnded, MessageSent]
    assert events[1] == ChildEnded("r1", ASK, "cancelled", NOTHING, error, NOTHING, 7)
    assert events[2] == stop("the step that asked for it ended", at=7)
    assert evolved(thread, events).children == {}


def test_a_child_that_ends_while_its_parent_is_halted_is_there_when_that_goes_on() -> None:
    thread = given(start(), start_child(), halt())

    after = evolved(thread, decide(thread, end_child()))

    assert (after.runs["r1"].status, after.children) == (RunStatus.HALTED, {})


def test_the_end_of_what_nobody_waits_for_changes_nothing() -> None:
    assert decide(given(start()), end_child()) == ()
    assert decide(waiting(), end_child(run="r2")) == ()


@pytest.mark.parametrize(
    ("stopped", "error"),
    [("max_turns", "MaxTurns"), ("stop_condition", "RunStopped"), ("budget", "RunStopped")],
)
def test_a_child_that_stops_before_it_has_an_answer_has_none_to_give(stopped: str, error: str) -> None:
    asked = replace(start(), requester=Requester("thread/parent", "p1", ASK))

    (told, *_) = decide(given(asked), finish(stopped=stopped, output=None))

    assert isinstance(told, MessageSent)
    ended = msgspec.json.decode(told.payload, type=EndChild)
    assert ended.status == "failed"
    assert ended.error is not None
    assert ended.error.type == error
