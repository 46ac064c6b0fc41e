"""What an actor sends to another is applied once, in order, whoever else is slow; and what is refused comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.actors import ActorSystem
from clew.journal import MemoryJournal
from clew.journal.facts import MessageDelivered, MessageSent
from tests.actors.support import WAIT_S, marked, until
from tests.actors.transfers import (
    CHECKING,
    SAVINGS,
    SAVINGS_MAX,
    Balance,
    Deposit,
    Pay,
    Payment,
    Returned,
    account_kind,
    deposits,
    entries,
    pay,
    settled,
)


@pytest.mark.parametrize("url", ["memory:", "sqlite", "lmdb"])
def test_a_payment_leaves_one_account_and_arrives_in_another_of_another_kind(url: str, tmp_path: Path) -> None:
    where = {"sqlite": f"sqlite:///{tmp_path / 'bank.db'}", "lmdb": str(tmp_path / "bank")}.get(url, url)
    with ActorSystem(where, actors=[CHECKING, SAVINGS]) as system:
        pay(system, Payment("savings/bob", 300))

        settled(system.journal)

        assert system.ref(CHECKING, "ann").ask(Balance()).get(timeout=WAIT_S) == 700
        assert system.ref(SAVINGS, "bob").ask(Balance()).get(timeout=WAIT_S) == 300
        [recorded] = system.journal.read("savings/bob")
        assert recorded.cause == "checking/ann#pay:p1:0"


def test_a_message_to_oneself_arrives() -> None:
    with ActorSystem("memory:", actors=[CHECKING]) as system:
        pay(system, Payment("checking/ann", 300))

        settled(system.journal)

        assert system.ref(CHECKING, "ann").ask(Balance()).get(timeout=WAIT_S) == 1000
        assert deposits(system.journal, "checking/ann") == [1000, 300]


def test_actors_that_send_to_each_other_at_the_same_time_do_not_wait_for_each_other() -> None:
    with ActorSystem("memory:", actors=[CHECKING], threads=1) as system:
        for name, other in (("ann", "bob"), ("bob", "ann")):
            system.ref(CHECKING, name).tell(Deposit(100))
            system.ref(CHECKING, name).tell(Pay("p", [Payment(f"checking/{other}", 1)] * 100))

        for name in ("ann", "bob"):
            until(lambda name=name: deposits(system.journal, f"checking/{name}") == [100, *[1] * 100])
            settled(system.journal, f"checking/{name}")


def test_a_refusal_is_acknowledged_with_its_reason_and_the_next_message_goes_on() -> None:
    with ActorSystem("memory:", actors=[CHECKING, SAVINGS]) as system:
        too_much = SAVINGS_MAX + 1
        pay(system, Payment("savings/bob", too_much), Payment("savings/bob", 7), funds=too_much + 7)

        settled(system.journal)

        assert system.ref(CHECKING, "ann").ask(Balance()).get(timeout=WAIT_S) == too_much
        assert deposits(system.journal, "savings/bob") == [7]
        facts = entries(system.journal, "checking/ann")
        first, second = [fact for fact in facts if isinstance(fact, MessageDelivered)]
        assert first.refused is not None
        assert (first.refused.type, first.refused.message) == (
            "CommandRejected",
            f"savings are {SAVINGS_MAX} cents at the most",
        )
        assert (second.id, second.refused) == ("pay:p1:1", None)
        assert [fact.message for fact in facts if isinstance(fact, Returned)] == ["pay:p1:0"]
        assert list(system.failures) == []


def test_a_thousand_messages_to_one_receiver_arrive_in_order() -> None:
    amounts = list(range(1, 1001))
    with ActorSystem("memory:", actors=[CHECKING, SAVINGS]) as system:
        pay(system, *(Payment("savings/bob", cents) for cents in amounts), funds=sum(amounts))

        settled(system.journal)

        assert deposits(system.journal, "savings/bob") == amounts


def test_a_hundred_receivers_are_served_at_once() -> None:
    names = [f"s{number}" for number in range(100)]
    with ActorSystem("memory:", actors=[CHECKING, SAVINGS], threads=2) as system:
        pay(system, *(Payment(f"savings/{name}", n) for n in (1, 2, 3) for name in names))

        settled(system.journal)

        assert all(deposits(system.journal, f"savings/{name}") == [1, 2, 3] for name in names)
        order = [event.stream for event in system.journal.read_all(category="savings")]
        # None of them had to wait until another one had got all of its own.
        assert len(set(order[:150])) == 100


def test_a_receiver_that_nobody_knows_here_keeps_its_messages_and_holds_up_nobody_else() -> None:
    journal = MemoryJournal()
    with ActorSystem(journal, actors=[CHECKING]) as system:
        pay(system, Payment("savings/bob", 1), Payment("checking/eve", 2), Payment("savings/bob", 3))
        until(lambda: deposits(journal, "checking/eve") == [2])
        until(lambda: system.failures)
        [failure] = system.failures
        assert failure.what == "message pay:p1:0 to savings/bob is not delivered yet"
        assert "'savings' is not registered" in str(failure.error)
    assert marked(journal, "checking/ann")

    with ActorSystem(journal, actors=[CHECKING, SAVINGS]) as system:
        settled(journal)
        assert deposits(journal, "savings/bob") == [1, 3]
        assert list(system.failures) == []


def test_what_waits_to_be_delivered_survives_snapshots_and_a_restart() -> None:
    journal = MemoryJournal()
    with ActorSystem(journal, actors=[CHECKING]) as system:
        pay(system, *(Payment("savings/bob", cents) for cents in range(1, 601)), funds=1_000_000)
        until(lambda: list(journal.cells.scan(b"snapshot")) != [])

    with ActorSystem(journal, actors=[CHECKING, SAVINGS]):
        settled(journal)
    assert deposits(journal, "savings/bob") == list(range(1, 601))


def test_a_message_is_sent_with_what_else_became_true_or_not_at_all() -> None:
    with ActorSystem("memory:", actors=[CHECKING, SAVINGS]) as system:
        pay(system, Payment("savings/bob", 5))
        settled(system.journal)

        paid = [event for event in system.journal.read("checking/ann") if event.cause == "pay:p1"]

        assert [type(CHECKING.catalog.decode(event)).__name__ for event in paid] == ["Withdrawn", "MessageSent"]
        message = CHECKING.catalog.decode(paid[1])
        assert isinstance(message, MessageSent)
        assert (message.id, message.to, bytes(message.payload)) == ("pay:p1:0", "savings/bob", b'{"cents":5}')


def test_a_declaration_of_commands_is_checked_where_it_is_made() -> None:
    with pytest.raises(TypeError, match=r"checking: the command 'deposit' is a msgspec.Struct"):
        account_kind(commands={"deposit": dict})
    with pytest.raises(ValueError, match="checking: '' names no command"):
        account_kind(commands={"": Deposit})
