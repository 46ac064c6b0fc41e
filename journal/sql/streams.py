"""Where streams end: as they are durable in the tables, and as they are assigned while appends are under way."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from ..errors import InvalidName
from ..event import GENESIS, Head, check_stream
from .execute import Reading, Row
from .statements import HEAD, HEADS

__all__ = ["GONE", "START", "End", "Found", "Stream", "find", "heads", "names_of"]


class End(msgspec.Struct, frozen=True, gc=False):
    """Where a stream ends: what the next event continues."""

    sequence: int
    digest: bytes
    recorded_at: int
    deleted: bool = False


START: Final = End(0, GENESIS, 0)
GONE: Final = End(-1, GENESIS, 0)
"""The assigned end of a stream that was forgotten: nobody can have expected it."""


class Stream:
    """A stream that is being appended to; `number` is its row's, 0 before there is one."""

    __slots__ = ("assigned", "durable", "name", "number")

    def __init__(self, name: str, number: int, end: End) -> None:
        self.name = name
        self.number = number
        self.durable = end
        self.assigned = end


class Found(NamedTuple):
    """A stream in the tables."""

    name: str
    number: int
    end: End

    @property
    def head(self) -> Head:
        """Its durable end."""
        return Head(self.name, self.end.sequence, self.end.digest, self.end.deleted)


def find(database: Reading, name: str) -> Found | None:
    """Return a stream as it is in the tables, or None when it is not there."""
    try:
        check_stream(name)
    except InvalidName:
        return None
    rows = database.execute(HEAD, name)
    return _found(rows[0]) if rows else None


def heads(database: Reading, category: str | None) -> list[Found]:
    """Return all streams of a category in the order of their names; of every one, with None."""
    return [_found(row) for row in database.execute(HEADS, *names_of(category))]


def names_of(category: str | None) -> tuple[str, str]:
    """Return between which names the streams of a category lie; the second is not one of them."""
    # "0" comes behind "/", and all names begin with a small letter.
    return (f"{category}/", f"{category}0") if category is not None else ("", "~")


def _found(row: Row) -> Found:
    name, number, deleted_sequence, deleted_digest, sequence, digest, recorded_at = row
    if deleted_sequence is not None:
        return Found(name, number, End(deleted_sequence, deleted_digest, 0, deleted=True))
    return Found(name, number, START if sequence is None else End(sequence, digest, int(recorded_at)))
