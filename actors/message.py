"""A command on its way to an actor."""

from __future__ import annotations

from typing import Any

import msgspec

from .reply import Reply

__all__ = ["Message"]


class Message(msgspec.Struct, gc=False):
    """A command with its id, the effect that sent it (None: from outside), and where its answer goes (None: nowhere).

    What pykka itself sends comes in pykka's own envelopes.
    """

    command: object
    command_id: str
    performer: str | None
    reply: Reply[Any] | None
