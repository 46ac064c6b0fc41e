"""A journal with a disk that takes its time, may fail, and keeps what was durable when its process dies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from ...journal import (
    AppendUnknown,
    CellWrite,
    Commit,
    JournalClosed,
    JournalError,
    JournalFull,
    MemoryJournal,
    NewEvent,
)

__all__ = ["DiskHost", "Flawless", "SimulatedJournal", "Trouble"]

FULL: Final = "full"
UNKNOWN: Final = "unknown"


class Trouble(Protocol):
    """How a disk behaves: how long each write takes it, how much it takes at once, and what goes wrong."""

    def write_s(self) -> float:
        """Return how many seconds the next write takes."""
        ...

    def at_once(self, waiting: int) -> int:
        """Return how many of the commits that wait it writes together, at least one."""
        ...

    def fault(self) -> str | None:
        """Return what becomes of the write: None, `"full"`, or `"unknown"` (it may be on disk, and nobody knows)."""
        ...


class Flawless:
    """A disk that writes one commit after the other, a millisecond each, and never fails."""

    def write_s(self) -> float:
        """Return a millisecond."""
        return 0.001

    def at_once(self, waiting: int) -> int:
        """Return one."""
        return 1

    def fault(self) -> str | None:
        """Return None."""
        return None


class DiskHost(Protocol):
    """The process that a journal is open in."""

    @property
    def alive(self) -> bool:
        """Whether it has not died."""
        ...

    def now(self) -> int:
        """Return the time in nanoseconds since the epoch."""
        ...

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call `callback()` then, unless the process has died."""
        ...

    def point(self, what: str, detail: str) -> None:
        """Be at a point at which the process may die, and does not return if it does."""
        ...


class SimulatedJournal(MemoryJournal):
    """A journal in memory of which a part counts as durable.

    Each append and each write of cells becomes durable when its turn comes, in the order in which they were made.
    `reopened` is what another process finds: what was durable, and no more.
    """

    def __init__(self, host: DiskHost, trouble: Trouble | None = None) -> None:
        super().__init__(clock=host.now, hold=True)
        self._host = host
        self._trouble = trouble or Flawless()
        self._writing = False
        self._broken = False

    def reopened(self, host: DiskHost, trouble: Trouble | None = None) -> SimulatedJournal:
        """Return the journal that another process finds after this one: what was durable, and no more."""
        lost, self._held = self._held, []
        self._position -= sum(len(one.events) for one in lost)
        # Nobody is told: who waited is gone.
        self.fail(JournalClosed(path="memory", reason="its process is gone"))
        journal = SimulatedJournal(host, trouble)
        journal._all, journal._position = list(self._all), self._position
        journal._streams = {stream: list(events) for stream, events in self._streams.items()}
        journal._assigned, journal._deleted = dict(self._assigned), dict(self._deleted)
        values = self._cells._values  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (one of its own)
        journal._cells.apply([CellWrite(key, value) for key, value in values.items()])
        return journal

    async def settled(self) -> None:
        """Wait until nothing is under way any more."""
        while self._held and not self.closed:
            with suppress(JournalError):
                await self._held[-1].commit

    def append(
        self,
        stream: str,
        events: Sequence[NewEvent],
        *,
        expected: int,
        cells: Sequence[CellWrite] = (),
        revive: bool = False,
    ) -> Commit:
        """See `Journal.append`."""
        names = ", ".join(_name(new) for new in events)
        detail = f"{stream} {expected + 1}: {names}"
        self._host.point("before append", detail)
        commit = super().append(stream, events, expected=expected, cells=cells, revive=revive)
        self._host.point("after append", detail)
        self._begin()
        return commit

    def write_cells(self, changes: Sequence[CellWrite]) -> Commit:
        """See `Cells.write`."""
        commit = super().write_cells(changes)
        self._begin()
        return commit

    def check_open(self) -> None:
        """Refuse to go on when the journal was closed, broke, or its process is gone."""
        if self._broken or not self._host.alive:
            reason = "a write failed" if self._broken else "its process is gone"
            raise JournalClosed(path="memory", reason=reason)
        super().check_open()

    @property
    def closed(self) -> bool:
        """Whether nothing can be done with it any more."""
        return super().closed or self._broken or not self._host.alive

    def _begin(self) -> None:
        if not self._writing and self._held:
            self._writing = True
            self._host.later(self._trouble.write_s(), self._write)

    def _write(self) -> None:
        self._writing = False
        if not self._held:
            return
        fault = self._trouble.fault()
        if fault is not None:
            self._fail(fault)
            return
        held = self._held[: self._trouble.at_once(len(self._held))]
        detail = "; ".join(_shown(one.commit) for one in held)
        self._host.point("before commit", detail)
        outcomes = self._settle(len(held))
        # It is durable, and nobody knows yet.
        self._host.point("after commit", detail)
        Commit.resolve_all(outcomes)
        self._watchers.notify({commit.stream for commit, error in outcomes if error is None})
        self._begin()

    def _settle(self, count: int) -> list[tuple[Commit, Exception | None]]:
        """Make the oldest commits durable, and return how each of them ended."""
        held, self._held = self._held[:count], self._held[count:]
        return [(one.commit, self._apply(one)) for one in held]

    def _fail(self, fault: str) -> None:
        if fault == FULL:
            self.fail(JournalFull(path="memory", reason="the disk is full for a moment"))
            return
        commits = [one.commit for one in self._held]
        streams = tuple(sorted({commit.stream for commit in commits} - {""}))
        self._settle(self._trouble.at_once(len(commits)))
        self._broken = True
        error = AppendUnknown(streams=streams, reason="the disk did not answer")
        Commit.resolve_all((commit, error) for commit in commits)
        self._watchers.notify_all()


def _shown(commit: Commit) -> str:
    if not commit.stream:
        return "cells"
    return f"{commit.stream} {commit.first_sequence}-{commit.last_sequence}"


def _name(new: NewEvent) -> str:
    head, _, rest = new.canonical[:200].partition(b'"event":"')
    return (rest.partition(b'"')[0] or head[:40]).decode(errors="replace")
