"""Signals: each is taken by one wait, in the order of their coming."""

from __future__ import annotations

import pytest

from clew.actors import CommandRejected, RunEnded, UnknownThread
from clew.actors.thread import RunStatus, ThreadCommand, ThreadState
from clew.actors.thread.evolve import SIGNALS_REMEMBERED
from clew.actors.thread.signals import NAME_LENGTH_MAX, SIGNALS_MAX
from clew.actors.thread.state import due
from clew.journal.facts import SignalAwaited, SignalReceived, SignalTaken, SignalTimedOut, StepCompleted
from tests.actors.asks import alarm, await_signal, begin, complete_call, signal, suspend
from tests.actors.story import cancel, decide, evolved, finish, given, halt, raw, start

GO = "signal:go"


def taken(thread: ThreadState, command: ThreadCommand) -> list[tuple[str, str, str]]:
    """Return who took which signal."""
    return [(e.run, e.step, e.id) for e in decide(thread, command) if isinstance(e, SignalTaken)]


def test_a_signal_before_the_wait_is_kept_for_it() -> None:
    thread = given(start(), signal("s1"))

    assert decide(given(start()), signal("s1")) == (SignalReceived("s1", "go", raw(1), None, 5),)
    assert decide(thread, await_signal()) == (
        SignalAwaited("r1", GO, "go", None, 3),
        SignalTaken("r1", GO, "s1", 3),
    )


def test_a_signal_after_the_wait_is_taken_in_the_same_append_and_wakes_the_run() -> None:
    thread = given(start(), await_signal(), suspend(GO))
    assert (thread.runs["r1"].status, due(thread)) == (RunStatus.SUSPENDED, None)

    events = decide(thread, signal("s1"))

    assert events == (SignalReceived("s1", "go", raw(1), None, 5), SignalTaken("r1", GO, "s1", 5))
    after = evolved(thread, events)
    assert (after.runs["r1"].status, after.signals, after.signal_waits) == (RunStatus.RUNNING, (), ())


def test_signals_of_a_name_are_taken_in_the_order_of_their_coming() -> None:
    thread = given(start(), signal("s1"), signal("other", "stop"), signal("s2"))

    first = evolved(thread, decide(thread, await_signal("w1")))

    assert taken(thread, await_signal("w1")) == [("r1", "w1", "s1")]
    assert taken(first, await_signal("w2")) == [("r1", "w2", "s2")]
    assert taken(first, await_signal("w3", "stop")) == [("r1", "w3", "other")]


def test_of_several_waits_the_first_gets_the_signal() -> None:
    thread = given(start(), await_signal("w1"), await_signal("w2"))

    after = evolved(thread, decide(thread, signal("s1")))

    assert taken(thread, signal("s1")) == [("r1", "w1", "s1")]
    assert taken(after, signal("s2")) == [("r1", "w2", "s2")]


@pytest.mark.parametrize("before", [[], [await_signal()]])
def test_a_signal_that_is_sent_twice_is_one_signal(before: list[ThreadCommand]) -> None:
    thread = given(start(), *before, signal("s1"))

    assert decide(thread, signal("s1", payload=2, at=9)) == ()


def test_the_ids_of_taken_signals_are_remembered_up_to_a_number() -> None:
    thread = given(start())
    for number in range(SIGNALS_REMEMBERED + 1):
        thread = evolved(thread, decide(thread, signal(f"s{number}")))
        thread = evolved(thread, decide(thread, await_signal(f"w{number}")))

    assert len(thread.signals_taken) == SIGNALS_REMEMBERED
    assert decide(thread, signal("s1")) == ()


def test_a_wait_is_asked_for_once() -> None:
    assert decide(given(start(), await_signal()), await_signal(due=9)) == ()
    assert decide(given(start(), await_signal(), signal("s1"), signal("s2")), await_signal()) == ()


def test_a_wait_ends_without_a_signal_at_its_time() -> None:
    thread = given(start(), await_signal(due=50), suspend(GO))
    assert due(thread) == 50
    assert decide(thread, alarm(49)) == ()

    events = decide(thread, alarm(50))

    assert events == (SignalTimedOut("r1", GO, 50),)
    after = evolved(thread, events)
    assert (after.runs["r1"].status, due(after), decide(after, alarm(50))) == (RunStatus.RUNNING, None, ())
    assert taken(after, signal("s1")) == []


def test_a_signal_reaches_a_run_that_is_halted_and_is_there_when_it_goes_on() -> None:
    thread = given(start(), await_signal(), halt())

    after = evolved(thread, decide(thread, signal("s1")))

    assert (after.runs["r1"].status, after.signals) == (RunStatus.HALTED, ())


@pytest.mark.parametrize("end", [cancel(), finish()])
def test_the_waits_of_a_run_end_with_it_and_take_nothing_more(end: ThreadCommand) -> None:
    thread = given(start(), await_signal(due=50), end)

    assert (thread.signal_waits, due(thread)) == ((), None)
    assert taken(thread, signal("s1")) == []
    after = given(start(), await_signal(), end, signal("s1"), start("r2"))
    assert taken(after, await_signal(run="r2")) == [("r2", GO, "s1")]


def test_the_wait_of_a_step_that_has_its_result_takes_nothing_more() -> None:
    thread = given(start(), await_signal("tool:pay:c1/signal:go"), await_signal("tool:pay:c10/signal:go"))

    events = decide(thread, complete_call(approval=None))

    assert [type(event) for event in events] == [StepCompleted, SignalTimedOut]
    assert taken(evolved(thread, events), signal("s1")) == [("r1", "tool:pay:c10/signal:go", "s1")]


@pytest.mark.parametrize("name", ["", "a\n", "\x00", "x" * (NAME_LENGTH_MAX + 1)])
def test_a_name_outside_the_grammar_is_refused_to_who_sends_and_to_who_waits(name: str) -> None:
    for command in (signal("s1", name), await_signal(name=name)):
        with pytest.raises(CommandRejected, match="is not the name of a signal"):
            decide(given(start()), command)


def test_a_thread_keeps_a_number_of_signals_but_refuses_none_that_is_waited_for() -> None:
    thread = given(start(), await_signal(), *(signal(f"s{n}", "noise") for n in range(SIGNALS_MAX)))

    with pytest.raises(CommandRejected, match="1000 signals wait to be taken, the most it keeps"):
        decide(thread, signal("more", "noise"))

    assert taken(thread, signal("s", "go")) == [("r1", GO, "s")]


def test_only_the_owner_signals_a_thread() -> None:
    thread = given(begin(owner="ann"))

    for owner in (None, "bob"):
        with pytest.raises(UnknownThread):
            decide(thread, signal("s1", owner=owner))
    assert decide(thread, signal("s1", owner="ann")) == (SignalReceived("s1", "go", raw(1), "ann", 5),)
    with pytest.raises(UnknownThread):
        decide(given(), signal("s1"))


def test_a_run_that_ended_waits_for_nothing() -> None:
    with pytest.raises(RunEnded, match="signal:go came too late"):
        decide(given(start(), finish()), await_signal())
