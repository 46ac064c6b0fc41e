"""The rows that a batch of events changes: read through to the cells, written all at once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from ..journal import CellWrite, ProjectionFailed

__all__ = ["NO_CELLS", "RowBuffer", "RowCodec", "RowSource"]

R = TypeVar("R")

_KEY_BYTES: Final = 300
_ABSENT: Final = object()


class RowSource(Protocol):
    """Where rows are read from: a journal's cells, or nothing."""

    def get(self, key: bytes) -> bytes | None:
        """See `Cells.get`."""
        ...

    def scan(self, prefix: bytes, *, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """See `Cells.scan`."""
        ...


class _NoCells:
    def get(self, key: bytes) -> bytes | None:
        return None

    def scan(self, prefix: bytes, *, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return iter(())


NO_CELLS: Final[RowSource] = _NoCells()
"""A source without rows, for a fold in memory."""


class RowCodec(Generic[R]):
    """Row keys and rows as the bytes of cells, under a prefix.

    A cell holds the key and the row as JSON in a fixed order, so equal tables are equal bytes.
    """

    def __init__(self, row: type[R], *, prefix: bytes, projection: str) -> None:
        self.prefix = prefix
        self._projection = projection
        # A set or a dict has the same bytes, whatever order it was filled in.
        self._encoder = msgspec.json.Encoder(order="deterministic")
        kind: Any = tuple[str, row]  # pyright: ignore[reportInvalidTypeForm]  (a type that is known when it runs)
        self._decoder: msgspec.json.Decoder[tuple[str, R]] = msgspec.json.Decoder(kind)

    def key(self, key: str) -> bytes:
        """Return the cell of a row; a long key is cut, and told from others like it by its digest.

        Raises:
            ValueError: it is empty.
        """
        if not key:
            raise ValueError(f"projection {self._projection!r}: a row needs a key of at least one character")
        name = key.encode()
        return self.prefix + (name[:_KEY_BYTES] + sha256(name).digest()[:16] if name[_KEY_BYTES:] else name)

    def span(self, prefix: str) -> bytes:
        """Return what the cells of all rows begin with whose keys begin with `prefix`."""
        return self.prefix + prefix.encode()[:_KEY_BYTES]

    def encode(self, key: str, row: R) -> bytes:
        """Return a row as bytes."""
        return self._encoder.encode((key, row))

    def decode(self, value: bytes) -> tuple[str, R]:
        """Return a key and its row.

        Raises:
            ProjectionFailed: the stored row does not fit the projection's type.
        """
        try:
            return self._decoder.decode(value)
        except msgspec.MsgspecError as error:
            reason = f"the stored row {value[:60]!r} does not fit its type: {error}"
            raise ProjectionFailed(projection=self._projection, where="a row", reason=reason) from error


class RowBuffer(Generic[R]):
    """What events change, in front of a source; see `Rows` for what `apply` may do with it.

    Rows are encoded when they are set and decoded when they are got, so that it makes no difference whether a row is
    still here or was written before.
    """

    def __init__(self, source: RowSource, codec: RowCodec[R]) -> None:
        self._source = source
        self._codec = codec
        self._changed: dict[bytes, bytes | None] = {}
        self._order: list[bytes] = []
        self._before: dict[bytes, object] = {}
        self.size_bytes = 0

    def get(self, key: str) -> R | None:
        """See `Rows.get`."""
        cell = self._codec.key(key)
        value = self._changed[cell] if cell in self._changed else self._source.get(cell)
        return None if value is None else self._codec.decode(value)[1]

    def set(self, key: str, row: R) -> None:
        """See `Rows.set`."""
        self._put(self._codec.key(key), self._codec.encode(key, row))

    def delete(self, key: str) -> None:
        """See `Rows.delete`."""
        self._put(self._codec.key(key), None)

    def scan(self, prefix: str = "", *, after: str = "") -> Iterator[tuple[str, R]]:
        """See `Rows.scan`."""
        cells = self.cells(self._codec.span(prefix), self._codec.key(after) if after else b"")
        return (found for _, value in cells if (found := self._codec.decode(value))[0].startswith(prefix))

    def cells(self, prefix: bytes, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return the rows as the cells they are or will be, in order, as of the call."""
        start = bisect_right(self._order, after) if after >= prefix else bisect_left(self._order, prefix)
        here: list[tuple[bytes, bytes | None]] = []
        for cell in self._order[start:]:
            if not cell.startswith(prefix):
                break
            here.append((cell, self._changed[cell]))
        return _merged(here, self._source.scan(prefix, after=after))

    def load(self, cell: bytes, value: bytes) -> None:
        """Take in a row that is kept elsewhere."""
        self._put(cell, value)
        self.keep()

    def keep(self) -> None:
        """Let what the last event changed stay."""
        self._before.clear()

    def drop(self) -> None:
        """Take back what the last event changed."""
        before, self._before = self._before, {}
        for cell, value in before.items():
            if value is _ABSENT:
                self.size_bytes -= len(cell) + len(self._changed.pop(cell) or b"")
                del self._order[bisect_left(self._order, cell)]
            else:
                assert value is None or isinstance(value, bytes)  # noqa: S101  (nothing else is ever kept here)
                self._put(cell, value)
        self._before.clear()

    def writes(self) -> list[CellWrite]:
        """Return all changes, as they are to be written."""
        return [CellWrite(cell, value) for cell, value in self._changed.items()]

    def _put(self, cell: bytes, value: bytes | None) -> None:
        if cell in self._changed:
            before = self._changed[cell]
            self._before.setdefault(cell, before)
            self.size_bytes -= len(before or b"")
        else:
            self._before.setdefault(cell, _ABSENT)
            insort(self._order, cell)
            self.size_bytes += len(cell)
        self._changed[cell] = value
        self.size_bytes += len(value or b"")


def _merged(
    here: list[tuple[bytes, bytes | None]], there: Iterator[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield two ordered runs of cells as one; of two with the same key, the one that is here."""
    other = next(there, None)
    for cell, value in here:
        while other is not None and other[0] < cell:
            yield other
            other = next(there, None)
        if other is not None and other[0] == cell:
            other = next(there, None)
        if value is not None:
            yield cell, value
    while other is not None:
        yield other
        other = next(there, None)
