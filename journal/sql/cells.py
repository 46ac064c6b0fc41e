"""The cells of a SQL journal: read a page at a time, written by the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ..commit import Commit
from ..journal import CELL_KEY_BYTES_MAX, CellWrite
from .execute import Reading
from .statements import CELLS
from .writing import cell

__all__ = ["SqlCells"]

_CELLS_AT_ONCE: Final = 256
_TOGETHER_BYTES_MAX: Final = 8 * 1024
"""The largest value that is read together with others."""
_BEHIND_ALL_KEYS: Final = b"\xff" * (CELL_KEY_BYTES_MAX + 1)


class SqlCells:
    """The key/value space beside the streams of a SQL journal; `check` refuses to go on when it was closed."""

    def __init__(
        self, database: Reading, check: Callable[[], None], write: Callable[[Sequence[CellWrite]], Commit]
    ) -> None:
        self._database = database
        self._check = check
        self._write = write

    def get(self, key: bytes) -> bytes | None:
        """See `Cells.get`."""
        self._check()
        return cell(self._database, key)

    def scan(self, prefix: bytes, *, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """See `Cells.scan`."""
        self._check()
        return self._scan(prefix, after)

    def _scan(self, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, bytes]]:
        # The first key behind all that begin with the prefix: its last byte that can be raised, raised.
        raised = prefix.rstrip(b"\xff")
        end = raised[:-1] + bytes([raised[-1] + 1]) if raised else _BEHIND_ALL_KEYS
        while True:
            self._check()
            rows = self._database.execute(CELLS, _TOGETHER_BYTES_MAX, prefix, after, end, _CELLS_AT_ONCE)
            for row in rows:
                key: bytes = row[0]
                value: bytes | None = row[1] if row[1] is not None else self.get(key)
                # A large one may have gone since the page was read.
                if value is not None:
                    yield key, value
            if len(rows) < _CELLS_AT_ONCE:
                return
            after = rows[-1][0]

    def write(self, changes: Sequence[CellWrite]) -> Commit:
        """See `Cells.write`."""
        return self._write(changes)
