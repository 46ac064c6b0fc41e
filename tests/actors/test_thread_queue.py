"""Runs that wait their turn: a queue of facts, in order, with an end to waiting."""

from __future__ import annotations

import pytest

from clew.actors import CommandRejected, RunConflict, UnknownRun
from clew.actors.thread import CancelRun, EndChild, RunStatus, ThreadCommand, ThreadState
from clew.actors.thread.state import due
from clew.journal.facts import (
    NOTHING,
    ErrorFact,
    MessageSent,
    RunCancelled,
    RunDeadlineSet,
    RunFailed,
    RunFinished,
    RunQueued,
    RunRequested,
    RunStarted,
    StateSet,
    ThreadOpened,
)
from tests.actors.asks import (
    ASKED,
    HOUR,
    PARENT,
    alarm,
    approve,
    ask_approval,
    begin,
    cancel_all,
    pause,
    recover,
    suspend,
)
from tests.actors.story import cancel, complete, decide, evolved, fail, finish, given, halt, raw, resume, start

LATE = "it waited too long for the thread to be free"


def queue_of(thread: ThreadState) -> list[str]:
    return [queued.run for queued in thread.queue]


def told(status: str, error: ErrorFact | None, *, run: str, at: int, output: object = None) -> MessageSent:
    end = EndChild(PARENT.run, PARENT.step, status, raw(output), error, NOTHING, at)
    return MessageSent(f"{run}/end", PARENT.thread, "child_ended", raw(end), at)


@pytest.mark.requirement("L-CONC-4")
def test_a_run_that_may_wait_is_queued_as_a_fact_for_twelve_hours() -> None:
    events = decide(given(start()), begin("r2", at=5, timeout=7))

    assert events == (RunQueued("r2", "agent", raw("prompt of r2"), 5 + 12 * HOUR, 7, 5),)


@pytest.mark.requirement("L-CONC-4")
def test_the_sixth_run_that_would_wait_is_a_conflict() -> None:
    thread = given(start(), *(begin(f"q{n}") for n in range(5)))

    with pytest.raises(RunConflict, match="5 more wait behind it") as conflict:
        decide(thread, begin("q5"))

    assert (conflict.value.run, conflict.value.queued) == ("r1", 5)
    assert queue_of(thread) == ["q0", "q1", "q2", "q3", "q4"]


def test_runs_whose_time_in_the_queue_is_over_take_no_place_in_it_though_the_alarm_is_late() -> None:
    thread = given(start(), *(begin(f"q{n}") for n in range(5)))

    assert [type(event) for event in decide(thread, begin("q5", at=1 + 12 * HOUR))] == [RunQueued]


@pytest.mark.parametrize(("end", "ended"), [(finish(), RunFinished), (fail(), RunFailed), (cancel(), RunCancelled)])
def test_the_run_that_waited_longest_starts_in_the_append_that_ends_the_one_before(
    end: ThreadCommand, ended: type
) -> None:
    thread = given(start(), begin("r2", timeout=50), begin("r3"))

    events = decide(thread, end)

    assert type(events[0]) is ended
    assert events[1:] == (RunStarted("r2", "agent", raw("prompt of r2"), 9), RunDeadlineSet("r2", 59, 9))
    after = evolved(thread, events)
    assert (after.open_run, queue_of(after)) == ("r2", ["r3"])


def test_queued_runs_start_in_the_order_of_their_coming() -> None:
    thread, started = given(start(), begin("b"), begin("a"), begin("c")), list[str]()

    while thread.open_run is not None:
        thread = evolved(thread, decide(thread, finish(thread.open_run)))
        started += [] if thread.open_run is None else [thread.open_run]

    assert started == ["b", "a", "c"]


def test_a_run_that_waits_is_the_same_run_when_it_is_asked_for_again() -> None:
    assert decide(given(start(), begin("r2")), begin("r2", at=8)) == ()


def test_a_run_that_waited_too_long_is_given_up_when_the_thread_becomes_free_late() -> None:
    thread = given(start(), begin("r2", at=1), begin("r3", at=100))

    events = decide(thread, CancelRun("r1", None, "enough", 1 + 12 * HOUR))

    assert [(type(e), getattr(e, "run", None)) for e in events] == [
        (RunCancelled, "r1"),
        (RunCancelled, "r2"),
        (RunStarted, "r3"),
    ]


