"""The journal on one machine: a commit log and sealed segments in LMDB, one writing process, any number of readers.

Group commit: whatever is appended while the disk syncs becomes the next value of the log, one transaction, one sync.
In the background the events of the log are sealed into compressed segments by stream, and the log is dropped behind
them; where the events of the log are is an index in memory, read from the log when it is opened.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Self

from ..codec import Catalog
from ..commit import Commit
from ..errors import CorruptRecord, ReadOnlyJournal
from ..event import GENESIS, Head, NewEvent, RecordedEvent
from ..journal import CellWrite, Page, check_after, check_cells, check_events
from ..report import Report
from ..watch import Watchers
from .backup import back_up
from .cells import LmdbCells
from .chunks import ChunkStore
from .compaction import Compaction, compact
from .compression import Codec
from .environment import Durability, Environment
from .heads import list_heads
from .index import Index
from .report import examine
from .scan import StreamScan
from .scan_all import JournalScan
from .sealer import Sealer
from .sealing import Sealing
from .segment import Loader
from .tail import Tail
from .writer import Writer

__all__ = ["LmdbJournal", "Stats"]


class Stats(NamedTuple):
    """How large a journal is: on disk, in the address space, in events and in streams, and what of it is sealed.

    `free_bytes` of the file are there to be used again. `oldest_reader_s` is the age of the oldest reading transaction
    of this process, and `reader_lag` how many commits the oldest of any process is behind: space that was freed since
    cannot be used again before it ends.
    """

    bytes_on_disk: int
    free_bytes: int
    map_bytes: int
    events: int
    streams: int
    sealed_events: int
    layout: int
    oldest_reader_s: float
    reader_lag: int


class LmdbJournal:
    """A journal in the directory `path`, made when it is not there. One process writes, any number read.

    An acknowledged append survives power loss with `durability="commit"`. With "relaxed" the last commit before a
    power loss may be undone, which makes a commit nearly twice as fast; nothing is ever corrupted by it, and the end
    of the process alone loses nothing.

    The map starts at `map_bytes` and grows by itself. `max_readers` bounds the reading transactions under way at one
    time in all processes; the first one to open the journal decides. A `readonly` handle sees what another process
    appends: reads look for it, and watches every `poll_s` seconds.

    Once `seal_after` events are in the log, or a thousand and nothing happens or the journal closes, they are sealed:
    compressed to a fraction and dropped from the log. To open the journal costs what the log holds. With None, only
    `compact` seals.

    Raises:
        JournalLocked: another process writes, or this one has the journal open already.
        JournalForked: the process that this one was forked from has it open.
        ForeignJournal: what is at `path` is not a journal, or is cut short; nothing was changed.
        NewerJournal: a newer version of Clew wrote it.
        OutdatedJournal: it has an older layout, and must be migrated before anything is written (`migrate`).
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
        seal_after: int | None = 20_000,
    ) -> None:
        if durability not in ("commit", "relaxed"):
            raise ValueError(f"durability={durability!r}: it is 'commit' or 'relaxed'")
        if seal_after is not None and seal_after < 1:
            raise ValueError(f"seal_after={seal_after}: it is a number of events from 1, or None")
        self._env = Environment(
            Path(path), readonly=readonly, durability=durability, map_bytes=map_bytes, readers_max=max_readers
        )
        self._index = Index(self._env)
        self._watchers = Watchers()
        self._codec = Codec()
        self._loader = Loader(self._codec, ChunkStore(self._env, self._codec).load)
        self._tail = Tail(self._env, self._index, self._codec, self._watchers, poll_s=poll_s)
        self._writer: Writer | None = None
        try:
            self._tail.catch_up()
            if self._index.damage and not readonly:
                raise CorruptRecord(where=str(path), reason=f"{self._index.damage}; readonly=True opens it for reading")
        except BaseException:
            self._tail.close()
            raise
        if readonly:
            close = self._tail.close
        else:
            self._writer = Writer(self._env, self._index, self._watchers, self._codec, clock)
            self._sealing = Sealing(self._env, self._index, self._writer, self._loader)
            if seal_after is not None:
                self._writer.attach(Sealer(self._index, self._sealing, after_events=seal_after))
            close = self._writer.close
        # A journal that nobody holds any more, or that is open when the process ends, is closed like any other.
        weakref.finalize(self, close)

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
        found = self._index.find(stream) or self._index.own(stream)
        return writer.append(found, events, expected, cells, revive=revive)

    def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
        """See `Journal.read`."""
        return self._scan(stream, after).events(after)

    def pages(self, stream: str, catalog: Catalog, *, after: int = 0) -> Iterator[Page]:
        """See `Journal.pages`."""
        return self._scan(stream, after).pages(catalog, after)

    def _scan(self, stream: str, after: int) -> StreamScan:
        check_after(after)
        with self._steady():
            return StreamScan(self._env, self._index, self._loader, self._look, stream, after)

    def read_all(self, *, after: int = 0, category: str | None = None) -> Iterator[RecordedEvent]:
        """See `Journal.read_all`."""
        check_after(after)
        with self._steady():
            until = self._index.position
        return JournalScan(self._env, self._index, self._loader, self._look, until=until, category=category).events(
            after
        )

    def head(self, stream: str) -> Head:
        """See `Journal.head`."""
        with self._steady():
            found = self._index.look(stream)
            return found.head if found else Head(stream, 0, GENESIS)

    def streams(self, category: str | None = None) -> Iterator[Head]:
        """See `Journal.streams`."""
        with self._steady():
            return list_heads(self._env, self._index, category, self._steady)

    def delete(self, stream: str, *, expected: int) -> Commit:
        """See `Journal.delete`. The bytes leave the file with the next `compact`, at the latest."""
        writer = self._writing()
        return writer.delete(self._index.own(stream), expected)

    def watch(self, notify: Callable[[], None], *, stream: str | None = None) -> Callable[[], None]:
        """See `Journal.watch`. With `readonly`, another process's commits are noticed within `poll_s` seconds."""
        self._look()
        if self._writer is None:
            self._tail.watch()
        return self._watchers.add(notify, stream)

    def verify(self) -> Report:
        """Read everything again and say what is wrong with it; damage is reported, never raised.

        Others append and read meanwhile. Where pages of the file are damaged, nothing else is examined: LMDB might end
        the process over them.
        """
        self._look()
        return examine(self._env, self._index, self._loader)

    def compact(self) -> Compaction:
        """Seal everything, join small segments, and let go of chunks that nothing names; return what that did.

        Appends and reads go on meanwhile. The space is used again; the file itself becomes smaller when the journal is
        closed and `clew.journal.lmdb.shrink` run on its directory. Waits until all is durable.

        Raises:
            ReadOnlyJournal, JournalClosed, JournalFull, AppendUnknown: as for `append`; nothing is lost by them.
        """
        return compact(self._env, self._index, self._writing(), self._sealing, self._loader)

    def backup(self, folder: str | PathLike[str]) -> Path:
        """Write a consistent copy of the journal as of now into `folder`, which must not exist; return its path.

        Appends and reads go on meanwhile. The copy is compact, complete and synced when this returns, or not there.
        Open it, or put it in place with `restore`.

        Raises:
            FileExistsError: there is something at `folder`.
            OSError: it could not be written; what was written of it was removed.
        """
        self._look()
        return back_up(self._env, Path(folder))

    def stats(self) -> Stats:
        """Return how large the journal is."""
        with self._steady():
            streams, events = self._index.count()
            waiting = self._index.position - self._index.sealed
        free_bytes, map_bytes = self._env.room()
        return Stats(
            bytes_on_disk=self._env.size_bytes,
            free_bytes=free_bytes,
            map_bytes=map_bytes,
            events=events,
            streams=streams,
            sealed_events=max(0, events - waiting),
            layout=self._env.meta.layout,
            oldest_reader_s=self._env.oldest_reader_s(),
            reader_lag=self._env.reader_lag(),
        )

    def close(self) -> None:
        """See `Journal.close`. In a fork it does nothing: the files are the parent's."""
        (self._writer or self._tail).close()

    def _look(self) -> None:
        """Make sure that this handle can read, and has seen what is durable."""
        with self._steady():
            pass

    def _steady(self) -> AbstractContextManager[None]:
        """See `_look`; and keep the index as it is, where it is another process that changes it."""
        self._env.check()
        return nullcontext() if self._writer is not None else self._tail.steady()

    def _writing(self) -> Writer:
        self._env.check()
        if self._writer is None:
            raise ReadOnlyJournal(path=str(self._env.path))
        return self._writer

    def _write_cells(self, changes: Sequence[CellWrite]) -> Commit:
        writer = self._writing()
        check_cells(changes, conditions=True)
        return writer.change(changes)
