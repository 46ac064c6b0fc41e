"""Whether the last system over a journal was closed, or its process died."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from ..journal import CellWrite, Journal, JournalError

__all__ = ["OpenMark"]

_CELL: Final = b"system/open"


class OpenMark:
    """A cell that is there while a system is open; who finds it on opening knows that the last one ended in a crash."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.crashed = journal.cells.get(_CELL) is not None
        self._set = False

    def set(self) -> None:
        """Say that a system is open; a crash before this is durable goes unnoticed, and did nothing yet."""
        self._set = True
        self._write(b"1")

    def clear(self) -> None:
        """Say that it was closed; one that was opened only to look around knows nothing of the one before it."""
        if self._set:
            self._write(None)

    def _write(self, value: bytes | None) -> None:
        # A journal that takes no cells takes no steps either, so there is nothing to recover.
        with suppress(JournalError):
            self._journal.cells.write([CellWrite(_CELL, value)])
