"""What is in the databases of a journal, as seen by one reading or writing transaction.

`log` holds the commits that are not sealed yet, by the position of their first event, and `names` by the same position
the numbers and names of the streams that begin there. What is sealed lies by stream: `segments` by a stream's number
and the last sequence in them, `streams` what a stream is by its name, `numbers` the name by its number, `order` which
event stands at which position. `chunks` are the parts of large events by their digest, `cells` the cells, `meta` what
the journal says of itself.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

import lmdb

__all__ = [
    "DATABASES",
    "EPOCH",
    "EPOCHS",
    "MARK",
    "NUMBER_KEY",
    "POSITION_KEY",
    "REMOVED",
    "REMOVED_COUNTS",
    "SEALED",
    "SEGMENT_KEY",
    "Database",
    "Databases",
    "counted",
    "marked",
    "name_in",
    "named",
    "position_of",
    "segment_of",
]

Database = lmdb._Database  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  (the stubs have no other name for it)

DATABASES: Final = (b"log", b"names", b"cells", b"meta", b"streams", b"numbers", b"segments", b"order", b"chunks")

_FIRST_LAYOUT: Final = 4
"""How many of them the first layout had."""

SEALED: Final = b"sealed"
EPOCH: Final = b"epoch"
EPOCHS: Final = 2**63
REMOVED: Final = b"removed"

_checksum = Struct("<I")
MARK = Struct(">QI")  # the position, and its checksum
REMOVED_COUNTS = Struct(">qqI")  # streams that are deleted, all events that ever were, and a checksum

POSITION_KEY = Struct(">Q")
NUMBER_KEY = Struct(">I")
SEGMENT_KEY = Struct(">IQ")


class Databases(NamedTuple):
    """Handles of the named databases; a journal of the first layout, which is only read, has but four of them."""

    log: Database
    names: Database
    cells: Database
    meta: Database
    streams: Database
    numbers: Database
    segments: Database
    order: Database
    chunks: Database

    @classmethod
    def of(cls, env: lmdb.Environment, *, create: bool = False) -> Databases:
        """Open them in `env`."""
        found = [env.open_db(name, create=create) for name in DATABASES[:_FIRST_LAYOUT]]
        for name in DATABASES[_FIRST_LAYOUT:]:
            try:
                found.append(env.open_db(name, create=create))
            except lmdb.NotFoundError:
                # Of the first layout, where nothing is sealed: see `FirstLayoutReader`.
                found.append(found[0])
        return cls(*found)


def named(number: int, name: bytes) -> bytes:
    """Return what is stored for the name of a stream: it, behind a checksum of both."""
    return _checksum.pack(crc32(NUMBER_KEY.pack(number) + name)) + name


def name_in(number: int, value: bytes) -> str:
    """Return the name that is stored for a number; "" where it does not match its checksum."""
    name = value[_checksum.size :]
    return name.decode() if named(number, name) == value else ""


def marked(position: int) -> bytes:
    """Return a position with its checksum."""
    return MARK.pack(position, crc32(POSITION_KEY.pack(position)))


def counted(streams: int, events: int) -> bytes:
    """Return counts of what was deleted, with their checksum."""
    streams, events = (max(-EPOCHS, min(count, EPOCHS - 1)) for count in (streams, events))
    return REMOVED_COUNTS.pack(streams, events, crc32(f"{streams} {events}".encode()))


def position_of(key: memoryview) -> int:
    """Return the position that a key stands for."""
    position: int = POSITION_KEY.unpack(key)[0]
    return position


def segment_of(key: memoryview) -> tuple[int, int]:
    """Return the stream (by number) and the last sequence that a key stands for."""
    number, last = SEGMENT_KEY.unpack(key)
    return number, last
