"""The mark that a stream may have open work."""

from __future__ import annotations

from ..codec import chain
from ..event import GENESIS

__all__ = ["open_mark"]


def open_mark(stream: str) -> bytes:
    """Return the cell that says an actor has open work, so that the next start looks at it."""
    name = stream.encode()
    # A long name is marked by its digest; the value carries the name.
    return b"open/" + (chain(GENESIS, name) if name[400:] else name)
