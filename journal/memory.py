"""The reference journal: the whole contract in memory, meant to be read.

It is a journal for tests and for what may be forgotten. With `hold=True` commits stay under way until `flush()` or
`fail()`, so that a test can look at what a slow or failing disk does to everything above.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self

from .codec import Catalog, chain
from .commit import Commit
from .errors import CellConflict, JournalClosed, StreamDeleted, WrongExpectedSequence
from .event import GENESIS, Head, NewEvent, RecordedEvent, category_of, check_stream
from .journal import CellWrite, Page, check_after, check_cells, check_events, holds
from .paging import pages_of
from .watch import Watchers

__all__ = ["MemoryJournal"]


class _End(NamedTuple):
    """Where a stream ends: what the next event continues."""

    sequence: int = 0
    digest: bytes = GENESIS
    recorded_at: int = 0
    deleted: bool = False


class _Held(NamedTuple):
    """A commit under way: what becomes visible when it is flushed; without events, perhaps a stream that ends."""

    commit: Commit
    events: list[RecordedEvent]
    cells: Sequence[CellWrite]
    deleted: Head | None = None


class MemoryJournal:
    """A journal that lives and dies with the process.

    `clock` gives nanoseconds since the epoch, UTC.
    """

    def __init__(self, *, clock: Callable[[], int] = time.time_ns, hold: bool = False) -> None:
        self._clock = clock
        self._hold = hold
        self._lock = threading.RLock()
        self._closed = False
        self._position = 0
        self._all: list[RecordedEvent] = []
        self._streams: dict[str, list[RecordedEvent]] = {}
        # Where streams end when all that is under way has become durable.
        self._assigned: dict[str, _End] = {}
        self._deleted: dict[str, Head] = {}
        self._held: list[_Held] = []
        self._watchers = Watchers()
        self._cells = MemoryCells(self)

    def __enter__(self) -> Self:
        """Close the journal at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """See `close`."""
        self.close()

    @property
    def cells(self) -> MemoryCells:
        """The key/value space beside the streams."""
        return self._cells

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

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
        self.check_open()
        check_events(stream, events)
        check_cells(cells, conditions=False)
        with self._lock:
            self.check_open()
            last = self._assigned.get(stream)
            if last is None:
                check_stream(stream)
                last = _End()
            if last.deleted:
                if not (revive and expected == 0):
                    raise StreamDeleted(stream=stream, sequence=last.sequence, digest=last.digest)
                last = _End()
            if last.sequence != expected:
                raise WrongExpectedSequence(stream=stream, expected=expected, actual=last.sequence)
            recorded, end = self._record(stream, last, events)
            self._assigned[stream] = end
            commit = Commit(stream=stream, first_sequence=expected + 1, last_sequence=end.sequence, digest=end.digest)
            self._held.append(_Held(commit, recorded, cells))
        if not self._hold:
            self.flush()
        return commit

    def _record(self, stream: str, last: _End, events: Sequence[NewEvent]) -> tuple[list[RecordedEvent], _End]:
        sequence, digest, recorded_at, _ = last
        now = self._clock()
        recorded: list[RecordedEvent] = []
        for new in events:
            sequence += 1
            self._position += 1
            digest = chain(digest, new.canonical)
            recorded_at = max(recorded_at, new.recorded_at or now)
            recorded.append(
                RecordedEvent(stream, sequence, self._position, recorded_at, new.cause, digest, new.canonical)
            )
        return recorded, _End(sequence, digest, recorded_at)

    def flush(self) -> None:
        """Make everything under way durable."""
        with self._lock:
            held, self._held = self._held, []
            outcomes = [(one, self._apply(one)) for one in held]
        Commit.resolve_all((one.commit, error) for one, error in outcomes)
        self._watchers.notify({one.commit.stream for one, error in outcomes if error is None})

    def _apply(self, one: _Held) -> CellConflict | None:
        if error := self._cells.conflict(one.cells):
            return error
        if one.deleted is not None:
            stream = one.deleted.stream
            self._deleted[stream] = one.deleted
            self._all = [event for event in self._all if event.stream != stream]
            self._streams.pop(stream, None)
        for recorded in one.events:
            self._deleted.pop(recorded.stream, None)
            self._all.append(recorded)
            self._streams.setdefault(recorded.stream, []).append(recorded)
        self._cells.apply(one.cells)
        return None

    def fail(self, error: Exception) -> None:
        """Let everything under way fail with `error`, as a disk would."""
        with self._lock:
            held, self._held = self._held, []
            self._position -= sum(len(one.events) for one in held)
            self._assigned = {stream: _End(*head[1:3], 0, deleted=True) for stream, head in self._deleted.items()}
            for stream, events in self._streams.items():
                last = events[-1]
                self._assigned[stream] = _End(last.sequence, last.digest, last.recorded_at)
        Commit.resolve_all((one.commit, error) for one in held)

    def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
        """See `Journal.read`."""
        check_after(after)
        with self._lock:
            self.check_open()
            deleted = self._deleted.get(stream)
            if deleted is not None:
                raise StreamDeleted(stream=stream, sequence=deleted.sequence, digest=deleted.digest)
            return iter(self._streams.get(stream, [])[after:])

    def pages(self, stream: str, catalog: Catalog, *, after: int = 0) -> Iterator[Page]:
        """See `Journal.pages`."""
        return pages_of(self.read(stream, after=after), catalog)

    def read_all(self, *, after: int = 0, category: str | None = None) -> Iterator[RecordedEvent]:
        """See `Journal.read_all`."""
        check_after(after)
        with self._lock:
            self.check_open()
            found = self._all[bisect_right(self._all, after, key=lambda event: event.position) :]
        return (event for event in found if category in (None, category_of(event.stream)))

    def head(self, stream: str) -> Head:
        """See `Journal.head`."""
        with self._lock:
            self.check_open()
            events = self._streams.get(stream)
            if events:
                return Head(stream, events[-1].sequence, events[-1].digest)
            return self._deleted.get(stream, Head(stream, 0, GENESIS))

    def streams(self, category: str | None = None) -> Iterator[Head]:
        """See `Journal.streams`."""
        with self._lock:
            self.check_open()
            names = {*self._streams, *self._deleted}
            return iter([self.head(name) for name in sorted(names) if category in (None, category_of(name))])

    def delete(self, stream: str, *, expected: int) -> Commit:
        """See `Journal.delete`."""
        with self._lock:
            self.check_open()
            last = self._assigned.get(stream, _End())
            if last.sequence != expected:
                raise WrongExpectedSequence(stream=stream, expected=expected, actual=last.sequence)
            commit = Commit(stream=stream, first_sequence=1, last_sequence=last.sequence, digest=last.digest)
            there = last.sequence > 0 and not last.deleted
            if there:
                self._assigned[stream] = last._replace(deleted=True)
            head = Head(stream, last.sequence, last.digest, deleted=True) if there else None
            self._held.append(_Held(commit, [], (), head))
        if not self._hold:
            self.flush()
        return commit

    def watch(self, notify: Callable[[], None], *, stream: str | None = None) -> Callable[[], None]:
        """See `Journal.watch`."""
        self.check_open()
        return self._watchers.add(notify, stream)

    def close(self) -> None:
        """See `Journal.close`."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.flush()
        self._watchers.notify_all()

    def check_open(self) -> None:
        """Refuse to go on when the journal was closed."""
        if self._closed:
            raise JournalClosed(path="memory")

    def write_cells(self, changes: Sequence[CellWrite]) -> Commit:
        """See `Cells.write`."""
        check_cells(changes, conditions=True)
        with self._lock:
            self.check_open()
            commit = Commit()
            self._held.append(_Held(commit, [], changes))
        if not self._hold:
            self.flush()
        return commit


class MemoryCells:
    """The cells of a memory journal: a dict, scanned in byte order."""

    def __init__(self, journal: MemoryJournal) -> None:
        self._journal = journal
        self._values: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        """See `Cells.get`."""
        self._journal.check_open()
        return self._values.get(key)

    def scan(self, prefix: bytes, *, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """See `Cells.scan`."""
        self._journal.check_open()
        keys = sorted(self._values)
        found = (key for key in keys[bisect_right(keys, after) if after else 0 :] if key.startswith(prefix))
        return ((key, value) for key in found if (value := self._values.get(key)) is not None)

    def write(self, changes: Sequence[CellWrite]) -> Commit:
        """See `Cells.write`."""
        return self._journal.write_cells(changes)

    def conflict(self, changes: Sequence[CellWrite]) -> CellConflict | None:
        """Return what stands in the way of the changes, if anything does."""
        for change in changes:
            if not holds(change, self._values.get(change.key)):
                return CellConflict(key=change.key)
        return None

    def apply(self, changes: Sequence[CellWrite]) -> None:
        """Make the changes."""
        for change in changes:
            if change.value is None:
                self._values.pop(change.key, None)
            else:
                self._values[change.key] = change.value
