"""What waits to be written, and the ends of the streams it changes: taken from any thread, written in groups.

An append is checked, numbered and made rows of on its caller's thread. Whoever drains joins what waits into one
transaction, and says so when it is durable; what comes meanwhile is the next one. That may be a thread of its own, or
whoever brings the work where there are no threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, Protocol

from ..commit import Commit
from ..errors import AppendUnknown, JournalClosed, JournalError, JournalFull
from ..watch import Watchers
from .execute import Execute, NoRoom
from .streams import GONE, START, End, Found, Stream
from .writing import Batch, Last, Write

__all__ = ["AtOnce", "Commits", "Runner"]

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""How much goes into one transaction; a single append may be larger."""

STREAMS_MAX: Final = 10_000
"""How many streams are remembered on which nothing is under way."""


class Runner(Protocol):
    """Sees to it that what waits is written."""

    def wake(self) -> None:
        """Do so soon: there is something again."""
        ...

    def close(self) -> None:
        """Take no more; return when what waits is durable and the database was let go of."""
        ...


class Commits:
    """The queue in front of a database."""

    def __init__(
        self,
        database: Execute,
        last: Last,
        *,
        watchers: Watchers,
        find: Callable[[str], Found | None],
        let_go: Callable[[], None] | None = None,
    ) -> None:
        self._database = database
        self._last = last
        self._watchers = watchers
        self._find = find
        self._let_go = let_go
        self._lock = threading.Lock()
        self._streams: dict[str, Stream] = {}
        self._waiting: list[Write] = []
        self._draining = False
        self._finished = False
        self.refusal: Callable[[], JournalError] | None = None
        """Makes the error of whoever uses the journal after its end; None until then."""

    def check(self) -> None:
        """Refuse to go on when the journal has ended.

        Raises:
            JournalClosed, JournalForked: see `clew.journal.errors`.
        """
        if self.refusal is not None:
            raise self.refusal()

    def stream(self, name: str) -> Stream:
        """Return a stream with the end that counts what is under way."""
        with self._lock:
            found = self._streams.get(name)
            if found is None:
                # Looked up under the lock: else it might grow, and be forgotten, before it is remembered here.
                there = self._find(name)
                found = Stream(name, there.number, there.end) if there else Stream(name, 0, START)
                if len(self._streams) >= STREAMS_MAX:
                    self._forget()
                self._streams[name] = found
            return found

    def _forget(self) -> None:
        for stream in list(islice(self._streams.values(), STREAMS_MAX // 10)):
            if stream.assigned is stream.durable:
                stream.assigned = GONE
                del self._streams[stream.name]

    def put(self, write: Write, before: End | None = None) -> bool:
        """Take a write; False when its stream does not end `before` it any more, and nothing was taken."""
        with self._lock:
            self.check()
            if write.stream is not None:
                if write.stream.assigned is not before:
                    return False
                write.stream.assigned = write.end
            self._waiting.append(write)
            return True

    def drain(self) -> bool:
        """Write what waits; return whether there may be more some day. One thread at a time does, the others return."""
        with self._lock:
            if self._draining or self._finished:
                return not self._finished
            self._draining = True
        try:
            while batch := self._take():
                self._write(batch)
        except BaseException:
            # A callback has raised a signal: it goes out, and what waits is left to whoever drains next.
            self._draining = False
            raise
        if self.refusal is None:
            return True
        self.finish()
        return False

    def end(self, reason: str) -> None:
        """Take no more."""
        with self._lock:
            self.refusal = self.refusal or partial(JournalClosed, path=self._database.name, reason=reason)

    def finish(self) -> None:
        """Fail what still waits, let go of the database and tell the watchers; done once, after the end."""
        with self._lock:
            if self._finished:
                return
            self._finished = True
        self._fail([], partial(self._unknown, "the writer has stopped"))
        if self._let_go is not None:
            self._let_go()
        self._watchers.notify_all()

    def _take(self) -> Sequence[Write]:
        """Return what goes into the next transaction; when it is nothing, the drain is over."""
        with self._lock:
            count = size_bytes = 0
            for write in self._waiting:
                if count and size_bytes + write.size_bytes > BATCH_BYTES_MAX:
                    break
                size_bytes += write.size_bytes
                count += 1
            batch, self._waiting = self._waiting[:count], self._waiting[count:]
            self._draining = bool(batch)
            return batch

    def _write(self, writes: Sequence[Write]) -> None:
        # Rolled back or not, a batch is executed once: what it has learned counts only when it is durable.
        batch = Batch(self._database, writes, self._last)
        try:
            self._database.atomically(batch.execute)
        except NoRoom as error:
            self._fail(writes, partial(self._full, str(error)))
            return
        except Exception as error:  # noqa: BLE001  (whatever it was, what is on disk is unknown: stop here)
            self.end(f"a write failed: {error}")
            self._fail(writes, partial(self._unknown, str(error)))
            return
        self._publish(batch, writes)
        Commit.resolve_all((write.commit, batch.conflicts.get(place)) for place, write in enumerate(writes))
        self._watchers.notify(write.commit.stream for write in writes)

    def _publish(self, batch: Batch, writes: Sequence[Write]) -> None:
        with self._lock:
            self._last = batch.last
            for write in writes:
                if write.stream is not None:
                    write.stream.durable = write.end
                    write.stream.number = batch.numbers.get(write.stream.name, write.stream.number)

    def _fail(self, failed: Sequence[Write], error: Callable[[Write], JournalError]) -> None:
        """Fail these and all that wait behind them; their streams end again where they are durable."""
        with self._lock:
            failed = [*failed, *self._waiting]
            self._waiting = []
            for write in failed:
                if write.stream is not None:
                    write.stream.assigned = write.stream.durable
        Commit.resolve_all((write.commit, error(write)) for write in failed)

    def _full(self, reason: str, _: Write) -> JournalFull:
        return JournalFull(path=self._database.name, reason=reason)

    def _unknown(self, reason: str, write: Write) -> AppendUnknown:
        return AppendUnknown(streams=(write.commit.stream,) if write.commit.stream else (), reason=reason)


class AtOnce:
    """Writes on the thread that brings the work: when an append returns, it is durable or has failed.

    Only in a callback of a commit it is not so yet: then what the callback appends is written behind that commit.
    """

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    def wake(self) -> None:
        """See `Runner.wake`."""
        self._commits.drain()

    def close(self) -> None:
        """See `Runner.close`."""
        self._commits.end("close() was called")
        self._commits.drain()
