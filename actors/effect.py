"""Effects as values: what is to be done once it is true."""

from __future__ import annotations

import msgspec

__all__ = ["Effect"]


class Effect(msgspec.Struct, frozen=True):
    """One piece of open work: `work`, known by `key` within its actor.

    It is open as long as `effects(state)` returns it. The host starts it once, after the events that made it so are
    durable, and again after a crash or a passivation if it is still open then. Its result comes back as a command.
    """

    key: str
    work: object = None
