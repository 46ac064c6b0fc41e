"""A row projection kept in a journal's cells: it goes on where it was, whatever crashed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import islice
from typing import Final, Generic, TypeVar

import msgspec

from ..journal import CellConflict, CellWrite, Journal
from .batch import BATCH_BYTES_MAX, BATCH_EVENTS_MAX, BuildFold, Limits, Outcome
from .checkpoint import Build, Builds, Checkpoint, encoded, read_builds, read_checkpoint
from .rows import RowProjection
from .status import ProjectionStatus, statuses_of

__all__ = ["DurableProjection"]

R = TypeVar("R")
E = TypeVar("E", bound=msgspec.Struct)

_REMOVED_AT_ONCE: Final = 500


class DurableProjection(Generic[R, E]):
    """The rows of `projection` in the cells of `journal`, and how far they have read.

    Rows and checkpoint are one write, so each event counts once, wherever a process dies; of two runners over one
    journal the second finds that the first has counted. A batch is written after `batch_events_max` events or when
    its rows have `batch_bytes_max` bytes. An event that fails `attempts` times parks the projection there, until
    `retry` or a higher version.

    A new version is folded beside the live rows and takes their place once it has caught up; what it replaces is
    removed in writes of a bounded size. Nothing here has a thread: call `catch_up`, or let a `ProjectionRunner` do it.
    """

    def __init__(
        self,
        journal: Journal,
        projection: RowProjection[R, E],
        *,
        batch_events_max: int = BATCH_EVENTS_MAX,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        attempts: int = 3,
    ) -> None:
        for name, given in (
            ("batch_events_max", batch_events_max),
            ("batch_bytes_max", batch_bytes_max),
            ("attempts", attempts),
        ):
            if given < 1:
                raise ValueError(f"{name} is at least 1, not {given}")
        self.journal = journal
        self.projection = projection
        self.limits = Limits(batch_events_max, batch_bytes_max, attempts)
        self.lock = threading.RLock()
        self._fold: BuildFold[R, E] | None = None

    def catch_up(self) -> list[ProjectionStatus]:
        """Fold all that is durable, and wait until it is kept; or until an event parks the projection.

        Events that fail are tried again at once. Repeat it after a crash: it goes on from the last checkpoint.

        Raises:
            ReadOnlyJournal: this handle cannot write; `fold_rows` folds in memory.
            JournalClosed, JournalFull, AppendUnknown: as for `Cells.write`; what was written before counts.
            ProjectionFailed: what is kept of the projection cannot be read.
        """
        while self.advance() in ("more", "failed"):
            pass
        return self.status()

    def advance(self) -> Outcome:
        """Take one step: fold a batch, let a build that has caught up take its place, or remove old rows.

        Raises:
            ReadOnlyJournal, JournalClosed, JournalFull, AppendUnknown, ProjectionFailed: as for `catch_up`.
        """
        with self.lock:
            try:
                return self._advance()
            except CellConflict:
                # Somebody else was first; the next step begins with what they left.
                return "more"

    def _advance(self) -> Outcome:
        builds, value = read_builds(self.journal.cells, self.projection.name)
        if value is None and self._remove_leftovers():
            return "more"
        build = builds.of(self.projection.version)
        if build is None or read_checkpoint(self.journal.cells, self.projection.name, build) is None:
            # A build that is listed and has no checkpoint was lost with its cells.
            self.change(value, (builds.give_up(build) if build else builds).begin(self.projection.version))
            return "more"
        if self._fold is None or self._fold.build != build:
            self._fold = BuildFold(self.journal, self.projection, build, self.limits)
        outcome = self._fold.step()
        if outcome != "idle":
            return outcome
        if build == builds.next:
            self.change(value, builds.switch())
            return "more"
        return "more" if self.remove_some() else "idle"

    def _remove_leftovers(self) -> bool:
        """Remove some rows that no list of builds tells of, since it was lost; return whether there were any."""
        cells, name = self.journal.cells, self.projection.name
        keys = [key for prefix in Build.everything(name) for key, _ in islice(cells.scan(prefix), _REMOVED_AT_ONCE)]
        if keys:
            # Only while there is no list: another runner may just have begun one.
            cells.write([CellWrite(Builds.cell(name), None, None), *(CellWrite(key, None) for key in keys)]).wait()
        return bool(keys)

    def status(self) -> list[ProjectionStatus]:
        """Return how the projection is doing: the live build, and one that may take its place."""
        return list(statuses_of(self.journal.cells, self.projection.name))

    def retry(self) -> bool:
        """Let the projection try its parked event again; return whether it was parked. Waits until that is durable."""
        with self.lock:
            builds, _ = read_builds(self.journal.cells, self.projection.name)
            build = builds.of(self.projection.version)
            found = read_checkpoint(self.journal.cells, self.projection.name, build) if build else None
            if build is None or found is None or found[0].parked is None:
                return False
            checkpoint = msgspec.structs.replace(found[0], parked=None)
            at = build.at(self.projection.name)
            self.journal.cells.write([CellWrite(at, encoded(checkpoint), found[1])]).wait()
            return True

    def change(self, value: bytes | None, builds: Builds, *, also: Sequence[CellWrite] = ()) -> None:
        """Let `builds` be the builds, if they are still what `value` says; wait until that is durable.

        A retired build loses its checkpoint, so that no other runner can write to it; a new one gets its first.

        Raises:
            CellConflict: somebody else changed them, or what `also` expects does not hold; nothing was written.
        """
        name = self.projection.name
        changes = [CellWrite(Builds.cell(name), encoded(builds), value), *also]
        changes += (CellWrite(build.at(name), None) for build in builds.retired)
        for build in (builds.live, builds.next):
            if build is not None and read_checkpoint(self.journal.cells, name, build) is None:
                changes.append(CellWrite(build.at(name), encoded(Checkpoint()), None))
        self.journal.cells.write(changes).wait()

    def remove_some(self) -> bool:
        """Remove some rows of a retired build; return whether there was one."""
        cells, name = self.journal.cells, self.projection.name
        builds, value = read_builds(cells, name)
        if not builds.retired:
            return False
        build: Build = builds.retired[0]
        keys = [key for key, _ in islice(cells.scan(build.rows(name)), _REMOVED_AT_ONCE)]
        if keys:
            cells.write([CellWrite(key, None) for key in keys]).wait()
        else:
            self.change(value, builds.without(build))
        return True
