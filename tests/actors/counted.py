"""A journal whose reads of cells are counted."""

from __future__ import annotations

from collections.abc import Iterator

from clew.journal import MemoryJournal
from clew.journal.memory import MemoryCells


class CountedCells(MemoryCells):
    """Cells that note which were read."""

    def __init__(self, journal: MemoryJournal) -> None:
        super().__init__(journal)
        self.seen: list[bytes] = []

    def get(self, key: bytes) -> bytes | None:
        """See `Cells.get`."""
        self.seen.append(key)
        return super().get(key)

    def scan(self, prefix: bytes, *, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """See `Cells.scan`."""
        for key, value in super().scan(prefix, after=after):
            self.seen.append(key)
            yield key, value


class Counting(MemoryJournal):
    """A journal whose cells are counted."""

    def __init__(self) -> None:
        super().__init__()
        self._cells = self.counted = CountedCells(self)
