"""A command that is sent again under its id is answered with its first answer, and counts once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clew.actors import ActivationFailed, ActorRef, ActorSystem
from clew.journal import CorruptRecord, Journal, MemoryJournal, RecordedEvent
from tests.actors.support import (
    ACCOUNT,
    WAIT_S,
    AccountCommand,
    Deposit,
    Look,
    SlowDisk,
    Withdraw,
    until,
)

Account = ActorRef[AccountCommand, int]


def deposits(journal: Journal) -> int:
    return len(list(journal.read("account/a")))


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


def test_a_repeated_id_gets_the_first_answer_and_is_recorded_once(journal: MemoryJournal) -> None:
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        first = ref.ask(Deposit(5), command_id="k").get(timeout=WAIT_S)
        ref.ask(Deposit(1)).get(timeout=WAIT_S)

        again = ref.ask(Deposit(5), command_id="k").get(timeout=WAIT_S)

    assert (first, again, deposits(journal)) == (5, 5, 2)


def test_a_first_answer_is_still_known_after_a_thousand_more_commands(journal: MemoryJournal) -> None:
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        ref.ask(Deposit(5), command_id="k").get(timeout=WAIT_S)
        for _ in range(10):
            # A hundred at a time: the mailbox takes a thousand, and whoever asks waits for nothing.
            for _ in range(100):
                ref.tell(Deposit(1))
            ref.ask(Look()).get(timeout=WAIT_S)

        assert ref.ask(Deposit(5), command_id="k").get(timeout=WAIT_S) == 5
    assert deposits(journal) == 1001


def test_a_first_answer_is_still_known_after_a_restart(tmp_path: Path) -> None:
    for _ in range(3):
        with ActorSystem(tmp_path, actors=[ACCOUNT]) as system:
            ref = system.ref(ACCOUNT, "a")
            assert ref.ask(Deposit(5), command_id="k").get(timeout=WAIT_S) == 5
            ref.ask(Deposit(1), command_id="l").get(timeout=WAIT_S)
            assert deposits(system.journal) == 2


def test_a_first_answer_is_still_known_after_passivation(journal: MemoryJournal) -> None:
    with ActorSystem(journal, actors=[ACCOUNT], idle_s=0.001) as system:
        ref = system.ref(ACCOUNT, "a")
        ref.ask(Deposit(5), command_id="k").get(timeout=WAIT_S)
        ref.ask(Deposit(1)).get(timeout=WAIT_S)
        until(lambda: system.live == 0)

        assert ref.ask(Deposit(5), command_id="k").get(timeout=WAIT_S) == 5
    assert deposits(journal) == 2


def test_many_threads_that_send_one_id_append_once(journal: MemoryJournal) -> None:
    start = threading.Barrier(8)
    with ActorSystem(journal, actors=[ACCOUNT], threads=4) as system:
        ref = system.ref(ACCOUNT, "a")

        def send(_: int) -> int:
            start.wait(WAIT_S)
            return ref.ask(Deposit(5), command_id="k").get(timeout=WAIT_S)

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(send, range(8)))

    assert (answers, deposits(journal)) == ([5] * 8, 1)


def test_a_repeated_id_waits_for_the_first_append_and_no_longer() -> None:
    journal = SlowDisk()
    with ActorSystem(journal, actors=[ACCOUNT], threads=1) as system:
        ref = system.ref(ACCOUNT, "a")
        first = ref.ask(Deposit(5), command_id="k")
        journal.appended()
        again = ref.ask(Deposit(5), command_id="k")
        system.ref(ACCOUNT, "b").ask(Look()).get(timeout=WAIT_S)  # The only thread has been through both commands.
        assert not again.done

        journal.flush()

        assert (first.get(timeout=WAIT_S), again.get(timeout=WAIT_S)) == (5, 5)
        later = ref.ask(Deposit(1))
        journal.appended()
        journal.flush()
        assert later.get(timeout=WAIT_S) == 6


def test_another_command_under_a_known_id_is_not_handled(journal: MemoryJournal) -> None:
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        ref.ask(Deposit(5), command_id="k").get(timeout=WAIT_S)

        assert ref.ask(Withdraw(5), command_id="k").get(timeout=WAIT_S) == 5
        assert ref.ask(Look()).get(timeout=WAIT_S) == 5


def test_an_id_belongs_to_one_actor(journal: MemoryJournal) -> None:
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        answers = [system.ref(ACCOUNT, name).ask(Deposit(5), command_id="k") for name in "ab"]

        assert [answer.get(timeout=WAIT_S) for answer in answers] == [5, 5]
    assert len(list(journal.read_all())) == 2


def test_a_command_without_events_is_answered_anew(journal: MemoryJournal) -> None:
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        looks = [ref.ask(Look(), command_id="k"), ref.ask(Deposit(5)), ref.ask(Look(), command_id="k")]

        assert [look.get(timeout=WAIT_S) for look in looks] == [0, 5, 5]


class FailsOnce(MemoryJournal):
    """A journal that cannot be read the first time."""

    fails = 1

    def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
        if self.fails:
            self.fails -= 1
            raise CorruptRecord(where=stream, reason="not just now")
        return super().read(stream, after=after)


@pytest.mark.scenario("CON-12")
def test_the_command_that_woke_a_failing_actor_is_told_so_and_counts_once_when_sent_again() -> None:
    journal = FailsOnce()
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        with pytest.raises(ActivationFailed, match="not just now"):
            ref.ask(Deposit(5), command_id="k").get(timeout=WAIT_S)
        assert deposits(journal) == 0

        answers = [ref.ask(Deposit(5), command_id="k").get(timeout=WAIT_S) for _ in range(2)]

    assert (answers, deposits(journal)) == ([5, 5], 1)
