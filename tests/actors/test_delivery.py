"""A message is delivered whatever stands in the way for a while, and refused only where it can never be taken."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from clew.actors import ActorQuarantined, ActorSystem, CommandRejected, MailboxFull, Reply, SystemClosed, UnknownKind
from clew.actors.delivery import pause_s
from clew.actors.outbox import Outgoing, message_of
from clew.journal import CellWrite, Commit, JournalFull, MemoryJournal, NewEvent
from tests.actors.support import WAIT_S, DiskFailed, Pause, marked, until
from tests.actors.transfers import (
    CHECKING,
    SAVINGS,
    Account,
    Balance,
    Command,
    Deposit,
    Entry,
    Pay,
    Payment,
    decide_savings,
    deposits,
    pay,
    refusals,
    savings_kind,
    settled,
)

BOB = "savings/bob"
TO_BOB = Payment(BOB, 5)


class Watched(ActorSystem):
    """A system that notes what was handed over, under which id, and what stood in the way at once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.handed_over: list[str] = []
        self.stopped_by: list[type[Exception]] = []
        super().__init__(*args, **options)

    def hand_over(self, message: Outgoing, command_id: str) -> Reply[Any]:
        """See `ActorSystem.hand_over`."""
        self.handed_over.append(command_id)
        try:
            return super().hand_over(message, command_id)
        except Exception as error:
            self.stopped_by.append(type(error))
            raise


class TroubledJournal(MemoryJournal):
    """A journal in which appends to a stream go wrong, as often as is said, before they go well."""

    def __init__(self, stream: str, cause: str, *, refused: int = 0, lost: int = 0) -> None:
        super().__init__(hold=True)
        self._order = threading.RLock()
        self._where = (stream, cause)
        self.refused = refused
        self.lost = lost

    def append(
        self,
        stream: str,
        events: Sequence[NewEvent],
        *,
        expected: int,
        cells: Sequence[CellWrite] = (),
        revive: bool = False,
    ) -> Commit:
        """See `Journal.append`."""
        troubled = stream == self._where[0] and events[0].cause.startswith(self._where[1])
        if troubled and self.refused:
            self.refused -= 1
            raise JournalFull(path="memory", reason="a test")
        with self._order:
            commit = super().append(stream, events, expected=expected, cells=cells, revive=revive)
            if troubled and self.lost:
                self.lost -= 1
                self.fail(DiskFailed("gone"))
            else:
                self.flush()
        return commit

    def write_cells(self, changes: Sequence[CellWrite]) -> Commit:
        """See `Cells.write`."""
        with self._order:
            commit = super().write_cells(changes)
            self.flush()
        return commit


def told(system: ActorSystem, *, stream: str = "checking/ann") -> list[type[BaseException]]:
    """What was reported about an account."""
    return [type(failure.error) for failure in system.failures if failure.stream == stream]


def test_a_full_mailbox_is_waited_for_and_nobody_is_bothered() -> None:
    journal, pause = MemoryJournal(), Pause()

    def held(stream: str) -> Account:
        pause()
        return Account()

    savings = savings_kind(mailbox_size=1, initial_for=held)
    with Watched(journal, actors=[CHECKING, savings]) as system:
        system.ref(savings, "bob").tell(Balance())
        pause.entered()
        pay(system, TO_BOB)
        until(lambda: len(system.stopped_by) > 1)
        assert marked(journal, "checking/ann")

        pause.over()

        settled(journal)
        assert set(system.stopped_by) == {MailboxFull}
        assert list(system.failures) == []
    assert (deposits(journal, BOB), refusals(journal)) == ([5], [None])


@pytest.mark.parametrize("trouble", [{"refused": 3}, {"lost": 2}])
@pytest.mark.parametrize(("stream", "cause"), [(BOB, ""), ("checking/ann", "delivered:")], ids=["taking", "noting"])
def test_a_disk_that_fails_at_either_end_is_outlasted_and_reported_once(
    stream: str, cause: str, trouble: dict[str, int]
) -> None:
    journal = TroubledJournal(stream, cause, **trouble)
    with ActorSystem(journal, actors=[CHECKING, SAVINGS]) as system:
        pay(system, TO_BOB, Payment(BOB, 6))

        settled(journal)

        assert told(system) == [JournalFull if "refused" in trouble else DiskFailed]
        assert (journal.refused, journal.lost) == (0, 0)
    assert (deposits(journal, BOB), refusals(journal)) == ([5, 6], [None, None])


def test_a_fault_in_the_receivers_code_loses_nothing_and_is_reported_once() -> None:
    faults = [ZeroDivisionError("a fault"), ZeroDivisionError("the same")]

    def decide(account: Account, command: Command) -> Sequence[Entry]:
        if isinstance(command, Deposit) and faults:
            raise faults.pop()
        return decide_savings(account, command)

    journal = MemoryJournal()
    with ActorSystem(journal, actors=[CHECKING, savings_kind(decide)]) as system:
        pay(system, TO_BOB)

        settled(journal)

        assert told(system) == [ZeroDivisionError]
    assert (deposits(journal, BOB), refusals(journal)) == ([5], [None])


