"""What an agent has to say to other actors: commands of their kinds, as they are stored on their way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from ...journal import stream_name
from ..decider import EventSourcedActor
from ..errors import NoMemory, UnknownKind
from ..outbox import Outgoing, message_of

__all__ = ["memory_of", "message_to"]

MEMORY: Final = "memory"
REMEMBER: Final = "remember"


def message_to(kind: EventSourcedActor[Any, Any, Any, Any], id: str, command: msgspec.Struct) -> Outgoing:  # noqa: A002  (the field's word)
    """Return a command to an actor of a kind, as a message.

    Raises:
        TypeError: the kind does not say under which name others know this command (`EventSourcedActor.commands`).
        InvalidName: the id is empty, too long or not printable.
    """
    name = next((name for name, type_ in kind.commands.items() if type_ is type(command)), None)
    if name is None:
        raise TypeError(f"{kind.category} takes no {type(command).__name__} from others: name it in its `commands`")
    return message_of(stream_name(kind.category, id), name, command)


def memory_of(
    owner: str | None, fields: dict[str, Any], kind_of: Callable[[str], EventSourcedActor[Any, Any, Any, Any]]
) -> Outgoing:
    """Return the command `remember` with these fields to the memory of an owner.

    Raises:
        NoMemory: there is no owner, or no kind of actor here that remembers.
        InvalidMessage: the kind's command has other fields; says which.
    """
    if owner is None:
        raise NoMemory(owner=None, reason="a thread without an owner has nobody to remember for. Give it an owner.")
    stream = stream_name(MEMORY, owner)
    try:
        kind = kind_of(stream)
    except UnknownKind as error:
        reason = f"no actors of the category {MEMORY!r} are here. Give their kind to ActorSystem."
        raise NoMemory(owner=owner, reason=reason) from error
    if REMEMBER not in kind.commands:
        reason = f"the kind {MEMORY!r} takes no {REMEMBER!r} from others. Name it in its `commands`."
        raise NoMemory(owner=owner, reason=reason)
    payload = msgspec.Raw(msgspec.json.encode(fields))
    kind.command(stream, REMEMBER, payload)
    return Outgoing(stream, REMEMBER, payload)
