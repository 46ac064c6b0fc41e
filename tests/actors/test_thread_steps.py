"""Steps that may run once at the most, steps in doubt, and steps that are tried again later."""

from __future__ import annotations

import pytest

from clew.actors import CommandRejected, UnknownRun, UnknownThread
from clew.actors.outbox import Outgoing
from clew.actors.thread import RunStatus, ThreadCommand, ThreadState
from clew.actors.thread.state import due
from clew.journal.facts import (
    ApprovalSettled,
    ChildEnded,
    ErrorFact,
    MessageSent,
    RunWoken,
    SignalTimedOut,
    StateSet,
    StepCompleted,
    StepDelayed,
    StepDoubted,
    StepFailed,
    StepSettled,
    StepStarted,
)
from tests.actors.asks import (
    ASKED,
    PAY,
    alarm,
    approve,
    ask_approval,
    await_signal,
    begin,
    begin_step,
    complete_call,
    doubt,
    fail_until,
    pause,
    settle,
    start_child,
    suspend,
)
from tests.actors.story import (
    BOOM,
    cancel,
    complete,
    decide,
    evolved,
    fail_step,
    finish,
    given,
    halt,
    raw,
    resume,
    start,
)

CLAIM = begin_step(claimed=True)


def in_doubt(*more: ThreadCommand) -> ThreadState:
    """Return a conversation with a step that was claimed and has no result."""
    return given(start(), CLAIM, doubt(), suspend(PAY), *more)


def test_a_claim_is_recorded_before_the_step_runs_and_taken_once() -> None:
    thread = given(start())

    events = decide(thread, CLAIM)

    assert events == (StepStarted("r1", PAY, 1, True, None, None, 6),)
    with pytest.raises(CommandRejected, match="was begun before and may run once at the most"):
        decide(evolved(thread, events), begin_step(claimed=True, attempt=2))


@pytest.mark.parametrize("claimed", [False, True])
def test_a_step_with_a_result_does_not_begin_again(claimed: bool) -> None:
    with pytest.raises(CommandRejected, match="was begun before"):
        decide(given(start(), complete(PAY)), begin_step(claimed=claimed))


def test_a_claimed_step_that_raised_may_be_claimed_again() -> None:
    thread = given(start(), CLAIM, fail_step(PAY))

    assert decide(thread, begin_step(claimed=True, attempt=2)) == (StepStarted("r1", PAY, 2, True, None, None, 6),)
    assert decide(thread, doubt()) == ()


@pytest.mark.parametrize("before", [[], [begin_step()], [CLAIM, complete(PAY)], [CLAIM, fail_step(PAY)]])
def test_only_a_claim_without_a_result_is_in_doubt(before: list[ThreadCommand]) -> None:
    assert decide(given(start(), *before), doubt()) == ()


def test_a_doubt_is_asked_once_and_waits_for_somebody_without_an_end() -> None:
    assert decide(given(start(), CLAIM), doubt()) == (StepDoubted("r1", PAY, 7),)

    thread = in_doubt()

    assert (thread.runs["r1"].status, due(thread)) == (RunStatus.SUSPENDED, None)
    assert decide(given(start(), CLAIM, doubt()), doubt()) == ()


def test_somebody_says_what_the_result_was() -> None:
    thread = in_doubt()

    events = decide(thread, settle("result", result={"paid": 1}))

    assert events == (
        StepSettled("r1", PAY, "result", "ann", 8),
        StepCompleted("r1", PAY, {}, raw({"paid": 1}), 8),
    )
    after = evolved(thread, events)
    assert after.runs["r1"].status is RunStatus.RUNNING
    assert decide(after, complete(PAY)) == ()


def test_somebody_says_that_it_failed() -> None:
    error = ErrorFact("Declined", "no money")

    events = decide(in_doubt(), settle("fail", error=error))

    assert events == (
        StepSettled("r1", PAY, "fail", "ann", 8),
        StepFailed("r1", PAY, {}, 1, True, error, 8),
    )
    by_itself = decide(in_doubt(), settle("fail"))[1]
    assert by_itself == StepFailed("r1", PAY, {}, 1, True, ErrorFact("StepFailed", "somebody said that it failed"), 8)


def test_somebody_says_that_it_may_be_tried_again_and_it_may_get_into_doubt_again() -> None:
    thread = in_doubt()

    events = decide(thread, settle("retry"))

    assert events == (StepSettled("r1", PAY, "retry", "ann", 8),)
    again = evolved(thread, (*events, *decide(evolved(thread, events), begin_step(claimed=True, attempt=2))))
    assert decide(again, doubt()) == (StepDoubted("r1", PAY, 7),)
    asked = evolved(again, decide(again, doubt()))
    assert [type(event) for event in decide(asked, settle("fail"))] == [StepSettled, StepFailed]


@pytest.mark.parametrize("outcome", ["result", "retry", "fail"])
@pytest.mark.parametrize(
    "thread",
    [
        given(start()),
        given(start(), CLAIM),
        in_doubt(settle("result")),
        in_doubt(settle("retry")),
        in_doubt(settle("fail")),
        in_doubt(cancel()),
        given(start(), CLAIM, doubt(), complete(PAY)),
        given(start(), CLAIM, doubt(), fail_step(PAY)),
    ],
)
def test_what_is_not_in_doubt_is_not_settled(thread: ThreadState, outcome: str) -> None:
    with pytest.raises(CommandRejected, match="is not in doubt, so there is nothing to settle"):
        decide(thread, settle(outcome))


def test_a_step_settled_with_a_result_waits_for_nothing_within_it_any_more() -> None:
    thread = given(start(), CLAIM, await_signal(f"{PAY}/signal:go"), start_child(f"{PAY}/child"), doubt())

    events = decide(thread, settle("result"))

    assert [type(event) for event in events] == [StepSettled, StepCompleted, SignalTimedOut, ChildEnded, MessageSent]


