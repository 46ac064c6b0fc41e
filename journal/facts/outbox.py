"""What an actor has to say to others: sent as a fact, delivered at least once, applied once.

Names, versions and fields are stored for ever. Times are nanoseconds since the epoch, UTC.
"""

from __future__ import annotations

import msgspec

from ..event import event
from .error import ErrorFact

__all__ = ["OUTBOX_EVENTS", "MessageDelivered", "MessageSent", "OutboxEvent"]


@event("message.sent", version=1)
class MessageSent(msgspec.Struct, frozen=True):
    """A command for another actor: `to` is its stream, `command` the name its kind knows it by.

    `id` is unique within the sending stream; `STREAM#id` is the command's id at the receiver.
    """

    id: str
    to: str
    command: str
    payload: msgspec.Raw
    at: int


@event("message.delivered", version=1)
class MessageDelivered(msgspec.Struct, frozen=True):
    """The receiver took a message and will not be sent it again, or refused it with an error."""

    id: str
    refused: ErrorFact | None
    at: int


OutboxEvent = MessageSent | MessageDelivered

OUTBOX_EVENTS = (MessageSent, MessageDelivered)
