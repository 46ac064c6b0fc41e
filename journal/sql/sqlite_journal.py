"""The journal in a file on one machine: one writing process, any number of reading ones.

Group commit: whatever is appended while the disk syncs becomes the next transaction, with one sync.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

from ..errors import CorruptRecord, JournalForked
from ..lock import Claim
from ..report import Report
from .commits import Commits
from .files import check_file, find_or_create, lock_file, probe, refusing
from .journal import SqlJournal
from .sqlite import Readers, WritingConnection
from .statements import TALLY
from .tail import Tail
from .thread import WriterThread

__all__ = ["SqliteJournal", "Stats"]

# A fork is told to them, since to ask for the process id at every append would cost more than its other checks.
_open: WeakSet[SqliteJournal] = WeakSet()


def _tell_forks() -> None:
    for journal in list(_open):
        journal.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell_forks)


class Stats(NamedTuple):
    """How large a journal is: on disk, in events and in streams that were not deleted."""

    bytes_on_disk: int
    events: int
    streams: int


class SqliteJournal(SqlJournal):
    """A journal in the SQLite file `path`, made when it is not there. One process writes, any number read.

    An acknowledged append survives power loss. Beside the file lie its log (`-wal`, `-shm`) and a lock (`.lock`); a
    copy of the file alone is a backup only when the journal was closed.

    A `readonly` handle sees what another process appends: reads look for it, and watches every `poll_s` seconds.

    Raises:
        JournalLocked: another process writes, or this one has the journal open already.
        JournalForked: the process that this one was forked from has it open.
        ForeignJournal: what is at `path` is not a journal, is cut short, or of a newer layout; nothing was changed.
        CorruptRecord: SQLite cannot read its own pages.
        OSError: the file cannot be opened or made.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        clock: Callable[[], int] = time.time_ns,
        readonly: bool = False,
        poll_s: float = 0.2,
    ) -> None:
        # A journal goes on being where it was when somebody changes the working directory.
        self._path = path = Path(path).absolute()
        self._pid = os.getpid()
        self._poll_s = poll_s
        self._tail: Tail | None = None
        find_or_create(path, readonly=readonly)
        claim = Claim(path, lock_file=lock_file(path))
        writing: WritingConnection | None = None
        try:
            with refusing(path):
                check_file(path)
                mode = probe(path, readonly=readonly)
                if not readonly:
                    claim.lock()
                    writing = WritingConnection(path)
                self._readers = Readers(path, mode)
                super().__init__(
                    writing or self._readers,
                    clock=clock,
                    reading=self._readers,
                    readonly=readonly,
                    runner=self._follow if readonly else WriterThread,
                    let_go=partial(_let_go, self._readers, writing, claim),
                )
        except BaseException:
            if writing is not None:
                writing.close()
            claim.release()
            raise
        _open.add(self)
        # A journal that nobody holds any more, or that is open when the process ends, is closed like any other.
        weakref.finalize(self, self._runner.close)

    @property
    def path(self) -> Path:
        """The journal's file."""
        return self._path

    def watch(self, notify: Callable[[], None], *, stream: str | None = None) -> Callable[[], None]:
        """See `Journal.watch`. With `readonly`, another process's commits are noticed within `poll_s` seconds."""
        self._check()
        if self._tail is not None:
            self._tail.watch()
        return super().watch(notify, stream=stream)

    def verify(self) -> Report:
        """Read everything again and say what is wrong with it; damage is reported, never raised."""
        report = super().verify()
        try:
            for (problem,) in self._readers.execute("PRAGMA integrity_check(100)"):
                if problem != "ok":
                    report.add(f"{self._path}: {problem}")
        except CorruptRecord as error:
            report.add(f"{error.where}: {error.reason}")
        return report

    def stats(self) -> Stats:
        """Return how large the journal is."""
        self._check()
        events, streams = self._readers.execute(TALLY)[0]
        log = Path(f"{self._path}-wal")
        size_bytes = self._path.stat().st_size + (log.stat().st_size if log.exists() else 0)
        return Stats(size_bytes, events, streams)

    def forked(self) -> None:
        """Refuse everything from now on: this process is a fork, and the file is its parent's."""
        self._commits.refusal = partial(JournalForked, path=str(self._path), opened_by=self._pid, pid=os.getpid())

    def _follow(self, commits: Commits) -> Tail:
        self._tail = Tail(commits, self._readers, self._watchers, poll_s=self._poll_s)
        return self._tail


def _let_go(readers: Readers, writing: WritingConnection | None, claim: Claim) -> None:
    readers.close()
    if writing is not None:
        # The last to go: it empties the log into the file.
        writing.close()
    claim.release()
