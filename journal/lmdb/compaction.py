"""Compaction on demand: everything sealed, small segments joined, chunks that nothing names let go."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ..lock import Claim
from ..place import sync_folder
from .directory import COMPACTING, clear_scratch, copy_data, map_files, refusing
from .environment import Environment
from .files import DATA_FILE, LOCK_FILE, check_files
from .frames import Unreadable, count_of, parts_of
from .index import Index
from .sealing import SealedRun, Sealing, cut
from .segment import SEGMENT_BYTES_MAX, SEGMENT_EVENTS_MAX, Loader, check_segment, open_segment
from .transaction import Transaction
from .writer import Writer
from .writes import Job

__all__ = ["Compaction", "compact", "shrink"]

_SEGMENTS_AT_ONCE: Final = 256
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
_CHUNKS_AT_ONCE: Final = 1024
_TIMES: Final = 4


class Compaction(NamedTuple):
    """What a compaction did: events sealed, segments that were joined to fewer, chunks let go."""

    sealed_events: int
    joined_segments: int
    removed_chunks: int


class _Small(NamedTuple):
    """A segment that may be joined with its neighbours."""

    number: int
    last: int
    events: int
    size_bytes: int


def compact(env: Environment, index: Index, writer: Writer, sealing: Sealing, loader: Loader) -> Compaction:
    """Seal, join and collect; see `LmdbJournal.compact`."""
    sealed = sealing.cycle(times=lambda: _TIMES)
    with sealing.lock:
        joined = sum(_join(env, index, writer, loader, run) for run in _runs(env))
        removed = _collect(env, writer, loader)
    return Compaction(sealed, joined, removed)


def _runs(env: Environment) -> Iterator[list[_Small]]:
    """Yield segments that follow each other in their stream and fit into one."""
    run: list[_Small] = []
    for small in _headers(env):
        together = sum(one.events for one in run) + small.events
        size_bytes = sum(one.size_bytes for one in run) + small.size_bytes
        if run and (small.number != run[0].number or together > SEGMENT_EVENTS_MAX or size_bytes > SEGMENT_BYTES_MAX):
            if len(run) > 1:
                yield run
            run = []
        run.append(small)
    if len(run) > 1:
        yield run


def _headers(env: Environment) -> Iterator[_Small]:
    """Yield what the headers of all segments say, in order, each some in a transaction."""
    number, sequence = 0, 0
    while True:
        found: list[_Small] = []
        with env.reading() as reader:
            for stream, last, value in reader.segments(number, sequence):
                number, sequence = stream, last + 1
                try:
                    header = check_segment(value)
                except Unreadable:
                    # It joins nothing; `verify` names it.
                    found.append(_Small(stream, last, SEGMENT_EVENTS_MAX, SEGMENT_BYTES_MAX))
                else:
                    found.append(_Small(stream, last, header.events, header.size_bytes))
                if len(found) == _SEGMENTS_AT_ONCE:
                    break
        yield from found
        if len(found) < _SEGMENTS_AT_ONCE:
            return


def _join(env: Environment, index: Index, writer: Writer, loader: Loader, run: list[_Small]) -> int:
    """Join some segments, unless their stream is deleted meanwhile; return how many there were."""
    number = run[0].number
    try:
        with env.reading() as reader:
            name = index.name_of(reader, number)
            values = [(one.last, reader.segment(number, one.last)) for one in run]
            if name is None or any(found is None or found[0] != last for last, found in values):
                return 0
            segments = [open_segment(name, last, bytes(found[1]), loader) for last, found in values if found]
        events = [event for segment in segments for event in segment.sealed()]
        joined = list(cut(events, run[-1].last, segments[0].header.before, loader))
        if len(joined) >= len(run) or segments[-1].header.digest != check_segment(joined[-1].value).digest:
            return 0
    except Unreadable:
        return 0

    def change(txn: Transaction) -> Callable[[], None]:
        if all(txn.has_segment(number, one.last) for one in run):
            for one in run:
                txn.delete_segment(number, one.last)
            for segment in joined:
                txn.set_segment(number, segment.last, segment.value)
        return lambda: None

    writer.submit(Job(change, _size(joined))).wait()
    return len(run)


def _collect(env: Environment, writer: Writer, loader: Loader) -> int:
    """Let go of the chunks that no event names; return how many there were."""
    with env.reading() as reader:
        if not next(iter(reader.chunks(b"")), None):
            return 0
    named: set[bytes] = set()
    writer.named = named
    try:
        # What is committed from here on is heard of; what was under way is in the log once this is through.
        writer.change(()).wait()
        kept = _named_by_segments(env, loader) | _named_by_log(env)
        removed = 0
        for garbage in _garbage(env, kept):
            removed += _Removal(named, garbage).by(writer)
        return removed
    except Unreadable:
        # Who cannot read everything does not know what is named.
        return 0
    finally:
        writer.named = None


class _Removal:
    """The change that removes chunks which nothing has named meanwhile."""

    def __init__(self, named: set[bytes], garbage: list[bytes]) -> None:
        self._named = named
        self._garbage = garbage
        self._removed = 0

    def by(self, writer: Writer) -> int:
        writer.submit(Job(self._change, 0)).wait()
        return self._removed

    def _change(self, txn: Transaction) -> Callable[[], None]:
        gone = [digest for digest in self._garbage if digest not in self._named]
        for digest in gone:
            txn.delete_chunk(digest)
        self._removed = len(gone)
        return lambda: None


def _named_by_segments(env: Environment, loader: Loader) -> set[bytes]:
    named: set[bytes] = set()
    number, sequence = 0, 0
    while True:
        size_bytes = 0
        with env.reading() as reader:
            for stream, last, value in reader.segments(number, sequence):
                number, sequence = stream, last + 1
                if check_segment(value).chunked:
                    named.update(open_segment("", last, bytes(value), loader).chunks)
                size_bytes += len(value)
                if size_bytes >= _BYTES_AT_ONCE:
                    break
            else:
                return named


def _named_by_log(env: Environment) -> set[bytes]:
    named: set[bytes] = set()
    position = 0
    while True:
        size_bytes = 0
        with env.reading() as reader:
            for first, value in reader.commits(position):
                position = first + count_of(value)
                named.update(parts_of(value))
                size_bytes += len(value)
                if size_bytes >= _BYTES_AT_ONCE:
                    break
            else:
                return named


def _garbage(env: Environment, kept: set[bytes]) -> Iterator[list[bytes]]:
    after = b""
    while True:
        garbage: list[bytes] = []
        with env.reading() as reader:
            count = 0
            for count, (digest, _) in enumerate(reader.chunks(after), 1):
                after = digest
                if digest not in kept:
                    garbage.append(digest)
                if count == _CHUNKS_AT_ONCE:
                    break
        if garbage:
            yield garbage
        if count < _CHUNKS_AT_ONCE:
            return


def shrink(path: Path) -> tuple[int, int]:
    """Write the data file of a closed journal anew without its free pages; return the bytes before and after.

    The new file is made beside the old one and moved into its place, so that a crash leaves one of them whole.

    Raises:
        JournalLocked: somebody writes to the journal.
        ForeignJournal: it is not a journal.
        OSError: it could not be written; the journal is as it was.
    """
    claim = Claim(path)
    try:
        claim.lock()
        clear_scratch(path)
        before = (path / DATA_FILE).stat().st_size
        with tempfile.TemporaryDirectory(prefix=COMPACTING, dir=path) as scratch:
            with refusing(path):
                check_files(path)
                env = map_files(path, readonly=True)
            with env:
                copy_data(env, Path(scratch))
            new = Path(scratch) / DATA_FILE
            after = new.stat().st_size
            if after < before:
                new.replace(path / DATA_FILE)
                # The table of readers belongs to the file that is gone.
                (path / LOCK_FILE).unlink(missing_ok=True)
                sync_folder(path)
        return before, min(before, after)
    finally:
        claim.release()


def _size(runs: list[SealedRun]) -> int:
    return sum(len(run.value) for run in runs)
