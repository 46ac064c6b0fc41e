"""What time brings: everything that is due, once, and nothing that is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from clew.actors.thread import RunStatus, ThreadCommand
from clew.actors.thread.state import due
from clew.journal.facts import (
    ApprovalResolved,
    ApprovalSettled,
    ChildEnded,
    MessageSent,
    RunCancelled,
    RunFailed,
    RunStarted,
    SignalTimedOut,
)
from tests.actors.asks import (
    HOUR,
    PARENT,
    alarm,
    ask_approval,
    await_signal,
    begin,
    cancel_all,
    fail_until,
    start_child,
    suspend,
)
from tests.actors.story import decide, evolved, finish, given, start

EVERYTHING: Sequence[ThreadCommand] = [
    begin(timeout=500),
    ask_approval(expires_at=100),
    await_signal(due=200),
    start_child(due=300),
    fail_until(400, "tool:flaky:c9"),
    suspend("approval:c1", "signal:go", "tool:ask:c1", "tool:flaky:c9"),
    begin("r2", requester=PARENT),
]


def test_a_conversation_is_woken_for_what_is_due_first_and_then_for_the_next() -> None:
    thread, seen = given(*EVERYTHING), list[tuple[int, list[str]]]()

    while (at := due(thread)) is not None:
        events = decide(thread, alarm(at))
        assert events, "an alarm that is due moves something"
        seen.append((at, [type(event).__name__ for event in events]))
        thread = evolved(thread, events)

    assert seen == [
        (100, ["ApprovalResolved", "ApprovalSettled"]),
        (200, ["SignalTimedOut"]),
        (300, ["ChildEnded", "MessageSent"]),
        (501, ["RunFailed", "RunStarted"]),
    ]


def test_one_late_alarm_brings_all_that_was_due_and_starts_who_waits_in_time() -> None:
    thread = given(*EVERYTHING)

    events = decide(thread, alarm(1000))

    assert [type(event) for event in events] == [
        ApprovalResolved,
        ApprovalSettled,
        SignalTimedOut,
        ChildEnded,
        MessageSent,
        RunFailed,
        RunStarted,
    ]
    after = evolved(thread, events)
    assert (after.open_run, due(after), decide(after, alarm(1000))) == ("r2", None, ())


def test_an_alarm_much_too_late_gives_up_who_waits_rather_than_start_it() -> None:
    events = decide(given(*EVERYTHING), alarm(13 * HOUR))

    assert [type(event) for event in events][:2] == [MessageSent, RunCancelled]
    assert RunStarted not in map(type, events)


@pytest.mark.parametrize("at", [0, 1, 99])
def test_an_alarm_for_which_nothing_is_due_changes_nothing(at: int) -> None:
    assert decide(given(*EVERYTHING), alarm(at)) == ()
    assert decide(given(), alarm(at)) == ()


@pytest.mark.parametrize("end", [finish(), cancel_all()])
def test_nothing_is_due_of_a_run_that_has_ended(end: ThreadCommand) -> None:
    thread = given(begin(timeout=500), ask_approval(), await_signal(due=200), start_child(), end)

    assert (due(thread), decide(thread, alarm(9999))) == (None, ())


def test_the_time_of_a_queued_run_begins_when_it_does() -> None:
    thread = given(start(), begin("r2", timeout=50), finish())

    assert due(thread) == 59
    assert evolved(thread, decide(thread, alarm(59))).runs["r2"].status is RunStatus.FAILED
