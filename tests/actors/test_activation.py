"""An activation decides, evolves and appends one command at a time, and says what to wait for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from clew.actors import Activation, CommandRejected, Handled
from clew.journal import (
    JournalClosed,
    MemoryJournal,
    NotRepresentable,
    WrongExpectedSequence,
)
from tests.actors.support import (
    ACCOUNT,
    Close,
    Deposit,
    Deposited,
    DiskFailed,
    Look,
    Open,
    SlowDisk,
    Withdraw,
    desk_kind,
    events_of,
    marked,
)


def awake(journal: MemoryJournal) -> Activation[Any, Any, Any, int]:
    return Activation(ACCOUNT, "a", journal)


def test_a_command_becomes_events_and_the_answer_is_of_the_state_after_them() -> None:
    journal = MemoryJournal()
    actor = awake(journal)

    handled = [actor.handle(Deposit(5), "c1"), actor.handle(Withdraw(2), "c2")]

    assert [one.answer for one in handled] == [5, 3]
    assert [(r.sequence, r.cause) for r in journal.read("account/a")] == [(1, "c1"), (2, "c2")]


def test_an_activation_folds_its_stream_and_goes_on_from_there() -> None:
    journal = MemoryJournal()
    awake(journal).handle(Deposit(5), "c1")

    again = awake(journal)

    assert (again.state, again.sequence) == (5, 1)
    assert again.handle(Deposit(1), "c2").answer == 6


def test_the_next_command_is_decided_on_what_is_not_yet_durable() -> None:
    actor = awake(SlowDisk())

    actor.handle(Deposit(5), "c1")
    spent = actor.handle(Withdraw(5), "c2")

    assert (spent.answer, spent.error) == (0, None)
    assert spent.commit is not None
    assert not spent.commit.done


@pytest.mark.parametrize("command", [Withdraw(99), Look()])
def test_what_was_decided_on_a_state_that_may_be_lost_waits_for_it(command: object) -> None:
    journal = SlowDisk()
    actor = awake(journal)
    first = actor.handle(Deposit(5), "c1")

    after = actor.handle(command, "c2")
    journal.flush()
    settled = actor.handle(command, "c3")

    assert after.commit is first.commit
    assert settled.commit is None


@pytest.mark.parametrize("command", [Withdraw(99), Look(), Deposit(5)])
def test_what_was_decided_on_a_state_that_is_lost_never_counts_as_durable(command: object) -> None:
    journal = SlowDisk()
    actor = awake(journal)
    lost = actor.handle(Deposit(5), "c1").commit
    assert lost is not None
    journal.fail(DiskFailed())

    again = actor.handle(command, "c1" if isinstance(command, Deposit) else "c2")

    assert again.commit is lost
    assert isinstance(lost.error, DiskFailed)


def test_a_first_answer_that_is_durable_waits_for_nothing_that_came_later() -> None:
    journal = SlowDisk()
    actor = awake(journal)
    actor.handle(Deposit(5), "k")
    for number in range(100):
        actor.handle(Deposit(1), f"c{number}")
    journal.flush()
    actor.handle(Deposit(1), "later")

    again = actor.handle(Deposit(5), "k")

    assert again == Handled(5, None, None)


def test_an_append_on_a_lost_state_is_refused() -> None:
    journal = SlowDisk()
    actor = awake(journal)
    actor.handle(Deposit(5), "c1")
    journal.fail(DiskFailed())

    with pytest.raises(WrongExpectedSequence):
        actor.handle(Deposit(5), "c2")


def test_a_refusal_writes_nothing_and_a_repeated_id_is_decided_anew() -> None:
    journal = MemoryJournal()
    actor = awake(journal)

    refused = actor.handle(Withdraw(5), "c1")
    actor.handle(Deposit(5), "c2")
    allowed = actor.handle(Withdraw(5), "c1")

    assert isinstance(refused.error, CommandRejected)
    assert (allowed.answer, allowed.error) == (0, None)


def test_a_value_that_cannot_be_recorded_is_refused_and_nothing_is_written() -> None:
    journal = MemoryJournal()
    actor = awake(journal)

    refused = actor.handle(Deposit(float("nan")), "c1")  # pyright: ignore[reportArgumentType]

    assert isinstance(refused.error, NotRepresentable)
    assert (actor.state, list(journal.read_all())) == (0, [])


def test_an_append_that_the_journal_refuses_leaves_the_activation_as_it_was() -> None:
    journal = MemoryJournal()
    actor = awake(journal)
    actor.handle(Deposit(5), "c1")
    journal.close()

    with pytest.raises(JournalClosed):
        actor.handle(Deposit(1), "c2")

    assert (actor.state, actor.sequence) == (5, 1)


def test_the_initial_state_may_know_its_own_stream() -> None:
    def introduce(stream: str) -> int:
        return len(stream)

    kind = replace(ACCOUNT, initial_for=introduce)

    assert Activation(kind, "x", MemoryJournal()).state == 9


@pytest.mark.parametrize("count", [1, 3])
def test_work_is_marked_open_with_the_first_effect_and_not_after_the_last(count: int) -> None:
    journal = MemoryJournal()
    desk = Activation(desk_kind(), "d", journal)
    marks: list[bool] = [marked(journal, "desk/d")]

    for key in "abc"[:count]:
        desk.handle(Open(key), f"open {key}")
        marks.append(marked(journal, "desk/d"))
    for key in "abc"[:count]:
        desk.handle(Close(key), f"close {key}")
        marks.append(marked(journal, "desk/d"))

    assert marks == [False, *[True] * (2 * count - 1), False]
    assert events_of(journal, "desk/d") == ["opened"] * count + ["closed"] * count


def test_a_mark_becomes_durable_together_with_its_events_or_not_at_all() -> None:
    journal = SlowDisk()
    desk = Activation(desk_kind(), "d", journal)

    desk.handle(Open("a"), "c1")
    before = marked(journal, "desk/d")
    journal.fail(DiskFailed())

    assert (before, marked(journal, "desk/d")) == (False, False)


async def test_a_commit_can_be_awaited() -> None:
    journal = SlowDisk()
    handled = awake(journal).handle(Deposit(5), "c1")
    assert handled.commit is not None

    asyncio.get_running_loop().call_soon(journal.flush)
    await handled.commit

    assert [Deposited(5)] == [ACCOUNT.catalog.decode(one) for one in journal.read_all()]
