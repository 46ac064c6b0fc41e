"""What is in the databases of a journal, as seen by one reading or writing transaction.

`log` holds the commits that are not sealed yet, by the position of their first event, and `names` by the same position
the numbers and names of the streams that begin there. What is sealed lies by stream: `segments` by a stream's number
and the last sequence in them, `streams` what a stream is by its name, `numbers` the name by its number, `order` which
event stands at which position. `chunks` are the parts of large events by their digest, `cells` the cells, `meta` what
the journal says of itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

import lmdb

__all__ = ["DATABASES", "Database", "Databases", "FirstLayoutReader", "Reader", "Transaction"]

Database = lmdb._Database  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  (the stubs have no other name for it)

DATABASES: Final = (b"log", b"names", b"cells", b"meta", b"streams", b"numbers", b"segments", b"order", b"chunks")

_FIRST_LAYOUT: Final = 4
"""How many of them the first layout had."""

_SEALED: Final = b"sealed"
_EPOCH: Final = b"epoch"
_EPOCHS: Final = 2**63
_REMOVED: Final = b"removed"

_checksum = Struct("<I")
_mark = Struct(">QI")  # the position, and its checksum
_removed = Struct(">qqI")  # streams that are deleted, all events that ever were, and a checksum

_position_key = Struct(">Q")
_number_key = Struct(">I")
_segment_key = Struct(">IQ")


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


class Reader:
    """A reading transaction. Its views of values are gone when it ends: copy what is to stay."""

    __slots__ = ("_databases", "_txn")

    def __init__(self, txn: lmdb.Transaction[memoryview], databases: Databases) -> None:
        self._txn = txn
        self._databases = databases

    def last(self) -> int:
        """Return the position of the first event of the last commit in the log; 0 when there is none."""
        cursor = self._txn.cursor(self._databases.log)
        return _position(cursor.key()) if cursor.last() else 0

    def sealed(self) -> int:
        """Return the position up to which events lie in segments, and no longer in the log."""
        found = self._txn.get(_SEALED, db=self._databases.meta)
        if found is None:
            return 0
        if self.sealed_is_known():
            return _mark.unpack(found)[0]
        # Whoever asks `sealed_is_known` says so. To read on, the log says where it begins.
        cursor = self._txn.cursor(self._databases.log)
        return _position(cursor.key()) - 1 if cursor.first() else 0

    def sealed_is_known(self) -> bool:
        """Whether the mark of what is sealed matches its checksum."""
        found = self._txn.get(_SEALED, db=self._databases.meta)
        return found is None or (len(found) == _mark.size and bytes(found) == _marked(_mark.unpack(found)[0]))

    def epoch(self) -> int:
        """Return a number that changes when something was moved or deleted that was there before."""
        found = self._txn.get(_EPOCH, db=self._databases.meta)
        return 0 if found is None else _mark.unpack(found)[0]

    def marks_are_known(self) -> bool:
        """Whether the marks that only matter to readers and to statistics match their checksums."""
        epoch = self._txn.get(_EPOCH, db=self._databases.meta)
        removed = self._txn.get(_REMOVED, db=self._databases.meta)
        return (epoch is None or bytes(epoch) == _marked(_mark.unpack(epoch)[0])) and (
            removed is None or bytes(removed) == _counted(*_removed.unpack(removed)[:2])
        )

    def counts(self) -> tuple[int, int]:
        """Return how many streams are recorded and not deleted, and how many events were deleted."""
        found = self._txn.get(_REMOVED, db=self._databases.meta)
        streams, events = (0, 0) if found is None else _removed.unpack(found)[:2]
        return self._txn.stat(self._databases.streams)["entries"] - streams, events

    def meta(self, key: bytes) -> bytes | None:
        """Return what the journal says of itself under `key`."""
        found = self._txn.get(key, db=self._databases.meta)
        return None if found is None else bytes(found)

    def dictionaries(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the dictionaries of the compression that are kept, with their keys."""
        cursor = self._txn.cursor(self._databases.meta)
        if cursor.set_range(b"dictionary/"):
            for key, value in cursor:
                if not bytes(key).startswith(b"dictionary/"):
                    return
                yield bytes(key), bytes(value)

    def commit(self, first: int) -> memoryview | None:
        """Return the log value whose first event is at the position `first`."""
        return self._txn.get(_position_key.pack(first), db=self._databases.log)

    def commits(self, first: int, *, within: bool = False) -> Iterator[tuple[int, memoryview]]:
        """Yield the log values from the one that begins at `first` or behind it; or that `first` lies `within`."""
        cursor = self._txn.cursor(self._databases.log)
        if _seek(cursor, first, within=within):
            for key, value in cursor:
                yield _position(key), value

    def names(self, first: int) -> Iterator[tuple[int, memoryview]]:
        """Yield the names of the streams that begin at the position `first` or behind it, commit by commit."""
        cursor = self._txn.cursor(self._databases.names)
        if _seek(cursor, first, within=False):
            for key, value in cursor:
                yield _position(key), value

    def stream(self, key: bytes) -> bytes | None:
        """Return the record of a stream."""
        found = self._txn.get(key, db=self._databases.streams)
        return None if found is None else bytes(found)

    def streams(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the records of streams from the key `start` on."""
        cursor = self._txn.cursor(self._databases.streams)
        if cursor.set_range(start) if start else cursor.first():
            for key, value in cursor:
                yield bytes(key), bytes(value)

    def name(self, number: int) -> str | None:
        """Return the name of the stream with that number, once it is recorded; "" where that is damaged."""
        found = self._txn.get(_number_key.pack(number), db=self._databases.numbers)
        return None if found is None else _name(number, bytes(found))

    def all_names(self) -> Iterator[tuple[int, str]]:
        """Yield the numbers and names of recorded streams; "" where a name is damaged."""
        for key, value in self._txn.cursor(self._databases.numbers):
            number = _number_key.unpack(key)[0]
            yield number, _name(number, bytes(value))

    def last_number(self) -> int:
        """Return the highest number of a recorded stream."""
        cursor = self._txn.cursor(self._databases.numbers)
        return _number_key.unpack(cursor.key())[0] if cursor.last() else 0

    def segment(self, number: int, sequence: int) -> tuple[int, memoryview] | None:
        """Return the segment that holds `sequence`, or begins behind it, with the last sequence in it."""
        cursor = self._txn.cursor(self._databases.segments)
        if not cursor.set_range(_segment_key.pack(number, sequence)):
            return None
        found, last = _segment(cursor.key())
        return (last, cursor.value()) if found == number else None

    def last_segment(self, number: int) -> tuple[int, memoryview] | None:
        """Return the last segment of a stream, with the last sequence in it."""
        cursor = self._txn.cursor(self._databases.segments)
        if not (cursor.prev() if cursor.set_range(_segment_key.pack(number + 1, 0)) else cursor.last()):
            return None
        found, last = _segment(cursor.key())
        return (last, cursor.value()) if found == number else None

    def segments(self, number: int, sequence: int) -> Iterator[tuple[int, int, memoryview]]:
        """Yield segments of all streams in order, from that of `number` which holds `sequence` on."""
        cursor = self._txn.cursor(self._databases.segments)
        if cursor.set_range(_segment_key.pack(number, sequence)):
            for key, value in cursor:
                yield (*_segment(key), value)

    def order(self, position: int, *, within: bool = True) -> Iterator[tuple[int, memoryview]]:
        """Yield the blocks of the order of events, from the one that `position` lies `within`; or that begins there."""
        cursor = self._txn.cursor(self._databases.order)
        if _seek(cursor, position, within=within):
            for key, value in cursor:
                yield _position(key), value

    def chunk(self, digest: bytes) -> bytes | None:
        """Return a part of a large event."""
        found = self._txn.get(digest, db=self._databases.chunks)
        return None if found is None else bytes(found)

    def chunks(self, after: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """Yield the parts of large events beyond the digest `after`."""
        cursor = self._txn.cursor(self._databases.chunks)
        if cursor.set_range(after) if after else cursor.first():
            for key, value in cursor:
                if (digest := bytes(key)) != after:
                    yield digest, value

    def cell(self, key: bytes) -> bytes | None:
        """Return the value of a cell."""
        found = self._txn.get(key, db=self._databases.cells)
        return None if found is None else bytes(found)

    def cells(self, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the cells whose keys begin with `prefix`, beyond the key `after`."""
        cursor = self._txn.cursor(self._databases.cells)
        start = max(prefix, after)
        if not (cursor.set_range(start) if start else cursor.first()):
            return
        for view, value in cursor:
            key = bytes(view)
            if not key.startswith(prefix):
                return
            if key != after:
                yield key, bytes(value)

    def pages(self) -> dict[str, int]:
        """Return how many pages each database takes."""
        counts: dict[str, int] = {}
        for name, database in zip(DATABASES, self._databases, strict=True):
            stat = self._txn.stat(database)
            counts[name.decode()] = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return counts


class FirstLayoutReader(Reader):
    """A reading transaction in a journal of the first layout, which has its log and nothing that is sealed."""

    __slots__ = ()

    def sealed(self) -> int:
        """Nothing is sealed."""
        return 0

    def counts(self) -> tuple[int, int]:
        """Nothing is recorded, nothing is deleted."""
        return 0, 0

    def sealed_is_known(self) -> bool:
        """Nothing is sealed."""
        return True

    def epoch(self) -> int:
        """Nothing is ever moved."""
        return 0

    def stream(self, key: bytes) -> bytes | None:
        """There are no records."""

    def streams(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """There are no records."""
        return iter(())

    def name(self, number: int) -> str | None:
        """All names are in `names`."""

    def all_names(self) -> Iterator[tuple[int, str]]:
        """All names are in `names`."""
        return iter(())

    def last_number(self) -> int:
        """All numbers are in `names`."""
        return 0

    def segment(self, number: int, sequence: int) -> tuple[int, memoryview] | None:
        """There are no segments."""

    def last_segment(self, number: int) -> tuple[int, memoryview] | None:
        """There are no segments."""

    def segments(self, number: int, sequence: int) -> Iterator[tuple[int, int, memoryview]]:
        """There are no segments."""
        return iter(())

    def order(self, position: int, *, within: bool = True) -> Iterator[tuple[int, memoryview]]:
        """The order is that of the log."""
        return iter(())

    def chunk(self, digest: bytes) -> bytes | None:
        """There are no chunks."""

    def chunks(self, after: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """There are no chunks."""
        return iter(())


class Transaction:
    """The writing transaction."""

    __slots__ = ("_databases", "_txn")

    def __init__(self, txn: lmdb.Transaction[bytes], databases: Databases) -> None:
        self._txn = txn
        self._databases = databases

    def append(self, first: int, value: bytes, names: bytes | None) -> None:
        """Put a commit at the end of the log, with the names of its new streams; its first event is at `first`."""
        key = _position_key.pack(first)
        added = self._txn.put(key, value, append=True, overwrite=False, db=self._databases.log)
        if not added:
            raise AssertionError(f"position {first} is not the end of the log: two writers, which the lock excludes")
        if names is not None:
            self._txn.put(key, names, append=True, db=self._databases.names)

    def drop(self, until: int) -> None:
        """Take the commits that lie wholly up to the position `until` out of the log, and say that they are sealed."""
        for database in (self._databases.log, self._databases.names):
            cursor = self._txn.cursor(database)
            # To delete the entry under a cursor moves it to the next one, or to an empty key behind the last.
            cursor.first()
            while (key := cursor.key()) and _position_key.unpack(key)[0] <= until:
                cursor.delete()
        self._txn.put(_SEALED, _marked(until), db=self._databases.meta)
        self.begin_epoch()

    def begin_epoch(self, *, after: int = 0) -> None:
        """Tell readers that something they know of may have been moved or deleted; the epoch is one above `after`."""
        found = self._txn.get(_EPOCH, db=self._databases.meta)
        epoch = max(after, 0 if found is None else _mark.unpack(found)[0])
        self._txn.put(_EPOCH, _marked((epoch + 1) % _EPOCHS), db=self._databases.meta)

    def set_stream(self, key: bytes, record: bytes, number: int, name: str) -> None:
        """Record what a stream is."""
        self._txn.put(key, record, db=self._databases.streams)
        self._txn.put(_number_key.pack(number), _named(number, name.encode()), db=self._databases.numbers)

    def count_removed(self, streams: int, events: int) -> None:
        """Count streams that were deleted, or (below 0) begun again, and their events."""
        found = self._txn.get(_REMOVED, db=self._databases.meta)
        before = (0, 0) if found is None else _removed.unpack(found)[:2]
        self._txn.put(_REMOVED, _counted(before[0] + streams, before[1] + events), db=self._databases.meta)

    def set_segment(self, number: int, last: int, value: bytes) -> None:
        """Put a segment of a stream whose last sequence is `last`."""
        self._txn.put(_segment_key.pack(number, last), value, db=self._databases.segments)

    def has_segment(self, number: int, last: int) -> bool:
        """Whether there is a segment of a stream that ends at `last`."""
        return self._txn.get(_segment_key.pack(number, last), db=self._databases.segments) is not None

    def delete_segment(self, number: int, last: int) -> None:
        """Take a segment away."""
        self._txn.delete(_segment_key.pack(number, last), db=self._databases.segments)

    def delete_segments(self, number: int) -> None:
        """Take all segments of a stream away."""
        cursor = self._txn.cursor(self._databases.segments)
        cursor.set_range(_segment_key.pack(number, 0))
        while (key := cursor.key()) and _segment_key.unpack(key)[0] == number:
            cursor.delete()

    def set_order(self, first: int, value: bytes) -> None:
        """Put a block of the order of events, whose first is at the position `first`."""
        self._txn.put(_position_key.pack(first), value, db=self._databases.order)

    def add_chunk(self, digest: bytes, value: bytes) -> None:
        """Put a part of a large event, unless it is there."""
        self._txn.put(digest, value, overwrite=False, db=self._databases.chunks)

    def delete_chunk(self, digest: bytes) -> None:
        """Take a part of a large event away."""
        self._txn.delete(digest, db=self._databases.chunks)

    def set_meta(self, key: bytes, value: bytes) -> None:
        """Let the journal say something of itself."""
        self._txn.put(key, value, db=self._databases.meta)

    def cell(self, key: bytes) -> bytes | None:
        """Return the value of a cell."""
        return self._txn.get(key, db=self._databases.cells)

    def set_cell(self, key: bytes, value: bytes | None) -> None:
        """Set a cell, or delete it when `value` is None."""
        if value is None:
            self._txn.delete(key, db=self._databases.cells)
        else:
            self._txn.put(key, value, db=self._databases.cells)


def _seek(cursor: lmdb.Cursor[memoryview], position: int, *, within: bool) -> bool:
    """Go to the entry at a position or behind it; or to the last one that begins at it or before it."""
    key = _position_key.pack(position)
    found = cursor.set_range(key)
    if not within or (found and bytes(cursor.key()) == key):
        return found
    return cursor.prev() if found else cursor.last()


def _named(number: int, name: bytes) -> bytes:
    return _checksum.pack(crc32(_number_key.pack(number) + name)) + name


def _name(number: int, value: bytes) -> str:
    name = value[_checksum.size :]
    return name.decode() if _named(number, name) == value else ""


def _marked(position: int) -> bytes:
    return _mark.pack(position, crc32(_position_key.pack(position)))


def _counted(streams: int, events: int) -> bytes:
    streams, events = (max(-_EPOCHS, min(count, _EPOCHS - 1)) for count in (streams, events))
    return _removed.pack(streams, events, crc32(f"{streams} {events}".encode()))


def _position(key: memoryview) -> int:
    position: int = _position_key.unpack(key)[0]
    return position


def _segment(key: memoryview) -> tuple[int, int]:
    number, last = _segment_key.unpack(key)
    return number, last
