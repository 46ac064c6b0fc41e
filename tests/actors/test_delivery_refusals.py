"""What can never be taken is refused once, with what and where, and the sender learns of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from clew.actors import ActorSystem, CommandRejected
from clew.actors.delivery import TEXT_LENGTH_MAX
from clew.journal import MemoryJournal, NewEvent
from tests.actors.transfers import (
    CHECKING,
    SAVINGS,
    Account,
    Command,
    Deposit,
    Entry,
    Payment,
    pay,
    refusals,
    savings_kind,
    settled,
)

BOB = "savings/bob"
TO_BOB = Payment(BOB, 5)


def test_a_deleted_receiver_refuses() -> None:
    journal = MemoryJournal()
    journal.append(BOB, [NewEvent(b'{"event":"transfer.deposited","version":1,"data":{"cents":1}}')], expected=0)
    journal.delete(BOB, expected=1)
    with ActorSystem(journal, actors=[CHECKING, SAVINGS]) as system:
        pay(system, TO_BOB)

        settled(journal)

        assert list(system.failures) == []
    [refused] = refusals(journal)
    assert refused is not None
    assert refused.type == "StreamDeleted"


@pytest.mark.parametrize(
    "address", ["", "savings", "savings/", "/bob", "Savings/bob", "savings/b\nob", "savings/" + "x" * 2048]
)
def test_an_address_that_is_none_refuses(address: str) -> None:
    journal = MemoryJournal()
    with ActorSystem(journal, actors=[CHECKING, SAVINGS]) as system:
        pay(system, Payment(address, 5))

        settled(journal)

        assert list(system.failures) == []
    [refused] = refusals(journal)
    assert refused is not None
    assert refused.type == "InvalidName"


class Misread(msgspec.Struct, frozen=True):
    """A deposit as somebody else thinks of it."""

    cents: str


@pytest.mark.parametrize(
    ("command", "commands", "reason"),
    [
        ("withdraw", {"deposit": Deposit}, "'withdraw' is no command: savings takes deposit."),
        ("deposit", {}, "'deposit' is no command: savings takes none."),
        ("deposit", {"deposit": Misread}, "'deposit' is no command: Expected `str`, got `int` - at `$.cents`."),
    ],
)
def test_a_message_that_is_no_command_is_refused_with_what_and_where(
    command: str, commands: dict[str, type[Any]], reason: str
) -> None:
    journal = MemoryJournal()
    with ActorSystem(journal, actors=[CHECKING, savings_kind(commands=commands)]) as system:
        pay(system, TO_BOB, command=command)

        settled(journal)

    [refused] = refusals(journal)
    assert refused is not None
    assert refused.type == "InvalidMessage"
    assert refused.message.startswith(f"{BOB}: the message {reason}")
    assert journal.head(BOB).sequence == 0


def test_a_refusal_whose_text_is_no_text_is_recorded_all_the_same() -> None:
    def decide(account: Account, command: Command) -> Sequence[Entry]:
        raise CommandRejected("half of a pair: \ud800" + "x" * 1_000_000)

    journal = MemoryJournal()
    with ActorSystem(journal, actors=[CHECKING, savings_kind(decide)]) as system:
        pay(system, TO_BOB)

        settled(journal)

    [refused] = refusals(journal)
    assert refused is not None
    assert refused.message.startswith("half of a pair: ?xx")
    assert len(refused.message) == TEXT_LENGTH_MAX
