"""The one thread that writes: whatever waits becomes one transaction and one sync.

An append is checked, numbered and encoded on its caller's thread; the writer only joins what waits, puts it at the
end of the log, and says so when it is durable. While it waits for the disk, the next batch gathers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Protocol

from msgspec import structs

from ..commit import Commit
from ..errors import (
    AppendUnknown,
    CellConflict,
    CorruptRecord,
    JournalClosed,
    JournalError,
    JournalFull,
    StreamDeleted,
    WrongExpectedSequence,
)
from ..event import NewEvent
from ..journal import APPEND_BYTES_MAX, CellWrite, check_events
from ..watch import Watchers
from .chunks import write_chunk
from .compression import Codec
from .directory import READERS_CHECK_S
from .environment import Environment, NoRoom
from .frames import START, End, encode, encode_names, value_header
from .index import Index
from .record import StreamRecord, stream_key, write_record
from .stream import BROKEN, DELETED, GONE, Stream
from .transaction import Transaction
from .writes import NO_CHUNKS, Job, Write, batches, change_cells

__all__ = ["Writer"]


class Sealing(Protocol):
    """What seals the log in the background."""

    due_events: int

    def wake(self) -> None:
        """Look whether there is something to seal."""
        ...

    def close(self, *, wait: bool) -> None:
        """Stop after the transaction under way; with `wait`, when it is done, and seal what there is for a moment."""
        ...


class Writer:
    """Takes appends from any thread and makes them durable in groups."""

    def __init__(
        self, env: Environment, index: Index, watchers: Watchers, codec: Codec, clock: Callable[[], int]
    ) -> None:
        self._env = env
        self._codec = codec
        self._index = index
        self._watchers = watchers
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: list[Write] = []
        self._sleeping = False
        self._next_look = 0.0
        self._sealer: Sealing | None = None
        self.named: set[bytes] | None = None
        """While it is a set: the chunks that were named by what was written since."""
        # Held while the writer may sleep; whoever brings the first work lets it go.
        self._wake = threading.Lock()
        self._wake.acquire()
        # A daemon, so that a forgotten journal does not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="clew-journal-writer", daemon=True)
        self._thread.start()

    def attach(self, sealer: Sealing) -> None:
        """Wake `sealer` from now on when the log has grown, and close it first."""
        self._sealer = sealer
        if self._index.position - self._index.sealed >= sealer.due_events:
            sealer.wake()

    def append(
        self, stream: Stream, events: Sequence[NewEvent], expected: int, cells: Sequence[CellWrite], *, revive: bool
    ) -> Commit:
        """Check, number and encode on this thread, and hand over to the writer."""
        now = self._clock()
        while True:
            before = stream.assigned
            # Numbers below 0 stand for streams that are gone, deleted or broken, and are nobody's to expect.
            if before.sequence != expected or expected < 0:
                if before is GONE:
                    stream = self._index.own(stream.name)
                    continue
                if not (revive and expected == 0 and before is DELETED):
                    raise _refusal(stream, expected, before.sequence)
            # Not under the lock: to hash and copy megabytes would hold up every other stream. If another append to
            # this stream came between, `assigned` is no longer the same object, and we look again.
            start = START if before is DELETED else before
            frames, end, chunks = encode(stream.name, stream.number, start, events, now)
            commit = Commit(
                stream=stream.name, first_sequence=expected + 1, last_sequence=end.sequence, digest=end.digest
            )
            size_bytes = sum(map(len, frames))
            if chunks:
                chunks = {digest: write_chunk(content, self._codec) for digest, content in chunks.items()}
                size_bytes += sum(map(len, chunks.values()))
                check_events(stream.name, events)
            elif size_bytes > APPEND_BYTES_MAX:
                check_events(stream.name, events)
            write = Write(commit, stream, frames, end, chunks, cells, size_bytes, before is DELETED)
            with self._lock:
                if stream.assigned is before:
                    self._enqueue(write)
                    stream.assigned = end
                    return commit

    def change(self, cells: Sequence[CellWrite]) -> Commit:
        """Hand a change of cells to the writer; its conditions are looked at in the transaction."""
        commit = Commit()
        size_bytes = sum(len(cell.key) + len(cell.value or b"") for cell in cells)
        with self._lock:
            self._enqueue(Write(commit, None, (), START, NO_CHUNKS, cells, size_bytes))
        return commit

    def submit(self, job: Job) -> Commit:
        """Hand a job to the writer."""
        commit = Commit()
        with self._lock:
            self._enqueue(Write(commit, None, (), START, NO_CHUNKS, (), job.size_bytes, job=job))
        return commit

    def delete(self, stream: Stream, expected: int) -> Commit:
        """Refuse further appends to a stream, and let its events be removed behind those that are under way."""
        while True:
            with self._lock:
                before = stream.assigned
                if before is DELETED or (before.sequence == expected == 0):
                    return self._nothing_to_delete(stream, expected)
                if before is not GONE:
                    if before.sequence != expected or expected < 0:
                        raise _refusal(stream, expected, before.sequence)
                    commit = Commit(stream=stream.name, first_sequence=1, last_sequence=expected, digest=before.digest)
                    job = Job(partial(_remove, self._index, stream, before), 0)
                    self._enqueue(Write(commit, stream, (), before, NO_CHUNKS, (), 0, job=job))
                    stream.assigned, stream.ending = DELETED, before
                    return commit
            stream = self._index.own(stream.name)

    def _nothing_to_delete(self, stream: Stream, expected: int) -> Commit:
        end = stream.deleted or stream.ending
        if end is not None and end.sequence != expected:
            raise _refusal(stream, expected, end.sequence)
        # Durable behind a deletion that may be under way.
        commit = Commit(stream=stream.name)
        self._enqueue(Write(commit, None, (), START, NO_CHUNKS, (), 0))
        return commit

    def _enqueue(self, write: Write) -> None:
        if self._env.ended:
            raise JournalClosed(path=str(self._env.path), reason=self._env.ended)
        self._waiting.append(write)
        if self._sleeping:
            self._sleeping = False
            self._wake.release()

    def close(self) -> None:
        """Take no more, and wait until what waits is durable; on the writer's own thread only the former."""
        if self._env.forked:
            return
        elsewhere = threading.current_thread() is not self._thread
        if self._sealer is not None and not self._env.ended:
            # On the writer's own thread nobody waits for the sealer, who may be waiting for the writer.
            self._sealer.close(wait=elsewhere)
        self._end("close() was called")
        if elsewhere:
            self._thread.join()

    def _end(self, reason: str) -> None:
        with self._lock:
            self._env.ended = self._env.ended or reason
            if self._sleeping:
                self._sleeping = False
                self._wake.release()

    def _run(self) -> None:
        try:
            while waiting := self._take():
                self._write(waiting)
                self._look_after_readers()
        finally:
            # However it came to an end, nobody waits for a thread that is gone.
            self._end("its writer has stopped")
            self._fail([], partial(self._unknown, "the writer has stopped"))
            self._env.close()
            self._watchers.notify_all()

    def _take(self) -> list[Write]:
        """Return everything that waits, sleeping until there is something; nothing when the end has come."""
        while True:
            with self._lock:
                if self._waiting or self._env.ended:
                    waiting, self._waiting = self._waiting, []
                    return waiting
                self._sleeping = True
            self._sleep()
            self._look_after_readers()

    def _sleep(self) -> None:
        if not self._wake.acquire(timeout=READERS_CHECK_S):
            with self._lock:
                if not self._sleeping:
                    # Somebody came at the last moment and let it go: it is to be held again before the next sleep.
                    self._wake.acquire()
                self._sleeping = False

    def _look_after_readers(self) -> None:
        if time.monotonic() >= self._next_look:
            self._env.clear_dead_readers()
            self._next_look = time.monotonic() + READERS_CHECK_S

    def _write(self, waiting: list[Write]) -> None:
        done = 0
        for batch in batches(waiting):
            try:
                conflicts = self._commit(batch)
            except NoRoom as error:
                # Sealing needs room to make room, and what is in cells can be made again: no append fails for them.
                spared = [write for write in batch if write.stream is not None]
                Commit.resolve_all(
                    (write.commit, self._full(str(error), write)) for write in batch if write.stream is None
                )
                if len(spared) == len(batch):
                    self._fail(waiting[done:], partial(self._full, str(error)))
                    return
                if rest := [*spared, *waiting[done + len(batch) :]]:
                    self._write(rest)
                return
            except Exception as error:  # noqa: BLE001  (whatever it was, what is on disk is unknown: stop here)
                self._end(f"a write failed: {error}")
                self._fail(waiting[done:], partial(self._unknown, str(error)))
                return
            done += len(batch)
            try:
                Commit.resolve_all((write.commit, conflicts.get(number)) for number, write in enumerate(batch))
                self._watchers.notify(write.commit.stream for write in batch)
            except BaseException:
                # A callback has raised a signal, which ends this thread; whatever waits must not wait for ever.
                self._end("its writer was stopped by a callback")
                self._fail(waiting[done:], partial(self._unknown, "the writer was stopped by a callback"))
                raise

    def _commit(self, batch: Sequence[Write]) -> dict[int, CellConflict]:
        """Make a batch durable and visible; return the changes of cells that were refused, by their place in it."""
        grown = [(write.stream, write.frames, write.end) for write in batch if write.stream and write.frames]
        frames = [frame for write in batch for frame in write.frames]
        new = list(
            {stream.number: stream.name for stream, _, _ in grown if not (stream.positions or stream.recorded)}.items()
        )
        first = self._index.position + 1
        conflicts: dict[int, CellConflict] = {}
        done: list[Callable[[], None]] = []

        def change(txn: Transaction) -> None:
            conflicts.clear()
            done.clear()
            self._prepare(txn, batch, first)
            if frames:
                txn.append(first, b"".join((value_header(len(frames)), *frames)), encode_names(new) if new else None)
            conflicts.update(change_cells(txn, batch))
            done.extend(write.job.change(txn) for write in batch if write.job is not None)

        moving = any(write.job is not None for write in batch)
        if moving:
            self._index.begin_move()
        try:
            self._env.transact(change, size_bytes=sum(write.size_bytes for write in batch))
            if grown:
                self._publish(first, grown)
            with self._lock if done else nullcontext():
                for publish in done:
                    publish()
        finally:
            if moving:
                self._index.end_move()
        return conflicts

    def _publish(self, first: int, grown: Sequence[tuple[Stream, Sequence[bytes], End]]) -> None:
        self._index.publish(first, grown)
        sealer = self._sealer
        if sealer is not None and self._index.position - self._index.sealed >= sealer.due_events:
            sealer.wake()

    def _prepare(self, txn: Transaction, batch: Sequence[Write], first: int) -> None:
        """Put what the frames of a batch rest on: chunks, and records of streams that begin again."""
        for write in batch:
            for digest, chunk in write.chunks.items():
                txn.add_chunk(digest, chunk)
            if self.named is not None:
                self.named.update(write.chunks)
            if write.revive and write.stream is not None:
                _record(txn, write.stream.record(), first)

    def _full(self, reason: str, _: Write) -> JournalFull:
        return JournalFull(path=str(self._env.path), reason=reason)

    def _unknown(self, reason: str, write: Write) -> AppendUnknown:
        return AppendUnknown(streams=(write.stream.name,) if write.stream else (), reason=reason)

    def _fail(self, failed: list[Write], error: Callable[[Write], JournalError]) -> None:
        """Fail these and all that wait behind them; their streams end again where they are durable."""
        with self._lock:
            failed = failed + self._waiting
            self._waiting = []
            for write in failed:
                stream = write.stream
                if stream:
                    stream.assigned = stream.durable if stream.deleted is None else DELETED
        Commit.resolve_all((write.commit, error(write)) for write in failed)


