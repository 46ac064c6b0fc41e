"""Purses that pay each other: actors whose money must not become more or less."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ...journal import event
from ...journal.facts import MessageDelivered, MessageSent
from ..decider import Decider, EventSourcedActor
from ..effect import Effect
from ..errors import CommandRejected
from ..outbox import Acknowledge, Outbox, acknowledge, deliveries, evolve_outbox, message_of, sent

__all__ = ["PURSE", "Fill", "Filled", "Pay", "Purse", "PurseCommand"]


@event("purse.filled", version=1)
class Filled(msgspec.Struct, frozen=True):
    """Money came in."""

    cents: int


@event("purse.paid", version=1)
class Paid(msgspec.Struct, frozen=True):
    """Money went out, on its way to another purse."""

    to: str
    cents: int


class Fill(msgspec.Struct, frozen=True):
    """Put money in."""

    cents: int


class Pay(msgspec.Struct, frozen=True):
    """Send money to another purse; `id` is unique within this one."""

    id: str
    to: str
    cents: int
    at: int


class Purse(msgspec.Struct, frozen=True):
    """What is in it, and what is on its way out."""

    cents: int = 0
    outbox: Outbox = Outbox()


PurseCommand = Fill | Pay | Acknowledge
PurseEvent = Filled | Paid | MessageSent | MessageDelivered


def _decide(purse: Purse, command: PurseCommand) -> Sequence[PurseEvent]:
    match command:
        case Fill():
            return (Filled(command.cents),)
        case Pay() if command.cents > purse.cents:
            raise CommandRejected(f"{command.cents} cents are to be paid and {purse.cents} are there")
        case Pay():
            message = message_of(f"purse/{command.to}", "fill", Fill(command.cents))
            return (Paid(command.to, command.cents), *sent(f"pay:{command.id}", [message], command.at))
        case Acknowledge():
            return acknowledge(purse.outbox, command)


def _evolve(purse: Purse, event: PurseEvent) -> Purse:
    match event:
        case Filled():
            return replace(purse, cents=purse.cents + event.cents)
        case Paid():
            return replace(purse, cents=purse.cents - event.cents)
        case MessageSent() | MessageDelivered():
            return replace(purse, outbox=evolve_outbox(purse.outbox, event))


def _effects(purse: Purse) -> tuple[Effect, ...]:
    return deliveries(purse.outbox)


def _cents(purse: Purse, _: Sequence[PurseEvent]) -> int:
    return purse.cents


PURSE = EventSourcedActor[Purse, PurseCommand, PurseEvent, int](
    category="purse",
    decider=Decider(initial=Purse(), decide=_decide, evolve=_evolve, answer=_cents, effects=_effects),
    events=(Filled, Paid, MessageSent, MessageDelivered),
    commands={"fill": Fill},
    state_type=Purse,
)
"""The kind of a purse; it answers with the cents that are in it."""
