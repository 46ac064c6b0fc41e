"""The cells of an LMDB journal: read in short transactions, written by the journal's writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ..commit import Commit
from ..journal import CellWrite
from .environment import Environment

__all__ = ["LmdbCells"]

_CELLS_MAX: Final = 256
_BYTES_MAX: Final = 1024 * 1024


class LmdbCells:
    """The key/value space beside the streams of an LMDB journal."""

    def __init__(self, env: Environment, write: Callable[[Sequence[CellWrite]], Commit]) -> None:
        self._env = env
        self._write = write

    def get(self, key: bytes) -> bytes | None:
        """See `Cells.get`."""
        with self._env.reading() as reader:
            return reader.cell(key)

    def scan(self, prefix: bytes, *, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """See `Cells.scan`. Read in pieces, so that no transaction is held between two cells."""
        self._env.check()
        return self._scan(prefix, after)

    def _scan(self, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, bytes]]:
        while found := self._some(prefix, after):
            yield from found
            after = found[-1][0]

    def _some(self, prefix: bytes, after: bytes) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        size_bytes = 0
        with self._env.reading() as reader:
            for key, value in reader.cells(prefix, after):
                found.append((key, value))
                size_bytes += len(value)
                if len(found) == _CELLS_MAX or size_bytes >= _BYTES_MAX:
                    break
        return found

    def write(self, changes: Sequence[CellWrite]) -> Commit:
        """See `Cells.write`."""
        return self._write(changes)
