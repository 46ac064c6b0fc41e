"""What the torture tells the process that it kills, and what it hears from it."""

from __future__ import annotations

from hashlib import sha256

import msgspec

__all__ = ["Acknowledged", "Orders", "cell_of"]


class Orders(msgspec.Struct, frozen=True):
    """What the process is to do: where, with which dice, how many writers, sealed how soon, compacted or not."""

    path: str
    seed: int
    writers: int
    seal_after: int
    compact: bool
    relaxed: bool


class Acknowledged(msgspec.Struct, frozen=True, array_like=True):
    """A line: what is about to happen (`deletes`, `begins`), or is durable (`deleted`, `appended`), and its end."""

    what: str
    stream: str
    sequence: int
    digest: str = ""


def cell_of(stream: str) -> bytes:
    """Return the cell that is written with every append to a stream: its last sequence."""
    return b"torture/" + sha256(stream.encode()).digest()
