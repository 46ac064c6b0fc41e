"""A reading transaction: everything that is read of a journal is read here."""

from __future__ import annotations

from collections.abc import Iterator

import lmdb

from .databases import (
    DATABASES,
    EPOCH,
    MARK,
    NUMBER_KEY,
    POSITION_KEY,
    REMOVED,
    REMOVED_COUNTS,
    SEALED,
    SEGMENT_KEY,
    Databases,
    counted,
    marked,
    name_in,
    position_of,
    segment_of,
)

__all__ = ["FirstLayoutReader", "Reader"]


class Reader:
    """A reading transaction. Its views of values are gone when it ends: copy what is to stay."""

    __slots__ = ("_databases", "_txn")

    def __init__(self, txn: lmdb.Transaction[memoryview], databases: Databases) -> None:
        self._txn = txn
        self._databases = databases

    def last(self) -> int:
        """Return the position of the first event of the last commit in the log; 0 when there is none."""
        cursor = self._txn.cursor(self._databases.log)
        return position_of(cursor.key()) if cursor.last() else 0

    def sealed(self) -> int:
        """Return the position up to which events lie in segments, and no longer in the log."""
        found = self._txn.get(SEALED, db=self._databases.meta)
        if found is None:
            return 0
        if self.sealed_is_known():
            return MARK.unpack(found)[0]
        # Whoever asks `sealed_is_known` says so. To read on, the log says where it begins.
        cursor = self._txn.cursor(self._databases.log)
        return position_of(cursor.key()) - 1 if cursor.first() else 0

    def sealed_is_known(self) -> bool:
        """Whether the mark of what is sealed matches its checksum."""
        found = self._txn.get(SEALED, db=self._databases.meta)
        return found is None or (len(found) == MARK.size and bytes(found) == marked(MARK.unpack(found)[0]))

    def epoch(self) -> int:
        """Return a number that changes when something was moved or deleted that was there before."""
        found = self._txn.get(EPOCH, db=self._databases.meta)
        return 0 if found is None else MARK.unpack(found)[0]

    def marks_are_known(self) -> bool:
        """Whether the marks that only matter to readers and to statistics match their checksums."""
        epoch = self._txn.get(EPOCH, db=self._databases.meta)
        removed = self._txn.get(REMOVED, db=self._databases.meta)
        return (epoch is None or bytes(epoch) == marked(MARK.unpack(epoch)[0])) and (
            removed is None or bytes(removed) == counted(*REMOVED_COUNTS.unpack(removed)[:2])
        )

    def counts(self) -> tuple[int, int]:
        """Return how many streams are recorded and not deleted, and how many events were deleted."""
        found = self._txn.get(REMOVED, db=self._databases.meta)
        streams, events = (0, 0) if found is None else REMOVED_COUNTS.unpack(found)[:2]
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
        return self._txn.get(POSITION_KEY.pack(first), db=self._databases.log)

    def commits(self, first: int, *, within: bool = False) -> Iterator[tuple[int, memoryview]]:
        """Yield the log values from the one that begins at `first` or behind it; or that `first` lies `within`."""
        cursor = self._txn.cursor(self._databases.log)
        if _seek(cursor, first, within=within):
            for key, value in cursor:
                yield position_of(key), value

    def names(self, first: int) -> Iterator[tuple[int, memoryview]]:
        """Yield the names of the streams that begin at the position `first` or behind it, commit by commit."""
        cursor = self._txn.cursor(self._databases.names)
        if _seek(cursor, first, within=False):
            for key, value in cursor:
                yield position_of(key), value

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
        found = self._txn.get(NUMBER_KEY.pack(number), db=self._databases.numbers)
        return None if found is None else name_in(number, bytes(found))

    def all_names(self) -> Iterator[tuple[int, str]]:
        """Yield the numbers and names of recorded streams; "" where a name is damaged."""
        for key, value in self._txn.cursor(self._databases.numbers):
            number = NUMBER_KEY.unpack(key)[0]
            yield number, name_in(number, bytes(value))

    def last_number(self) -> int:
        """Return the highest number of a recorded stream."""
        cursor = self._txn.cursor(self._databases.numbers)
        return NUMBER_KEY.unpack(cursor.key())[0] if cursor.last() else 0

    def segment(self, number: int, sequence: int) -> tuple[int, memoryview] | None:
        """Return the segment that holds `sequence`, or begins behind it, with the last sequence in it."""
        cursor = self._txn.cursor(self._databases.segments)
        if not cursor.set_range(SEGMENT_KEY.pack(number, sequence)):
            return None
        found, last = segment_of(cursor.key())
        return (last, cursor.value()) if found == number else None

    def last_segment(self, number: int) -> tuple[int, memoryview] | None:
        """Return the last segment of a stream, with the last sequence in it."""
        cursor = self._txn.cursor(self._databases.segments)
        if not (cursor.prev() if cursor.set_range(SEGMENT_KEY.pack(number + 1, 0)) else cursor.last()):
            return None
        found, last = segment_of(cursor.key())
        return (last, cursor.value()) if found == number else None

    def segments(self, number: int, sequence: int) -> Iterator[tuple[int, int, memoryview]]:
        """Yield segments of all streams in order, from that of `number` which holds `sequence` on."""
        cursor = self._txn.cursor(self._databases.segments)
        if cursor.set_range(SEGMENT_KEY.pack(number, sequence)):
            for key, value in cursor:
                yield (*segment_of(key), value)

    def order(self, position: int, *, within: bool = True) -> Iterator[tuple[int, memoryview]]:
        """Yield the blocks of the order of events, from the one that `position` lies `within`; or that begins there."""
        cursor = self._txn.cursor(self._databases.order)
        if _seek(cursor, position, within=within):
            for key, value in cursor:
                yield position_of(key), value

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


def _seek(cursor: lmdb.Cursor[memoryview], position: int, *, within: bool) -> bool:
    """Go to the entry at a position or behind it; or to the last one that begins at it or before it."""
    key = POSITION_KEY.pack(position)
    found = cursor.set_range(key)
    if not within or (found and bytes(cursor.key()) == key):
        return found
    return cursor.prev() if found else cursor.last()