def test_settling_is_for_the_owner_and_says_one_of_three_things() -> None:
    owned = given(begin(owner="ann"), CLAIM, doubt())

    with pytest.raises(UnknownThread):
        decide(owned, settle("retry", owner="bob"))
    with pytest.raises(UnknownRun):
        decide(owned, settle("retry", owner="ann", run="r9"))
    with pytest.raises(CommandRejected, match="settled with one of result, retry, fail, not 'maybe'"):
        decide(owned, settle("maybe", owner="ann"))


def test_a_doubt_is_settled_while_its_run_is_halted() -> None:
    thread = given(start(), CLAIM, doubt(), halt())

    after = evolved(thread, decide(thread, settle("result")))

    assert (after.runs["r1"].status, after.runs["r1"].steps[PAY]) == (RunStatus.HALTED, 0)


def test_settling_the_call_of_a_spent_grant_settles_that_too() -> None:
    asked = [ask_approval(), approve(), begin_step(claimed=True, approval=ASKED), doubt()]
    thread = given(start(), *asked)

    for outcome, last in (("result", StepCompleted), ("fail", StepFailed)):
        events = decide(thread, settle(outcome))
        assert [type(event) for event in events] == [StepSettled, last, ApprovalSettled]
        assert events[-1] == ApprovalSettled("r1", ASKED, "approved", 8)
    tried = evolved(thread, decide(thread, settle("retry")))
    again = begin_step(claimed=True, approval=ASKED, attempt=2)
    assert decide(tried, again) == (StepStarted("r1", PAY, 2, True, ASKED, None, 6),)


def test_a_step_may_wait_for_a_child_and_get_into_doubt_and_each_wait_ends_by_itself() -> None:
    both = [begin_step("tool:ask:c1", claimed=True), start_child(), doubt("tool:ask:c1"), suspend("tool:ask:c1")]
    thread = given(start(), *both)

    timed_out = evolved(thread, decide(thread, alarm(300)))

    assert due(thread) == 300
    assert [type(event) for event in decide(timed_out, settle("retry", "tool:ask:c1"))] == [StepSettled]


def test_a_step_that_is_tried_again_later_is_woken_for_then() -> None:
    thread = given(start())

    events = decide(thread, fail_until(50))

    assert events == (StepFailed("r1", PAY, {}, 1, False, BOOM, 3), StepDelayed("r1", PAY, 1, 50, 3))
    delayed = evolved(thread, events)
    assert due(delayed) is None
    suspended = evolved(delayed, decide(delayed, suspend(PAY)))
    assert (due(suspended), decide(suspended, alarm(49))) == (50, ())
    assert decide(suspended, alarm(50)) == (RunWoken("r1", 50),)
    woken = evolved(suspended, decide(suspended, alarm(50)))
    assert (woken.runs["r1"].status, due(woken), decide(woken, alarm(50))) == (RunStatus.RUNNING, None, ())


def test_a_run_is_not_suspended_for_a_retry_whose_time_has_come() -> None:
    assert decide(given(start(), fail_until(50)), suspend(PAY, at=50)) == ()


def test_an_attempt_that_was_recorded_delays_nothing_a_second_time_and_a_last_one_never() -> None:
    assert decide(given(start(), fail_until(50)), fail_until(90)) == ()
    last = fail_step(PAY, attempt=2, final=True)
    final = type(last)("r1", PAY, {}, 2, True, BOOM, 4, until=50)
    assert [type(event) for event in decide(given(start()), final)] == [StepFailed]


@pytest.mark.parametrize("then", [complete(PAY), fail_step(PAY, attempt=2, final=True)])
def test_a_retry_that_is_over_wakes_nobody_any_more(then: ThreadCommand) -> None:
    thread = given(start(), fail_until(50), then, ask_approval(call="tool:other:c2", expires_at=900), suspend(ASKED))

    assert due(thread) == 900
    assert decide(thread, alarm(60)) == ()
    assert decide(given(start(), fail_until(50), then), suspend(PAY)) == ()


def test_a_retry_that_the_run_is_not_suspended_for_does_not_wake_it() -> None:
    thread = given(start(), fail_until(50), ask_approval(expires_at=900), suspend(ASKED))

    assert (due(thread), decide(thread, alarm(60))) == (900, ())


def test_a_paused_run_is_not_woken_for_a_retry() -> None:
    thread = given(start(), fail_until(50), suspend(PAY), pause())
    assert (due(thread), decide(thread, alarm(60))) == (None, ())

    resumed = evolved(thread, decide(thread, resume()))

    assert resumed.runs["r1"].status is RunStatus.RUNNING
    assert decide(resumed, suspend(PAY, at=60)) == ()


def test_a_step_brings_its_state_and_its_messages_in_one_append() -> None:
    message = Outgoing("account/a", "deposit", raw({"cents": 1}))
    command = complete_call(approval=None, messages=(message, message))
    with_state = type(command)("r1", PAY, {}, raw("ok"), 7, state=raw(1), messages=(message, message))

    events = decide(given(start()), with_state)

    assert [type(event) for event in events] == [StateSet, StepCompleted, MessageSent, MessageSent]
    assert [event.id for event in events if isinstance(event, MessageSent)] == [f"r1/{PAY}:0", f"r1/{PAY}:1"]
    assert decide(evolved(given(start()), events), with_state) == ()


def test_what_steps_wait_for_is_forgotten_with_the_run() -> None:
    ended = given(start(), CLAIM, fail_until(50, "tool:b:c2"), finish()).runs["r1"]

    assert (ended.steps, ended.waits, ended.claimed) == ({}, {}, {})
