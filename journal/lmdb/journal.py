"""The journal on one machine: a commit log in LMDB, one writing process, any number of reading ones.

Group commit: whatever is appended while the disk syncs becomes the next value of the log, one transaction, one sync.
Which events belong to which stream is an index in memory, read from the log when it is opened.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Self

from ..codec import Catalog
from ..commit import Commit
from ..errors import CorruptRecord, ReadOnlyJournal, WrongExpectedSequence
from ..event import GENESIS, Head, NewEvent, RecordedEvent, category_of, check_stream
from ..journal import CellWrite, Page, check_after, check_cells, check_events
from ..paging import pages_of
from ..watch import Watchers
from .cells import LmdbCells
from .environment import Durability, Environment
from .index import Index, Stream
from .report import Report, examine
from .scan import Place, log_events, stream_events
from .tail import Tail
from .writer import Writer

__all__ = ["LmdbJournal", "Stats"]


class Stats(NamedTuple):
    """How large a journal is: on disk, in the address space, in events and in streams."""

    bytes_on_disk: int
    map_bytes: int
    events: int
    streams: int


class LmdbJournal:
    """A journal in the directory `path`, made when it is not there. One process writes, any number read.

    An acknowledged append survives power loss with `durability="commit"`. With "relaxed" the last commit before a
    power loss may be undone, which makes a commit nearly twice as fast; nothing is ever corrupted by it, and the end
    of the process alone loses nothing.

    The map starts at `map_bytes` and grows by itself. `max_readers` bounds the reading transactions under way at one
    time in all processes; the first one to open the journal decides. A `readonly` handle sees what another process
    appends: reads look for it, and watches every `poll_s` seconds.

    Raises:
        JournalLocked: another process writes, or this one has the journal open already.
        JournalForked: the process that this one was forked from has it open.
        ForeignJournal: what is at `path` is not a journal, is cut short, or of a newer layout; nothing was changed.
        CorruptRecord: commits are missing from the log; open it with `readonly=True` to look at the rest.
        OSError: the files cannot be opened or made.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        clock: Callable[[], int] = time.time_ns,
        readonly: bool = False,
        durability: Durability = "commit",
        map_bytes: int = 16 * 1024 * 1024,
        max_readers: int = 512,
        poll_s: float = 0.2,
    ) -> None:
        if durability not in ("commit", "relaxed"):
            raise ValueError(f"durability={durability!r}: it is 'commit' or 'relaxed'")
        self._env = Environment(
            Path(path), readonly=readonly, durability=durability, map_bytes=map_bytes, readers_max=max_readers
        )
        self._index = Index()
        self._watchers = Watchers()
        self._tail = Tail(self._env, self._index, self._watchers, poll_s=poll_s)
        self._writer: Writer | None = None
        try:
            self._tail.catch_up()
            if self._index.damage and not readonly:
                raise CorruptRecord(where=str(path), reason=f"{self._index.damage}; readonly=True opens it for reading")
        except BaseException:
            self._tail.close()
            raise
        if not readonly:
            self._writer = Writer(self._env, self._index, self._watchers, clock)
        # A journal that nobody holds any more, or that is open when the process ends, is closed like any other.
        weakref.finalize(self, self._writer.close if self._writer else self._tail.close)

    def __enter__(self) -> Self:
        """Close the journal at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """See `close`."""
        self.close()

    @property
    def path(self) -> Path:
        """The journal's directory."""
        return self._env.path

    @property
    def cells(self) -> LmdbCells:
        """The key/value space beside the streams."""
        return LmdbCells(self._env, self._write_cells)

    @property
    def closed(self) -> bool:
        """Whether `close` was called, or a failed write closed it."""
        return bool(self._env.ended)

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
        # What cannot go wrong in most appends is looked at in few steps here, and in full where it seems to.
        writer = self._writer
        if writer is None or self._env.ended:
            writer = self._writing()
        if not events:
            check_events(stream, events)
        if cells:
            check_cells(cells, conditions=False)
        found = self._index.find(stream) or self._begin(stream, expected)
        return writer.append(found, events, expected, cells)

    def _begin(self, stream: str, expected: int) -> Stream:
        check_stream(stream)
        if expected != 0:
            raise WrongExpectedSequence(stream=stream, expected=expected, actual=0)
        return self._index.add(stream)

    def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
        """See `Journal.read`."""
        check_after(after)
        self._look()
        found = self._index.find(stream)
        return self._events(found, after, found.durable.sequence) if found else iter(())

    def _events(self, stream: Stream, after: int, until: int) -> Iterator[RecordedEvent]:
        while after < until:
            events, error = stream_events(self._env, self._index, stream, after=after, until=until)
            yield from events
            if error:
                raise error
            after += len(events)

    def pages(self, stream: str, catalog: Catalog, *, after: int = 0) -> Iterator[Page]:
        """See `Journal.pages`."""
        return pages_of(self.read(stream, after=after), catalog)

    def delete(self, stream: str, *, expected: int) -> Commit:
        """See `Journal.delete`."""
        raise NotImplementedError

    def read_all(self, *, after: int = 0, category: str | None = None) -> Iterator[RecordedEvent]:
        """See `Journal.read_all`."""
        check_after(after)
        self._look()
        events = self._all_events((after + 1, 0), self._index.position)
        return (event for event in events if category in (None, category_of(event.stream)))

    def _all_events(self, place: Place, until: int) -> Iterator[RecordedEvent]:
        while place[0] <= until:
            events, place, error = log_events(self._env, self._index, start=place, until=until)
            yield from events
            if error:
                raise error

    def head(self, stream: str) -> Head:
        """See `Journal.head`."""
        self._look()
        found = self._index.find(stream)
        return Head(stream, found.durable.sequence, found.durable.digest) if found else Head(stream, 0, GENESIS)

    def streams(self, category: str | None = None) -> Iterator[Head]:
        """See `Journal.streams`."""
        self._look()
        return iter(self._index.heads(category))

    def watch(self, notify: Callable[[], None], *, stream: str | None = None) -> Callable[[], None]:
        """See `Journal.watch`. With `readonly`, another process's commits are noticed within `poll_s` seconds."""
        self._look()
        if self._writer is None:
            self._tail.watch()
        return self._watchers.add(notify, stream)

    def verify(self) -> Report:
        """Read everything again and say what is wrong with it; damage is reported, never raised."""
        self._look()
        return examine(self._env, self._index)

    def stats(self) -> Stats:
        """Return how large the journal is."""
        self._look()
        streams, events = self._index.count()
        return Stats(self._env.size_bytes, self._env.map_bytes, events, streams)

    def close(self) -> None:
        """See `Journal.close`. In a fork it does nothing: the files are the parent's."""
        (self._writer or self._tail).close()

    def _look(self) -> None:
        """Make sure that this handle can read, and has seen what is durable."""
        self._env.check()
        if self._writer is None:
            self._tail.catch_up()

    def _writing(self) -> Writer:
        self._env.check()
        if self._writer is None:
            raise ReadOnlyJournal(path=str(self._env.path))
        return self._writer

    def _write_cells(self, changes: Sequence[CellWrite]) -> Commit:
        writer = self._writing()
        check_cells(changes, conditions=True)
        return writer.change(changes)
