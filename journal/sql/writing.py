"""What waits to be written, and how a batch of it becomes statements. Runs within a transaction, and may be undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from ..body import CHUNK_BYTES_MAX
from ..commit import Commit
from ..errors import CellConflict
from ..journal import CellWrite, holds
from .events import EventRow
from .execute import Execute, Reading, Value
from .statements import (
    CELL,
    DELETE_CELLS,
    DELETE_CHUNKS,
    DELETE_EVENTS,
    DELETE_PIECES,
    DELETE_STREAM,
    DELETE_USES,
    END_STREAM,
    INSERT_CELLS,
    INSERT_CHUNK,
    INSERT_EVENTS,
    INSERT_STREAM,
    INSERT_USES,
    insert,
    with_keys,
)
from .streams import START, End, Stream

__all__ = ["Batch", "Last", "Write", "cell"]


class Last(NamedTuple):
    """The last position and the last number of a stream that were given out."""

    position: int
    number: int


class Write(msgspec.Struct, frozen=True, gc=False):
    """What waits to be written: an append with its cells, the end of a stream, or a change of cells alone.

    With `begins` the stream gets a row, in the place of the one that says it was deleted.
    """

    commit: Commit
    stream: Stream | None = None
    end: End = START
    rows: Sequence[EventRow] = ()
    contents: Mapping[bytes, bytes] = {}
    begins: bool = False
    cells: Sequence[CellWrite] = ()
    size_bytes: int = 0


class Batch:
    """Writes of one transaction; afterwards `last`, `numbers` and `conflicts` say what became of them."""

    def __init__(self, database: Execute, writes: Sequence[Write], last: Last) -> None:
        self._database = database
        self._writes = writes
        self._rows: list[Sequence[Value]] = []
        # What is overwritten within the batch never reaches the table.
        self._cells: dict[bytes, bytes | None] = {}
        self.last = last
        self.numbers: dict[str, int] = {}
        """The rows that streams have got."""
        self.conflicts: dict[int, CellConflict] = {}
        """The changes of cells that were refused, by their place in the batch."""

    def execute(self) -> None:
        """Execute what the writes come to."""
        for place, write in enumerate(self._writes):
            if write.stream is None:
                self._change_cells(place, write)
                continue
            if write.end.deleted:
                self._delete(write.stream, write.end)
            else:
                self._append(write.stream, write)
            self._cells.update((cell.key, cell.value) for cell in write.cells)
        self._flush_events()
        _set_cells(self._database, self._cells)

    def _append(self, stream: Stream, write: Write) -> None:
        if write.begins:
            self._begin(stream)
        number = self._number(stream)
        position = self.last.position
        for row in write.rows:
            position += 1
            self._rows.append((position, number, *row))
        self.last = Last(position, self.last.number)
        if write.contents:
            insert(self._database, INSERT_USES, [(number, digest) for digest in write.contents])
            for digest, content in write.contents.items():
                self._database.execute(INSERT_CHUNK, digest, content)

    def _begin(self, stream: Stream) -> None:
        if former := self._number(stream):
            self._database.execute(DELETE_STREAM, former)
        # Never a number that was used before: who still reads the deleted events is to notice.
        number = self.last.number + 1
        self._database.execute(INSERT_STREAM, number, stream.name)
        self.numbers[stream.name] = number
        self.last = Last(self.last.position, number)

    def _delete(self, stream: Stream, end: End) -> None:
        self._flush_events()
        number = self._number(stream)
        for sql in (DELETE_CHUNKS, DELETE_USES, DELETE_EVENTS):
            self._database.execute(sql, number)
        # It takes a position, so that none is given twice, and that others can see when it was.
        self.last = Last(self.last.position + 1, self.last.number)
        self._database.execute(END_STREAM, self.last.position, end.sequence, end.digest, number)

    def _number(self, stream: Stream) -> int:
        return self.numbers.get(stream.name, stream.number)

    def _flush_events(self) -> None:
        insert(self._database, INSERT_EVENTS, self._rows)
        self._rows.clear()

    def _change_cells(self, place: int, write: Write) -> None:
        for change in write.cells:
            key = change.key
            if not holds(change, self._cells[key] if key in self._cells else cell(self._database, key)):
                self.conflicts[place] = CellConflict(key=key)
                return
        self._cells.update((change.key, change.value) for change in write.cells)


def cell(database: Reading, key: bytes) -> bytes | None:
    """Return the value of a cell."""
    pieces: list[bytes] = [row[0] for row in database.execute(CELL, key)]
    return b"".join(pieces) if pieces else None


def _set_cells(database: Execute, cells: Mapping[bytes, bytes | None]) -> None:
    with_keys(database, DELETE_CELLS, [key for key, value in cells.items() if value is None])
    kept = [(key, value) for key, value in cells.items() if value is not None]
    with_keys(database, DELETE_PIECES, [key for key, _ in kept])
    insert(database, INSERT_CELLS, [row for key, value in kept for row in _pieces(key, value)])


def _pieces(key: bytes, value: bytes) -> list[tuple[bytes, int, bytes]]:
    starts = range(0, max(len(value), 1), CHUNK_BYTES_MAX)
    return [(key, piece, value[start : start + CHUNK_BYTES_MAX]) for piece, start in enumerate(starts)]