def test_the_alarm_gives_up_runs_that_waited_too_long_and_no_others() -> None:
    thread = given(start(), begin("r2", at=1), begin("r3", at=100))
    at = due(thread)
    assert at == 1 + 12 * HOUR

    events = decide(thread, alarm(at))

    assert events == (RunCancelled("r2", None, LATE, at),)
    after = evolved(thread, events)
    assert (queue_of(after), due(after)) == (["r3"], 100 + 12 * HOUR)
    assert after.runs["r2"].status is RunStatus.CANCELLED


@pytest.mark.requirement("L-CONC-4")
def test_replace_takes_the_place_of_the_open_run_and_not_of_those_that_wait() -> None:
    thread = given(start(), begin("r2"), begin("r3"))

    events = decide(thread, begin("r4", concurrent="replace", at=6))

    assert events == (
        RunCancelled("r1", None, "replaced by run r4", 6),
        RunStarted("r4", "agent", raw("prompt of r4"), 6),
    )
    after = evolved(thread, events)
    assert (after.open_run, queue_of(after)) == ("r4", ["r2", "r3"])


@pytest.mark.parametrize("left_alone", [[halt()], [recover(most=0)]])
def test_replace_takes_the_place_of_a_run_that_is_left_alone(left_alone: list[ThreadCommand]) -> None:
    thread = given(start(), *left_alone)

    assert evolved(thread, decide(thread, begin("r2", concurrent="replace"))).open_run == "r2"


@pytest.mark.parametrize("concurrent", ["reject", "queue"])
def test_what_is_said_while_somebody_is_asked_is_queued_whatever_the_policy(concurrent: str) -> None:
    thread = given(start(), ask_approval(), suspend("approval:c1"))

    assert [type(event) for event in decide(thread, begin("r2", concurrent=concurrent))] == [RunQueued]


def test_a_run_cancelled_while_it_waits_never_starts() -> None:
    thread = given(start(), begin("r2"), begin("r3"))

    events = decide(thread, cancel("r2"))

    assert events == (RunCancelled("r2", None, "enough", 9),)
    after = given(start(), begin("r2"), begin("r3"), cancel("r2"), finish())
    assert (after.open_run, after.runs["r2"].status) == ("r3", RunStatus.CANCELLED)
    assert decide(after, begin("r2")) == ()


def test_to_cancel_everything_ends_the_open_run_and_starts_none_of_those_that_wait() -> None:
    thread = given(start(), begin("r2"), begin("r3"))

    events = decide(thread, cancel_all())

    assert events == tuple(RunCancelled(run, None, "enough", 9) for run in ("r2", "r3", "r1"))
    after = evolved(thread, events)
    assert (after.open_run, queue_of(after)) == (None, [])
    assert decide(after, cancel_all()) == ()


def test_whoever_asked_for_a_run_is_told_how_it_ended() -> None:
    thread = given(start(), begin("r2", requester=PARENT))
    assert decide(given(start()), begin("r2", requester=PARENT))[0] == RunRequested(
        "r2", PARENT.thread, PARENT.run, PARENT.step, 1
    )
    running = evolved(thread, decide(thread, finish()))

    done = decide(running, finish("r2", output="yes"))

    usage_too = EndChild(PARENT.run, PARENT.step, "done", raw("yes"), None, raw({}), 9)
    assert done[0] == MessageSent("r2/end", PARENT.thread, "child_ended", raw(usage_too), 9)
    assert [type(event) for event in done] == [MessageSent, RunFinished]
    assert evolved(running, done).requesters == {}


def test_whoever_asked_for_a_run_learns_that_it_took_all_its_turns() -> None:
    events = decide(given(begin(requester=PARENT)), finish(stopped="max_turns"))

    assert isinstance(events[0], MessageSent)
    assert b'"status":"failed"' in bytes(events[0].payload)
    assert b'"MaxTurns"' in bytes(events[0].payload)


def test_whoever_asked_for_a_run_is_told_when_it_is_cancelled_while_it_waits() -> None:
    thread = given(start(), begin("r2", requester=PARENT))
    cancelled = told("cancelled", ErrorFact("RunCancelled", "enough"), run="r2", at=9)
    expired = told("cancelled", ErrorFact("RunCancelled", LATE), run="r2", at=12 * HOUR + 1)

    assert decide(thread, cancel("r2"))[0] == cancelled
    assert decide(thread, cancel_all())[0] == cancelled
    assert decide(thread, alarm(12 * HOUR + 1))[0] == expired


