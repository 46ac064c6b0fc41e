"""The outbox of an actor: commands to others, sent as facts with whatever else became true, and delivered afterwards.

It is a fold of what was sent and not yet delivered. A message is delivered at least once, under a command id that the
receiver remembers, so it is applied once; messages to the same receiver are delivered in order, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..journal.facts import ErrorFact, MessageDelivered, MessageSent
from .effect import Effect

__all__ = [
    "Acknowledge",
    "Deliver",
    "Outbox",
    "Outgoing",
    "acknowledge",
    "deliveries",
    "evolve_outbox",
    "message_of",
    "sent",
    "sent_one",
]


class Outgoing(msgspec.Struct, frozen=True):
    """A command on its way: to which stream, under which name its kind knows it, and its fields as JSON."""

    to: str
    command: str
    payload: msgspec.Raw


class Outbox(msgspec.Struct, frozen=True):
    """What was sent and not yet delivered, in order, by the id of the message."""

    waiting: dict[str, Outgoing] = {}


class Deliver(msgspec.Struct, frozen=True):
    """The work of an effect: deliver this message, and acknowledge it."""

    id: str
    message: Outgoing


class Acknowledge(msgspec.Struct, frozen=True):
    """A command to the sender: the receiver took a message, or refused it with an error."""

    id: str
    refused: ErrorFact | None
    at: int


def message_of(to: str, command: str, fields: msgspec.Struct) -> Outgoing:
    """Return a command as a message."""
    return Outgoing(to, command, msgspec.Raw(msgspec.json.encode(fields)))


def sent(prefix: str, messages: Iterable[Outgoing], at: int) -> tuple[MessageSent, ...]:
    """Return the facts of messages sent together; `prefix` is unique within the stream."""
    return tuple(
        MessageSent(f"{prefix}:{number}", message.to, message.command, message.payload, at)
        for number, message in enumerate(messages)
    )


def sent_one(id_: str, message: Outgoing, at: int) -> MessageSent:
    """Return the fact of one message; an id without a number at its end is none of those that `sent` gives."""
    return MessageSent(id_, message.to, message.command, message.payload, at)


def acknowledge(outbox: Outbox, command: Acknowledge) -> Sequence[MessageDelivered]:
    """Decide an acknowledgement; one that came before changes nothing."""
    return (MessageDelivered(command.id, command.refused, command.at),) if command.id in outbox.waiting else ()


def evolve_outbox(outbox: Outbox, event: MessageSent | MessageDelivered) -> Outbox:
    """Return the outbox after a fact."""
    waiting = dict(outbox.waiting)
    if isinstance(event, MessageSent):
        waiting[event.id] = Outgoing(event.to, event.command, event.payload)
    else:
        waiting.pop(event.id, None)
    return Outbox(waiting)


def deliveries(outbox: Outbox) -> tuple[Effect, ...]:
    """Return the open work: the oldest message to each receiver."""
    heads: dict[str, Effect] = {}
    for id_, message in outbox.waiting.items():
        if message.to not in heads:
            heads[message.to] = Effect(f"send:{id_}", Deliver(id_, message))
    return tuple(heads.values())
