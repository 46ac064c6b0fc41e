"""However a process dies while accounts pay each other, each payment is made once, or comes back once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from math import ceil

import pytest

from clew.actors import ActorSystem
from clew.journal import CellWrite, Commit, MemoryJournal, NewEvent
from clew.journal.facts import MessageDelivered, MessageSent
from tests.actors.support import WAIT_S, marked, until
from tests.actors.transfers import CHECKING, SAVINGS, SAVINGS_MAX, Deposit, Pay, Payment, Returned, deposits, entries

FUNDS = SAVINGS_MAX + 100
PAYMENTS = [
    Payment("savings/bob", 30),
    Payment("savings/bob", SAVINGS_MAX),
    Payment("savings/cid", 40),
    Payment("checking/eve", 20),
    Payment("checking/ann", 10),
]
"""The second is refused, and the last is to herself."""


class DyingJournal(MemoryJournal):
    """A journal whose process dies: after `lives` appends it says nothing more.

    With `silent`, one append more is durable, but nobody lives to hear of it. `left` is what the next process finds.
    """

    def __init__(self, begin: MemoryJournal, lives: int, *, silent: bool) -> None:
        super().__init__(hold=True)
        self.left = MemoryJournal()
        self.dead = threading.Event()
        self._order = threading.RLock()
        self._silent = silent
        self._lives = sys.maxsize
        for recorded in begin.read_all():
            event = NewEvent(recorded.canonical, recorded.cause, recorded.recorded_at)
            self.append(recorded.stream, [event], expected=recorded.sequence - 1)
        for key, value in begin.cells.scan(b""):
            self.cells.write([CellWrite(key, value)])
        self._lives = lives

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
        with self._order:
            commit = super().append(stream, events, expected=expected, cells=cells, revive=revive)
            self._lives -= 1
            if self._lives >= 0 or (self._silent and self._lives == -1):
                self.left.append(stream, events, expected=expected, cells=cells)
            if self._lives >= 0:
                self.flush()
            else:
                self.dead.set()
            return commit

    def write_cells(self, changes: Sequence[CellWrite]) -> Commit:
        """See `Cells.write`."""
        with self._order:
            commit = super().write_cells(changes)
            if not self.dead.is_set():
                self.left.cells.write(changes)
                self.flush()
            return commit


def run(opened: MemoryJournal, over: Callable[[], bool]) -> None:
    """Ask for the payments, as somebody does who got no answer the last time, and wait until it is over."""
    system = ActorSystem(opened, actors=[CHECKING, SAVINGS])
    try:
        ann = system.ref(CHECKING, "ann")
        ann.tell(Deposit(FUNDS), command_id="funds")
        ann.tell(Pay("p", PAYMENTS), command_id="pay")
        until(over)
    finally:
        # Nothing is waited for: what the dead say is not heard.
        system.close(timeout_s=0.2)


def die(begin: MemoryJournal, lives: int, *, silent: bool) -> DyingJournal:
    """Run on a journal until its process dies or all is paid."""
    journal = DyingJournal(begin, lives, silent=silent)
    run(journal, lambda: journal.dead.is_set() or paid(journal))
    return journal


def paid(journal: MemoryJournal) -> bool:
    return journal.head("checking/ann").sequence > 1 and not marked(journal, "checking/ann")


def check_paid_once(journal: MemoryJournal) -> None:
    """Every cent is where it belongs, and every message was sent, taken and acknowledged once."""
    ann = entries(journal, "checking/ann")
    arrived = {name: deposits(journal, name) for name in NAMES}
    assert arrived == {"checking/ann": [FUNDS, 10], "checking/eve": [20], "savings/bob": [30], "savings/cid": [40]}
    assert [(fact.message, fact.cents) for fact in ann if isinstance(fact, Returned)] == [("pay:p:1", SAVINGS_MAX)]
    ids = [f"pay:p:{number}" for number in range(len(PAYMENTS))]
    assert [fact.id for fact in ann if isinstance(fact, MessageSent)] == ids
    assert sorted(fact.id for fact in ann if isinstance(fact, MessageDelivered)) == ids
    refused = [fact.id for fact in ann if isinstance(fact, MessageDelivered) and fact.refused is not None]
    assert refused == ["pay:p:1"]


NAMES = ["checking/ann", "checking/eve", "savings/bob", "savings/cid"]


APPENDS = 2 + 2 * len(PAYMENTS) - 1
"""The deposit, the sending, and two for each payment; a refusal writes nothing."""


def test_without_a_crash_each_payment_is_made_once() -> None:
    journal = MemoryJournal()
    run(journal, lambda: paid(journal))

    check_paid_once(journal)
    assert len({event.cause for event in journal.read_all()}) == APPENDS


@pytest.mark.crash
@pytest.mark.parametrize("silent", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("lives", range(APPENDS))
def test_a_process_that_dies_before_or_after_any_commit_pays_once(lives: int, silent: bool) -> None:
    died = die(MemoryJournal(), lives, silent=silent)
    assert died.dead.is_set()
    assert len({event.cause for event in died.left.read_all()}) == lives + silent

    run(died.left, lambda: paid(died.left))

    check_paid_once(died.left)


@pytest.mark.crash
@pytest.mark.parametrize("lives", [1, 2, 3])
@pytest.mark.parametrize("silent", [False, True], ids=["before", "after"])
def test_a_process_that_dies_again_and_again_pays_once(lives: int, silent: bool) -> None:
    journal, deaths, dead = MemoryJournal(), 0, True
    while dead:
        died = die(journal, lives, silent=silent)
        journal, dead = died.left, died.dead.is_set()
        deaths += dead

    check_paid_once(journal)
    assert deaths == ceil((APPENDS - lives) / (lives + silent))


def test_who_asks_again_after_the_end_changes_nothing() -> None:
    journal = MemoryJournal()
    run(journal, lambda: paid(journal))
    before = [(event.stream, event.digest) for event in journal.read_all()]

    with ActorSystem(journal, actors=[CHECKING, SAVINGS]) as system:
        ann = system.ref(CHECKING, "ann")
        assert ann.ask(Deposit(FUNDS), command_id="funds").get(timeout=WAIT_S) == FUNDS
        ann.ask(Pay("p", PAYMENTS), command_id="pay").get(timeout=WAIT_S)

    assert [(event.stream, event.digest) for event in journal.read_all()] == before
