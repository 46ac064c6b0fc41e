"""One build of a projection, taken a batch further: rows and checkpoint in one write."""

from __future__ import annotations

from itertools import islice
from typing import Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from ..journal import (
    CellConflict,
    CellWrite,
    CorruptRecord,
    Journal,
    JournalClosed,
    JournalForked,
    RecordedEvent,
    category_of,
)
from .buffer import RowBuffer, RowCodec
from .checkpoint import Build, Checkpoint, Parked, encoded, read_checkpoint
from .projection import typed
from .rows import RowProjection

__all__ = ["BATCH_BYTES_MAX", "BATCH_EVENTS_MAX", "BuildFold", "Limits", "Outcome", "fold_event"]

R = TypeVar("R")
E = TypeVar("E", bound=msgspec.Struct)

BATCH_EVENTS_MAX: Final = 500
"""Events that are folded into one write, at the most."""

BATCH_BYTES_MAX: Final = 1024 * 1024
"""Bytes of changed rows after which a batch is written."""

_PASSED_MAX: Final = 4096

Outcome: TypeAlias = Literal["more", "idle", "failed", "parked"]
"""How a step ended: there may be more, there is nothing more, or an event failed and is tried again, or is parked."""


class Limits(NamedTuple):
    """How large a batch gets, and how often an event is tried."""

    events: int = BATCH_EVENTS_MAX
    size_bytes: int = BATCH_BYTES_MAX
    attempts: int = 3


class _Folded(NamedTuple):
    """What came of the events of a batch: how far it got, how many it folded and saw, and what went wrong."""

    position: int
    folded: int
    seen: int
    more: bool = False
    failure: Parked | None = None


class BuildFold(Generic[R, E]):
    """Folds one build. Several may do so at once, in any process that can write: each event counts once."""

    def __init__(self, journal: Journal, projection: RowProjection[R, E], build: Build, limits: Limits) -> None:
        self.build = build
        self._journal = journal
        self._projection = projection
        self._limits = limits
        self._codec = RowCodec(projection.row, prefix=build.rows(projection.name), projection=projection.name)
        self._passed: tuple[bytes, int, int] = (b"", 0, 0)
        self._failures: tuple[int, int] = (0, 0)

    def step(self, *, until: int | None = None) -> Outcome:
        """Fold a batch of events, up to the position `until`, and wait until its rows are durable.

        Raises:
            CellConflict: another runner was first, or the build is gone; nothing was written.
            ReadOnlyJournal, JournalClosed, JournalFull, AppendUnknown: as for `Cells.write`.
        """
        projection, cells = self._projection, self._journal.cells
        found = read_checkpoint(cells, projection.name, self.build)
        if found is None:
            raise CellConflict(key=self.build.at(projection.name))
        checkpoint, value = found
        if checkpoint.parked is not None:
            return "parked"
        # What was passed over since the checkpoint is not read again; by itself it is no reason to write one.
        known, after, passed = self._passed
        if known != value:
            after, passed = checkpoint.position, 0
        rows = RowBuffer(cells, self._codec)
        came = self._fold(rows, after, until)
        parked = came.failure if self._is_last_attempt(came.failure) else None
        passed += came.seen
        if came.folded or parked or passed >= _PASSED_MAX:
            reached = Checkpoint(came.position, checkpoint.events + came.folded, parked)
            mark = CellWrite(self.build.at(projection.name), encoded(reached), value)
            cells.write([mark, *rows.writes()]).wait()
        else:
            self._passed = (value, came.position, passed)
        if came.failure is not None:
            return "parked" if parked else "failed"
        return "more" if came.more else "idle"

    def _fold(self, rows: RowBuffer[R], after: int, until: int | None) -> _Folded:
        position, count, seen = after, 0, 0
        try:
            for recorded in islice(self._journal.read_all(after=after), _PASSED_MAX):
                if until is not None and recorded.position > until:
                    return _Folded(position, count, seen)
                try:
                    count += fold_event(self._projection, rows, recorded)
                except (JournalClosed, JournalForked):
                    raise
                except Exception as error:  # noqa: BLE001  (whatever a user's code raises parks its projection)
                    failure = _parked(error, recorded.position, recorded.stream, recorded.sequence)
                    return _Folded(position, count, seen, failure=failure)
                position, seen = recorded.position, seen + 1
                if count == self._limits.events or rows.size_bytes >= self._limits.size_bytes:
                    return _Folded(position, count, seen, more=True)
        except CorruptRecord as error:
            return _Folded(position, count, seen, failure=_parked(error, position, "", 0))
        return _Folded(position, count, seen, more=seen == _PASSED_MAX)

    def _is_last_attempt(self, failure: Parked | None) -> bool:
        if failure is None:
            return False
        position, count = self._failures
        count = count + 1 if position == failure.position else 1
        last = count >= self._limits.attempts
        self._failures = (0, 0) if last else (failure.position, count)
        return last


def fold_event(projection: RowProjection[R, E], rows: RowBuffer[R], recorded: RecordedEvent) -> bool:
    """Let the projection apply an event if it is for it; what it changed stays, or when it raises nothing does.

    Raises:
        Exception: whatever `apply` raises; or `UnknownEvent` and `CorruptRecord`, as for `project`.
    """
    if projection.category not in (None, category_of(recorded.stream)):
        return False
    event = typed(projection.catalog, recorded, projection.unknown)
    if event is None:
        return False
    try:
        projection.apply(rows, cast("E", event), recorded)
    except BaseException:
        rows.drop()
        raise
    rows.keep()
    return True


def _parked(error: Exception, position: int, stream: str, sequence: int) -> Parked:
    return Parked(position, stream, sequence, type(error).__name__, str(error))
