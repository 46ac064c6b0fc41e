"""The writing transaction: everything that is written to a journal is written here."""

from __future__ import annotations

import lmdb

from .databases import (
    EPOCH,
    EPOCHS,
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
    named,
)

__all__ = ["Transaction"]


class Transaction:
    """The writing transaction."""

    __slots__ = ("_databases", "_txn")

    def __init__(self, txn: lmdb.Transaction[bytes], databases: Databases) -> None:
        self._txn = txn
        self._databases = databases

    def append(self, first: int, value: bytes, names: bytes | None) -> None:
        """Put a commit at the end of the log, with the names of its new streams; its first event is at `first`."""
        key = POSITION_KEY.pack(first)
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
            while (key := cursor.key()) and POSITION_KEY.unpack(key)[0] <= until:
                cursor.delete()
        self._txn.put(SEALED, marked(until), db=self._databases.meta)
        self.begin_epoch()

    def begin_epoch(self, *, after: int = 0) -> None:
        """Tell readers that something they know of may have been moved or deleted; the epoch is one above `after`."""
        found = self._txn.get(EPOCH, db=self._databases.meta)
        epoch = max(after, 0 if found is None else MARK.unpack(found)[0])
        self._txn.put(EPOCH, marked((epoch + 1) % EPOCHS), db=self._databases.meta)

    def set_stream(self, key: bytes, record: bytes, number: int, name: str) -> None:
        """Record what a stream is."""
        self._txn.put(key, record, db=self._databases.streams)
        self._txn.put(NUMBER_KEY.pack(number), named(number, name.encode()), db=self._databases.numbers)

    def count_removed(self, streams: int, events: int) -> None:
        """Count streams that were deleted, or (below 0) begun again, and their events."""
        found = self._txn.get(REMOVED, db=self._databases.meta)
        before = (0, 0) if found is None else REMOVED_COUNTS.unpack(found)[:2]
        self._txn.put(REMOVED, counted(before[0] + streams, before[1] + events), db=self._databases.meta)

    def set_segment(self, number: int, last: int, value: bytes) -> None:
        """Put a segment of a stream whose last sequence is `last`."""
        self._txn.put(SEGMENT_KEY.pack(number, last), value, db=self._databases.segments)

    def has_segment(self, number: int, last: int) -> bool:
        """Whether there is a segment of a stream that ends at `last`."""
        return self._txn.get(SEGMENT_KEY.pack(number, last), db=self._databases.segments) is not None

    def delete_segment(self, number: int, last: int) -> None:
        """Take a segment away."""
        self._txn.delete(SEGMENT_KEY.pack(number, last), db=self._databases.segments)

    def delete_segments(self, number: int) -> None:
        """Take all segments of a stream away."""
        cursor = self._txn.cursor(self._databases.segments)
        cursor.set_range(SEGMENT_KEY.pack(number, 0))
        while (key := cursor.key()) and SEGMENT_KEY.unpack(key)[0] == number:
            cursor.delete()

    def set_order(self, first: int, value: bytes) -> None:
        """Put a block of the order of events, whose first is at the position `first`."""
        self._txn.put(POSITION_KEY.pack(first), value, db=self._databases.order)

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
