"""What is in the four databases of a journal, as seen by one reading or writing transaction.

`log` holds the commits by the position of their first event, `names` by the same position the numbers and names of
the streams that begin there, `cells` the cells, `meta` what the journal says of itself. One value a commit is more
than tidy: each call into LMDB gives up the interpreter's lock, and gets it back when the other threads are done.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

import lmdb

__all__ = ["DATABASES", "Databases", "Reader", "Transaction"]

DATABASES: Final = (b"log", b"names", b"cells", b"meta")

_position_key = Struct(">Q")


class Databases(NamedTuple):
    """Handles of the named databases."""

    log: lmdb._Database  # pyright: ignore[reportPrivateUsage]  (the stubs have no other name for it)
    names: lmdb._Database  # pyright: ignore[reportPrivateUsage]
    cells: lmdb._Database  # pyright: ignore[reportPrivateUsage]
    meta: lmdb._Database  # pyright: ignore[reportPrivateUsage]

    @classmethod
    def of(cls, env: lmdb.Environment, *, create: bool = False) -> Databases:
        """Open them in `env`."""
        return cls(*(env.open_db(name, create=create) for name in DATABASES))


class Reader:
    """A reading transaction. Its views of values are gone when it ends: copy what is to stay."""

    __slots__ = ("_databases", "_txn")

    def __init__(self, txn: lmdb.Transaction[memoryview], databases: Databases) -> None:
        self._txn = txn
        self._databases = databases

    def last(self) -> int:
        """Return the position of the first event of the last commit; 0 when there is none."""
        cursor = self._txn.cursor(self._databases.log)
        return _position(cursor.key()) if cursor.last() else 0

    def commit(self, first: int) -> memoryview | None:
        """Return the log value whose first event is at the position `first`."""
        return self._txn.get(_position_key.pack(first), db=self._databases.log)

    def commits(self, first: int) -> Iterator[tuple[int, memoryview]]:
        """Yield the log values from the one that begins at `first` or behind it."""
        cursor = self._txn.cursor(self._databases.log)
        if cursor.set_range(_position_key.pack(first)):
            for key, value in cursor:
                yield _position(key), value

    def names(self, first: int) -> Iterator[tuple[int, memoryview]]:
        """Yield the names of the streams that begin at the position `first` or behind it, commit by commit."""
        cursor = self._txn.cursor(self._databases.names)
        if cursor.set_range(_position_key.pack(first)):
            for key, value in cursor:
                yield _position(key), value

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

    def cell(self, key: bytes) -> bytes | None:
        """Return the value of a cell."""
        return self._txn.get(key, db=self._databases.cells)

    def set_cell(self, key: bytes, value: bytes | None) -> None:
        """Set a cell, or delete it when `value` is None."""
        if value is None:
            self._txn.delete(key, db=self._databases.cells)
        else:
            self._txn.put(key, value, db=self._databases.cells)


def _position(key: memoryview) -> int:
    position: int = _position_key.unpack(key)[0]
    return position
