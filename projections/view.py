"""The rows of a projection for those who look: as they are kept, or folded up to now in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

import msgspec

from ..journal import Journal, JournalClosed, JournalForked, ProjectionFailed
from .batch import fold_event
from .buffer import NO_CELLS, RowBuffer, RowCodec
from .checkpoint import Build, read_builds, read_checkpoint
from .rows import RowProjection

__all__ = ["LiveRows", "fold_rows"]

R = TypeVar("R")
E = TypeVar("E", bound=msgspec.Struct)

_TRIES: Final = 10


class LiveRows(Generic[R]):
    """The durable rows of a projection, as far as they have been folded; any handle of the journal will do.

    What is read is the build of the projection's own version: nothing at first, and more as it catches up. A single
    row is as of one moment. A scan may see rows of several batches, as a scan of cells does.
    """

    def __init__(self, journal: Journal, projection: RowProjection[R, E]) -> None:
        self._cells = journal.cells
        self._name = projection.name
        self._version = projection.version
        self._row = projection.row

    @property
    def position(self) -> int:
        """The last position that counts in the rows; 0 when nothing was folded yet."""
        build = self._build()
        found = read_checkpoint(self._cells, self._name, build) if build else None
        return found[0].position if found else 0

    def get(self, key: str) -> R | None:
        """Return a row, or None when there is none.

        Raises:
            ProjectionFailed: the stored row does not fit the projection's type.
        """
        build = self._build()
        while build is not None:
            row = self._of(build).get(key)
            # The build may have been replaced, and its rows be on their way out.
            build, before = self._build(), build
            if build == before:
                return row
        return None

    def scan(self, prefix: str = "", *, after: str = "") -> Iterator[tuple[str, R]]:
        """Yield rows in the order of their keys; see `Rows.scan`.

        Raises:
            ProjectionFailed: as for `get`.
        """
        build = self._build()
        return self._of(build).scan(prefix, after=after) if build else iter(())

    def _build(self) -> Build | None:
        return read_builds(self._cells, self._name)[0].of(self._version)

    def _of(self, build: Build) -> RowBuffer[R]:
        return RowBuffer(self._cells, RowCodec(self._row, prefix=build.rows(self._name), projection=self._name))


def fold_rows(journal: Journal, projection: RowProjection[R, E]) -> RowBuffer[R]:
    """Return the rows with everything that is durable now, held in memory; nothing is written.

    It begins with the rows and the checkpoint that a runner has kept, where there are any of this version, and folds
    the rest. So it works on a readonly handle, beside a process that writes.

    Raises:
        ProjectionFailed: an event cannot be folded; names its stream and sequence.
        CorruptRecord: the journal cannot be read.
    """
    rows, position = _kept(journal, projection)
    for recorded in journal.read_all(after=position, category=projection.category):
        try:
            fold_event(projection, rows, recorded)
        except (JournalClosed, JournalForked):
            raise
        except Exception as error:
            where, reason = f"{recorded.stream}, sequence {recorded.sequence}", f"{type(error).__name__}: {error}"
            raise ProjectionFailed(projection=projection.name, where=where, reason=reason) from error
    return rows


def _kept(journal: Journal, projection: RowProjection[R, E]) -> tuple[RowBuffer[R], int]:
    """Return the rows of one checkpoint, all of them as of it, and its position."""
    cells, name = journal.cells, projection.name
    for _ in range(_TRIES):
        build = read_builds(cells, name)[0].of(projection.version)
        before = read_checkpoint(cells, name, build) if build else None
        if build is None or before is None:
            break
        prefix = build.rows(name)
        rows = RowBuffer(NO_CELLS, RowCodec(projection.row, prefix=prefix, projection=name))
        for cell, value in cells.scan(prefix):
            rows.load(cell, value)
        # A runner may have written a batch while the rows were read; then they are of no one moment.
        if read_checkpoint(cells, name, build) == before:
            return rows, before[0].position
    # There is nothing to begin with, or it never stood still: the events are enough.
    return RowBuffer(NO_CELLS, RowCodec(projection.row, prefix=b"", projection=name)), 0
