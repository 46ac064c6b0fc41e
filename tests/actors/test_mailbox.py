"""A mailbox gives its owner one turn at a time, and a turn after everything that asked for one."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pykka
import pytest

from clew.actors import MailboxFull
from clew.actors.mailbox import Mailbox, Pool
from tests.actors.support import WAIT_S


class Owner:
    """Takes turns, and counts those that overlap."""

    def __init__(self, pool: Pool, *, size_max: int = 1000) -> None:
        self.mailbox = Mailbox()
        self.mailbox.bind(self, pool, stream="owner/x", size_max=size_max)
        self.taken: list[object] = []
        self.turns = 0
        self.overlaps = 0
        self.seen = 0
        self.woken = 0
        self._inside = threading.Lock()
        self.everything = threading.Event()
        self.expected = 0

    def turn(self) -> None:
        if not self._inside.acquire(blocking=False):
            self.overlaps += 1
            return
        self.turns += 1
        self.seen = self.woken
        while not self.mailbox.empty():
            self.taken.append(self.mailbox.get())
        if len(self.taken) + self.seen >= self.expected:
            self.everything.set()
        self._inside.release()
        self.mailbox.rest()


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(4, name="test")
    yield pool
    pool.stop()


def test_many_senders_leave_nothing_behind_and_turns_do_not_overlap(pool: Pool) -> None:
    owner, senders, each = Owner(pool, size_max=10**6), 8, 2000
    owner.expected = senders * each

    def send(sender: int) -> None:
        for number in range(each):
            (owner.mailbox.put if number % 2 else owner.mailbox.put_anyway)((sender, number))

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(senders)]
    for thread in threads:
        thread.start()

    assert owner.everything.wait(WAIT_S)
    for thread in threads:
        thread.join(WAIT_S)
    assert owner.overlaps == 0
    for sender in range(senders):
        assert [n for s, n in owner.taken if s == sender] == list(range(each))  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]


def test_a_turn_is_taken_after_every_wake_up(pool: Pool) -> None:
    owner = Owner(pool)
    for number in range(3000):
        owner.expected = number + 1
        owner.everything.clear()
        owner.woken = number + 1

        owner.mailbox.wake()

        assert owner.everything.wait(WAIT_S)
    assert owner.overlaps == 0


def test_a_mailbox_without_messages_gives_no_turns(pool: Pool) -> None:
    owner = Owner(pool)
    owner.mailbox.put("one")

    assert owner.everything.wait(WAIT_S)
    pool.stop()
    assert (owner.turns, owner.mailbox.idle) == (1, True)


class Turns:
    """A pool that gives turns only when the test says so."""

    def __init__(self) -> None:
        self.asked = 0

    def ready(self, one: object) -> None:
        self.asked += 1


def quiet(size_max: int = 10) -> tuple[Mailbox, Turns]:
    mailbox, turns = Mailbox(), Turns()
    mailbox.bind(turns, turns, stream="owner/x", size_max=size_max)  # pyright: ignore[reportArgumentType]
    return mailbox, turns


def test_one_turn_is_asked_for_however_much_arrives_before_it() -> None:
    mailbox, turns = quiet()

    for number in range(5):
        mailbox.put(number)
        mailbox.wake()

    assert turns.asked == 1


def test_what_woke_the_owner_in_its_turn_gives_it_another_one() -> None:
    mailbox, turns = quiet()
    mailbox.wake()

    mailbox.wake()
    mailbox.rest()
    assert turns.asked == 2
    mailbox.rest()
    assert turns.asked == 2


def test_a_blocked_owner_is_given_a_turn_by_a_wake_up_and_not_by_what_waits() -> None:
    mailbox, turns = quiet()
    mailbox.put("one")

    mailbox.rest(blocked=True)
    assert (turns.asked, mailbox.idle) == (1, False)
    mailbox.wake()
    assert turns.asked == 2
    mailbox.rest()
    assert turns.asked == 3


def test_a_message_that_is_put_back_is_the_next_one() -> None:
    mailbox, _ = quiet()
    for number in (1, 2):
        mailbox.put(number)

    mailbox.put_back(mailbox.get())

    assert [mailbox.get(), mailbox.get()] == [1, 2]


def test_a_full_mailbox_refuses_what_comes_from_outside_alone() -> None:
    mailbox, _ = quiet(size_max=2)
    for number in (1, 2):
        mailbox.put(number)

    with pytest.raises(MailboxFull, match="owner/x: 2 messages are waiting") as full:
        mailbox.put(3)
    mailbox.put_anyway(4)

    assert (full.value.stream, full.value.size) == ("owner/x", 2)
    assert [mailbox.get() for _ in range(3)] == [1, 2, 4]


def test_a_mailbox_closes_for_sleep_only_when_nothing_waits() -> None:
    mailbox, _ = quiet()
    mailbox.put(1)

    assert not mailbox.close_if_empty()
    mailbox.get()
    assert mailbox.close_if_empty()

    for put in (mailbox.put, mailbox.put_anyway):
        with pytest.raises(pykka.ActorDeadError):
            put(2)


def test_closing_returns_what_waits() -> None:
    mailbox, _ = quiet()
    for number in (1, 2):
        mailbox.put(number)

    assert mailbox.close() == [1, 2]
    assert mailbox.empty()