@pytest.mark.parametrize(
    "then", [[], [ask_approval(expires_at=900), suspend("approval:c1")], [halt()], [recover(most=0)], [pause()]]
)
def test_a_run_that_must_end_by_a_time_fails_then_wherever_it_is(then: list[ThreadCommand]) -> None:
    thread = given(begin(timeout=2_000_000_000), begin("r2"), *then, alarm(900))
    assert due(thread) == 2_000_000_001
    assert decide(thread, alarm(2_000_000_000)) == ()

    events = decide(thread, alarm(2_000_000_001))

    error = ErrorFact("RunTimedOut", "the run had not ended after 2 s, the most it may take")
    assert events[0] == RunFailed("r1", error, 2_000_000_001)
    assert evolved(thread, events).open_run == "r2"


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_run_without_time_is_refused(timeout: int) -> None:
    with pytest.raises(CommandRejected, match="timeout is more than 0 ns"):
        decide(given(), begin(timeout=timeout))


def test_a_policy_that_means_nothing_is_refused() -> None:
    with pytest.raises(CommandRejected, match="on_concurrent_run is one of reject, replace, queue, not 'maybe'"):
        decide(given(), begin(concurrent="maybe"))


def test_the_first_run_brings_the_state_that_a_new_thread_begins_with() -> None:
    events = decide(given(), begin(state={"n": 1}))

    assert events[:2] == (ThreadOpened(None, None, 1), StateSet("r1", "initial_state", raw({"n": 1})))
    after = given(begin(state={"n": 1}), finish(), begin("r2", state={"n": 2}))
    assert after.state == raw({"n": 1})


def test_a_paused_run_stands_still_until_it_is_resumed() -> None:
    thread = given(start(), pause(), suspend("pause"))
    assert thread.runs["r1"].status is RunStatus.SUSPENDED

    assert decide(thread, pause()) == ()
    resumed = evolved(thread, decide(thread, resume()))

    assert (resumed.runs["r1"].status, resumed.runs["r1"].pausing) == (RunStatus.RUNNING, False)
    assert decide(resumed, suspend("pause")) == ()


def test_a_run_that_is_resumed_before_it_stopped_does_not_stop() -> None:
    thread = given(start(), pause(), resume())

    assert decide(thread, suspend("pause")) == ()
    assert thread.runs["r1"].status is RunStatus.RUNNING


def test_a_paused_run_is_not_woken_by_what_it_waited_for_but_has_it_when_it_is_resumed() -> None:
    thread = given(start(), ask_approval(), suspend(ASKED), pause())

    decided = evolved(thread, decide(thread, approve()))

    assert decided.runs["r1"].status is RunStatus.SUSPENDED
    resumed = evolved(decided, decide(decided, resume()))
    assert resumed.runs["r1"].status is RunStatus.RUNNING
    assert decide(resumed, suspend(ASKED)) == ()


@pytest.mark.parametrize("waiting", [(), ("pause",), ("signal:none",)])
def test_a_run_is_not_suspended_where_nothing_could_wake_it(waiting: tuple[str, ...]) -> None:
    thread = given(start())

    if waiting == ("pause",):
        assert decide(thread, suspend(*waiting)) == ()
        return
    with pytest.raises(CommandRejected, match="nothing could wake it"):
        decide(thread, suspend(*waiting))


def test_pausing_what_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownRun, match="there is no run 'r9'"):
        decide(given(start()), pause("r9"))


def test_a_run_found_open_after_a_crash_too_often_is_parked_until_it_is_resumed() -> None:
    thread = given(start(), *[recover()] * 5)
    assert thread.runs["r1"].status is RunStatus.RUNNING

    parked = evolved(thread, decide(thread, recover()))

    assert parked.runs["r1"].status is RunStatus.PARKED
    resumed = evolved(parked, decide(parked, resume()))
    assert (resumed.runs["r1"].status, resumed.runs["r1"].recoveries) == (RunStatus.RUNNING, 0)


def test_a_new_step_makes_a_run_forget_that_it_was_recovered() -> None:
    thread = given(start(), *[recover()] * 5, complete(), recover())

    assert (thread.runs["r1"].status, thread.runs["r1"].recoveries) == (RunStatus.RUNNING, 1)
