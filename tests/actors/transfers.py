"""Accounts that pay each other: an example of actors that send messages, and of what a sender does about a refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from clew.actors import ActorRef, ActorSystem, CommandRejected, Decider, Effect, EventSourcedActor
from clew.actors.outbox import Acknowledge, Outbox, acknowledge, deliveries, evolve_outbox, message_of, sent
from clew.journal import Journal, event
from clew.journal.facts import ErrorFact, MessageDelivered, MessageSent
from tests.actors.support import WAIT_S, marked, until

SAVINGS_MAX = 1_000_000
"""Cents that a savings account takes."""


@event("transfer.deposited", version=1)
class Deposited(msgspec.Struct, frozen=True):
    """Money came in."""

    cents: int


@event("transfer.withdrawn", version=1)
class Withdrawn(msgspec.Struct, frozen=True):
    """Money is on its way to somebody else."""

    cents: int


@event("transfer.returned", version=1)
class Returned(msgspec.Struct, frozen=True):
    """Whoever was to get it did not take it."""

    message: str
    cents: int


class Deposit(msgspec.Struct, frozen=True):
    """Put money in."""

    cents: int


class Payment(msgspec.Struct, frozen=True):
    """So much for one receiver."""

    to: str
    cents: int


class Pay(msgspec.Struct, frozen=True):
    """Send money to others; `id` is unique within the account."""

    id: str
    payments: list[Payment]
    at: int = 0
    command: str = "deposit"


class Balance(msgspec.Struct, frozen=True):
    """Change nothing."""


class Account(msgspec.Struct, frozen=True):
    """What is there, what is on its way, and the messages that carry it."""

    cents: int = 0
    under_way: dict[str, int] = {}
    outbox: Outbox = Outbox()


Command = Deposit | Pay | Balance | Acknowledge
Entry = Deposited | Withdrawn | Returned | MessageSent | MessageDelivered
Decide = Callable[["Account", Command], Sequence[Entry]]
AccountKind = EventSourcedActor[Account, Command, Entry, int]


def _decide(account: Account, command: Command) -> Sequence[Entry]:
    match command:
        case Deposit():
            if command.cents <= 0:
                raise CommandRejected(f"{command.cents} cents are no deposit")
            return (Deposited(command.cents),)
        case Pay():
            total = sum(payment.cents for payment in command.payments)
            if total > account.cents:
                raise CommandRejected(f"{total} cents are to be paid and {account.cents} are there")
            messages = [message_of(one.to, command.command, Deposit(one.cents)) for one in command.payments]
            paid = [Withdrawn(payment.cents) for payment in command.payments]
            return (*paid, *sent(f"pay:{command.id}", messages, command.at))
        case Acknowledge():
            delivered = acknowledge(account.outbox, command)
            if delivered and command.refused is not None:
                return (*delivered, Returned(command.id, account.under_way[command.id]))
            return delivered
        case Balance():
            return ()


def _evolve(account: Account, event: Entry) -> Account:
    match event:
        case Deposited() | Returned():
            return replace(account, cents=account.cents + event.cents)
        case Withdrawn():
            return replace(account, cents=account.cents - event.cents)
        case MessageSent():
            under_way = {**account.under_way, event.id: msgspec.json.decode(event.payload, type=Deposit).cents}
        case MessageDelivered():
            under_way = {id_: cents for id_, cents in account.under_way.items() if id_ != event.id}
    return replace(account, under_way=under_way, outbox=evolve_outbox(account.outbox, event))


def _effects(account: Account) -> tuple[Effect, ...]:
    return deliveries(account.outbox)


def _answer(account: Account, _: Sequence[Entry]) -> int:
    return account.cents


def account_kind(
    category: str = "checking",
    decide: Decide = _decide,
    *,
    commands: dict[str, type[Any]] | None = None,
    **options: Any,
) -> AccountKind:
    """A kind whose actors pay, and take what they are paid; they answer with what is there."""
    return EventSourcedActor(
        category=category,
        decider=Decider(initial=Account(), decide=decide, evolve=_evolve, answer=_answer, effects=_effects),
        events=(Deposited, Withdrawn, Returned, MessageSent, MessageDelivered),
        commands={"deposit": Deposit} if commands is None else commands,
        state_type=Account,
        **options,
    )


def decide_savings(account: Account, command: Command) -> Sequence[Entry]:
    """Take deposits up to a limit."""
    if isinstance(command, Deposit) and account.cents + command.cents > SAVINGS_MAX:
        raise CommandRejected(f"savings are {SAVINGS_MAX} cents at the most")
    return _decide(account, command)


def savings_kind(decide: Decide = decide_savings, **options: Any) -> AccountKind:
    """A kind whose actors take deposits, up to a limit."""
    return account_kind("savings", decide, **options)


def entries(journal: Journal, stream: str) -> list[Entry]:
    """Return the facts of an account; both kinds have the same catalog."""
    return [cast("Entry", CHECKING.catalog.decode(recorded)) for recorded in journal.read(stream)]


def deposits(journal: Journal, stream: str) -> list[int]:
    """Return what came in, in order."""
    return [entry.cents for entry in entries(journal, stream) if isinstance(entry, Deposited)]


def refusals(journal: Journal, stream: str = "checking/ann") -> list[ErrorFact | None]:
    """Return what the receivers of an account's messages said, in order: why they refused, or nothing."""
    return [fact.refused for fact in entries(journal, stream) if isinstance(fact, MessageDelivered)]


def pay(system: ActorSystem, *payments: Payment, id_: str = "p1", funds: int = 1000, command: str = "deposit") -> None:
    """Put money into ann's account and pay with it."""
    ann = ActorRef[Command, int](system, "checking/ann")
    ann.ask(Deposit(funds), command_id=f"funds:{id_}").get(timeout=WAIT_S)
    ann.ask(Pay(id_, list(payments), command=command), command_id=f"pay:{id_}").get(timeout=WAIT_S)


def settled(journal: Journal, stream: str = "checking/ann") -> None:
    """Wait until nothing that an account sent is under way."""
    until(lambda: not marked(journal, stream))


CHECKING = account_kind()
SAVINGS = savings_kind()