def test_a_receiver_in_quarantine_is_not_woken_and_gets_its_message_when_it_can_be() -> None:
    def broken(stream: str) -> Account:
        raise RuntimeError("this one cannot be woken")

    journal, savings = MemoryJournal(), savings_kind(initial_for=broken)
    with Watched(journal, actors=[CHECKING, savings]) as system:
        while not system.quarantine.listed():
            with pytest.raises(Exception, match="cannot be woken"):
                system.ref(savings, "bob").ask(Balance()).get(timeout=WAIT_S)
        pay(system, TO_BOB)
        until(lambda: told(system))
        assert told(system) == system.stopped_by == [ActorQuarantined]

    with Watched(journal, actors=[CHECKING, savings]) as system:
        until(lambda: told(system))
        assert told(system) == system.stopped_by == [ActorQuarantined]
    assert refusals(journal) == []

    with ActorSystem(journal, actors=[CHECKING, savings_kind(version=2)]):
        settled(journal)
    assert (deposits(journal, BOB), refusals(journal)) == ([5], [None])


def test_the_same_message_handed_over_again_is_applied_once_also_after_a_restart() -> None:
    journal, message = MemoryJournal(), message_of(BOB, "deposit", Deposit(5))
    for _ in range(2):
        with ActorSystem(journal, actors=[SAVINGS]) as system:
            for _ in range(2):
                assert system.hand_over(message, "checking/ann#m").get(timeout=WAIT_S) == 5
    assert deposits(journal, BOB) == [5]


def test_a_refused_message_is_decided_anew_when_it_comes_again_and_applied_once() -> None:
    """A receiver that recorded nothing has no memory of the id: it is as if the message had come later."""
    funds = Account(cents=0)

    def decide(account: Account, command: Command) -> Sequence[Entry]:
        if isinstance(command, Deposit) and account == funds and command.cents == 5:
            raise CommandRejected("not before the account is opened")
        return decide_savings(account, command)

    savings = savings_kind(decide)
    journal, message = MemoryJournal(), message_of(BOB, "deposit", Deposit(5))
    with ActorSystem(journal, actors=[savings]) as system:
        with pytest.raises(CommandRejected):
            system.hand_over(message, "checking/ann#m").get(timeout=WAIT_S)
        system.ref(savings, "bob").ask(Deposit(1)).get(timeout=WAIT_S)
        for _ in range(2):
            assert system.hand_over(message, "checking/ann#m").get(timeout=WAIT_S) == 6
    assert deposits(journal, BOB) == [1, 5]


@pytest.mark.parametrize("length", [2000, 2036, 2039])
def test_names_of_any_length_send_and_receive(length: int) -> None:
    name = "x" * length
    with ActorSystem("memory:", actors=[CHECKING, SAVINGS]) as system:
        sender = system.ref(CHECKING, name)
        sender.ask(Deposit(10)).get(timeout=WAIT_S)
        sender.ask(Pay("i" * 3000, [TO_BOB, Payment(f"savings/{name}", 5)])).get(timeout=WAIT_S)

        settled(system.journal, sender.stream)

        assert deposits(system.journal, BOB) == deposits(system.journal, f"savings/{name}") == [5]


def test_what_could_not_be_delivered_before_the_system_closed_goes_on_at_the_next_opening() -> None:
    journal = TroubledJournal(BOB, "", refused=1_000_000)
    system = Watched(journal, actors=[CHECKING, SAVINGS])
    pay(system, TO_BOB)
    until(lambda: len(system.handed_over) > 1)
    system.close()
    assert (refusals(journal), marked(journal, "checking/ann")) == ([], True)

    journal.refused = 0
    with Watched(journal, actors=[CHECKING, SAVINGS]) as system:
        settled(journal)
        assert system.handed_over == ["checking/ann#pay:p1:0"]
    assert (deposits(journal, BOB), refusals(journal)) == ([5], [None])


def test_pauses_grow_from_a_moment_to_a_limit_and_are_longer_where_somebody_has_to_do_something() -> None:
    load, unknown = MailboxFull(stream=BOB, size=1), UnknownKind(name="savings", known=())

    assert [pause_s(load, attempt) for attempt in range(4)] == [0.05, 0.1, 0.2, 0.4]
    assert [pause_s(unknown, attempt) for attempt in range(4)] == [1, 2, 4, 8]
    for attempt in (100, 10_000, 1_000_000_000):
        assert pause_s(load, attempt) == pause_s(SystemClosed(stream=BOB), attempt) == 30
        assert pause_s(unknown, attempt) == 300
