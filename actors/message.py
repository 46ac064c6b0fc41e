"""A command on its way to an actor."""

from __future__ import annotations

from typing import Any

import msgspec

from .reply import Reply

__all__ = ["AlarmDue", "Message"]


class Message(msgspec.Struct, gc=False):
    """A command with its id, the effect that sent it (None: from outside), and where its answer goes (None: nowhere).

    What pykka itself sends comes in pykka's own envelopes.
    """

    command: object
    command_id: str
    performer: str | None
    reply: Reply[Any] | None


class AlarmDue(msgspec.Struct, frozen=True, gc=False):
    """In place of a command: the actor's alarm, which fires at `at`, in nanoseconds since the epoch, UTC."""

    at: int