def _record(txn: Transaction, record: StreamRecord, began: int) -> None:
    """Let a deleted stream begin again."""
    record = structs.replace(record, began=began)
    txn.set_stream(stream_key(record.name), write_record(record), record.number, record.name)
    txn.count_removed(-1, 0)
    txn.begin_epoch()


def _remove(index: Index, stream: Stream, end: End, txn: Transaction) -> Callable[[], None]:
    """Remove the events of a stream; those in the log are passed over until they are dropped."""
    reset = index.position
    record = stream.record(deleted=True, reset=reset, end=end)
    txn.delete_segments(stream.number)
    txn.set_stream(stream_key(stream.name), write_record(record), stream.number, stream.name)
    txn.count_removed(1, end.sequence)
    txn.begin_epoch()
    return partial(index.publish_deleted, stream, reset, end)


def _refusal(stream: Stream, expected: int, actual: int) -> JournalError:
    if actual == DELETED.sequence:
        end = stream.deleted or stream.ending or stream.durable
        return StreamDeleted(stream=stream.name, sequence=end.sequence, digest=end.digest)
    if stream.damaged and actual == BROKEN.sequence:
        where = f"{stream.name}, sequence {stream.damaged}"
        return CorruptRecord(where=where, reason="the last event does not match its checksum, so nothing can follow it")
    return WrongExpectedSequence(stream=stream.name, expected=expected, actual=actual)
