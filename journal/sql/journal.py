"""The journal over a SQL database: in a Durable Object as it is, on one machine behind `SqliteJournal`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Self

from ..codec import Catalog
from ..commit import Commit
from ..errors import ReadOnlyJournal, WrongExpectedSequence
from ..event import GENESIS, Head, NewEvent, RecordedEvent, check_stream
from ..journal import CellWrite, Page, check_after, check_cells, check_events
from ..paging import pages_of
from ..report import Report
from ..watch import Watchers
from .cells import SqlCells
from .commits import AtOnce, Commits, Runner
from .events import encode
from .examine import examine
from .execute import Execute, Reading
from .layout import prepare
from .reading import Reader, deleted
from .statements import LAST_NUMBER, LAST_POSITION
from .streams import START, End, Found, find, heads
from .writing import Last, Write

__all__ = ["SqlJournal"]


class SqlJournal:
    """A journal in a SQL database that nobody else writes to; its tables are made when they are not there.

    Needs no thread: a commit is durable when the database says so, which is before `append` returns. `clock` gives
    nanoseconds since the epoch, UTC. A host with threads hands over where to read beside the one that writes, what
    runs the commits, and what lets go of the files.

    Raises:
        ForeignJournal: the tables are of a newer layout.
    """

    def __init__(
        self,
        database: Execute,
        *,
        clock: Callable[[], int] = time.time_ns,
        reading: Reading | None = None,
        readonly: bool = False,
        runner: Callable[[Commits], Runner] = AtOnce,
        let_go: Callable[[], None] | None = None,
    ) -> None:
        if not readonly:
            prepare(database)
        self._name = database.name
        self._clock = clock
        self._readonly = readonly
        self._reading = reading or database
        self._watchers = Watchers()
        last = Last(self._reading.execute(LAST_POSITION)[0][0], self._reading.execute(LAST_NUMBER)[0][0])
        self._commits = Commits(
            database, last, watchers=self._watchers, find=partial(find, self._reading), let_go=let_go
        )
        self._reader = Reader(self._reading, self._commits.check)
        self._runner = runner(self._commits)

    def __enter__(self) -> Self:
        """Close the journal at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """See `close`."""
        self.close()

    @property
    def cells(self) -> SqlCells:
        """The key/value space beside the streams."""
        return SqlCells(self._reading, self._check, self._write_cells)

    @property
    def closed(self) -> bool:
        """Whether `close` was called, or a failed write closed it."""
        return self._commits.refusal is not None

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
        self._check_writing()
        check_events(stream, events)
        check_cells(cells, conditions=False)
        now = self._clock()
        while True:
            found = self._commits.stream(stream)
            if not found.number:
                check_stream(stream)
            before = found.assigned
            begins = before.deleted and revive and expected == 0
            if before.deleted and not begins:
                raise deleted(stream, before)
            last = START if begins else before
            if last.sequence != expected:
                raise WrongExpectedSequence(stream=stream, expected=expected, actual=last.sequence)
            # Not under a lock: to hash and copy megabytes would hold up every other stream. If another append to this
            # stream comes between, it does not end `before` this one any more, and we look again.
            rows, contents, end, size_bytes = encode(stream, last, events, now)
            commit = Commit(stream=stream, first_sequence=expected + 1, last_sequence=end.sequence, digest=end.digest)
            write = Write(commit, found, end, rows, contents, expected == 0, cells, size_bytes)
            if self._commits.put(write, before):
                self._runner.wake()
                return commit

    def delete(self, stream: str, *, expected: int) -> Commit:
        """See `Journal.delete`."""
        self._check_writing()
        while True:
            found = self._commits.stream(stream)
            before = found.assigned
            if before.sequence != expected:
                raise WrongExpectedSequence(stream=stream, expected=expected, actual=before.sequence)
            commit = Commit(stream=stream, first_sequence=1, last_sequence=before.sequence, digest=before.digest)
            # One that is deleted already, or was never there, only waits for what is under way.
            write = Write(commit)
            if before.sequence > 0 and not before.deleted:
                write = Write(commit, found, End(before.sequence, before.digest, 0, deleted=True))
            if self._commits.put(write, before):
                self._runner.wake()
                return commit

    def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
        """See `Journal.read`."""
        check_after(after)
        self._check()
        found = self._found(stream)
        if found is None:
            return iter(())
        if found.end.deleted:
            raise deleted(stream, found.end)
        return self._kept(self._reader.stream(found, after))

    def pages(self, stream: str, catalog: Catalog, *, after: int = 0) -> Iterator[Page]:
        """See `Journal.pages`."""
        return pages_of(self.read(stream, after=after), catalog)

    def read_all(self, *, after: int = 0, category: str | None = None) -> Iterator[RecordedEvent]:
        """See `Journal.read_all`."""
        check_after(after)
        self._check()
        until: int = self._reading.execute(LAST_POSITION)[0][0]
        return self._kept(self._reader.everything(after, until, category))

    def _kept(self, events: Iterator[RecordedEvent]) -> Iterator[RecordedEvent]:
        # Whoever is still reading holds the journal, so that it is not closed for being forgotten.
        yield from events

    def head(self, stream: str) -> Head:
        """See `Journal.head`."""
        self._check()
        found = self._found(stream)
        return found.head if found else Head(stream, 0, GENESIS)

    def streams(self, category: str | None = None) -> Iterator[Head]:
        """See `Journal.streams`."""
        self._check()
        return iter([found.head for found in heads(self._reading, category)])

    def watch(self, notify: Callable[[], None], *, stream: str | None = None) -> Callable[[], None]:
        """See `Journal.watch`."""
        self._check()
        return self._watchers.add(notify, stream)

    def verify(self) -> Report:
        """Read everything again and say what is wrong with it; damage is reported, never raised."""
        self._check()
        return examine(self._reading, self._reader)

    def close(self) -> None:
        """See `Journal.close`."""
        self._runner.close()

    def _found(self, stream: str) -> Found | None:
        return find(self._reading, stream)

    def _check(self) -> None:
        self._commits.check()

    def _check_writing(self) -> None:
        self._commits.check()
        if self._readonly:
            raise ReadOnlyJournal(path=self._name)

    def _write_cells(self, changes: Sequence[CellWrite]) -> Commit:
        self._check_writing()
        check_cells(changes, conditions=True)
        commit = Commit()
        size_bytes = sum(len(change.key) + len(change.value or b"") for change in changes)
        self._commits.put(Write(commit, cells=changes, size_bytes=size_bytes))
        self._runner.wake()
        return commit
