"""A history into a journal: looked at from end to end first, then appended in its own order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from ..codec import chain
from ..commit import Commit
from ..errors import StreamDeleted, WrongExpectedSequence
from ..event import Head, NewEvent, RecordedEvent
from ..journal import CellWrite, Journal
from .mark import open_mark
from .reading import HistorySource, OpenHistory, opened
from .writing import PROGRESS_EVENTS, Progress

__all__ = ["import_history"]

_BATCH: Final = 500
_BATCH_BYTES: Final = 8 * 1024 * 1024


def import_history(journal: Journal, source: HistorySource, *, progress: Progress | None = None) -> dict[str, int]:
    """Append a history to `journal`; return how many events each stream gained. Waits until they are durable.

    A stream that is already there with the same events is left alone, and one that is there in part is continued,
    so an import that was interrupted can be repeated. The order of the events, their times and causes are kept, and
    so are the digests. The streams are marked as having open work: the next system that opens the journal looks at
    them. A deleted stream comes back when the history has all of it: from its first event to where it ended, with
    the same digest there, and more if there is more.

    The whole history is read and compared before anything is appended, so a refusal leaves the journal as it was,
    unless somebody else writes to the same streams at the same time. What cannot be read twice, as a pipe, is first
    copied to a temporary file. It takes memory for one batch and for the names of the streams. `progress` is told
    `(events, bytes)` of the history, without compression, as they are durable.

    Raises:
        InvalidHistory: see `iter_history`; nothing was imported.
        WrongExpectedSequence: the journal holds another version of a stream, or ends before the history begins.
        StreamDeleted: a stream was deleted, and this is not its whole history.
        ReadOnlyJournal, JournalClosed, JournalFull, AppendUnknown: as for `Journal.append`; repeat the import.
    """
    with opened(source) as history:
        _check(journal, history)
        return _Import(journal, progress).take(history)


class _Known(msgspec.Struct):
    """A stream of the history: where the journal has it end, and how far the history was read."""

    head: Head
    sequence: int = 0
    digest: bytes = b""


def _check(journal: Journal, history: OpenHistory) -> None:
    """Refuse a history that is damaged, or of another version of a stream.

    Digests are chained, so two versions of a stream that have one digest in common have the same events before it.
    """
    streams: dict[str, _Known] = {}
    for event in history.lines():
        known = streams.get(event.stream)
        if known is None:
            known = streams[event.stream] = _Known(journal.head(event.stream))
            _check_first(known.head, event)
        if event.sequence == known.head.sequence and event.digest != known.head.digest:
            raise _refusal(known.head, event.sequence)
        known.sequence, known.digest = event.sequence, event.digest
    for known in streams.values():
        if known.sequence < known.head.sequence:
            _check_last(journal, known)


def _check_first(head: Head, event: RecordedEvent) -> None:
    if event.sequence > (1 if head.deleted else head.sequence + 1):
        raise _refusal(head, event.sequence)
    if event.sequence == head.sequence + 1 and chain(head.digest, event.canonical) != event.digest:
        raise _refusal(head, event.sequence)


def _check_last(journal: Journal, known: _Known) -> None:
    """Compare a history that ends before the journal's stream does."""
    if known.head.deleted:
        raise _refusal(known.head, known.sequence)
    there = next(iter(journal.read(known.head.stream, after=known.sequence - 1)))
    if there.digest != known.digest:
        raise _refusal(known.head, known.sequence)


def _refusal(head: Head, sequence: int) -> StreamDeleted | WrongExpectedSequence:
    if head.deleted:
        return StreamDeleted(
            stream=head.stream, sequence=head.sequence, digest=head.digest, refused="this history is not all of them"
        )
    return WrongExpectedSequence(stream=head.stream, expected=sequence - 1, actual=head.sequence)


class _Import:
    """Appends the events that a journal does not have yet, in the order of the history.

    An append holds events of one stream that follow each other. Several are under way at a time, so that they share
    a sync, and there are never more than a batch of events that are not durable.
    """

    def __init__(self, journal: Journal, progress: Progress | None) -> None:
        self._journal = journal
        self._progress = progress
        self._under_way: deque[tuple[Commit, int, int]] = deque()
        self._events = self._size_bytes = 0

    def take(self, history: OpenHistory) -> dict[str, int]:
        """Append them; return how many each stream gained."""
        gained: dict[str, int] = {}
        heads: dict[str, Head] = {}
        lines, seen, told = history.lines(), 0, 0
        for run in _runs(lines):
            stream = run[0].stream
            head = heads.get(stream)
            if head is None:
                head = heads[stream] = self._journal.head(stream)
                gained[stream] = 0
            new = run if head.deleted else [event for event in run if event.sequence > head.sequence]
            if new:
                self._append(new, is_first=not gained[stream], revive=head.deleted)
                gained[stream] += len(new)
            seen += len(run)
            if self._progress is not None and seen - told >= PROGRESS_EVENTS:
                self._settle()
                self._progress(seen, lines.size_bytes)
                told = seen
        self._settle()
        if self._progress is not None:
            self._progress(seen, lines.size_bytes)
        return gained

    def _append(self, events: list[RecordedEvent], *, is_first: bool, revive: bool) -> None:
        first = events[0]
        size_bytes = sum(len(event.canonical) for event in events)
        while self._under_way and (self._events + len(events) > _BATCH or self._size_bytes + size_bytes > _BATCH_BYTES):
            self._wait_for_first()
        drafts = [NewEvent(event.canonical, event.cause, event.recorded_at) for event in events]
        cells = [CellWrite(open_mark(first.stream), first.stream.encode())] if is_first else []
        revive, expected = revive and is_first, first.sequence - 1
        commit = self._journal.append(first.stream, drafts, expected=expected, cells=cells, revive=revive)
        self._under_way.append((commit, len(events), size_bytes))
        self._events += len(events)
        self._size_bytes += size_bytes

    def _settle(self) -> None:
        while self._under_way:
            self._wait_for_first()

    def _wait_for_first(self) -> None:
        commit, events, size_bytes = self._under_way.popleft()
        commit.wait()
        self._events -= events
        self._size_bytes -= size_bytes


def _runs(events: Iterable[RecordedEvent]) -> Iterator[list[RecordedEvent]]:
    """Yield the events in runs of one stream, of a bounded size."""
    run: list[RecordedEvent] = []
    size_bytes = 0
    for event in events:
        size_bytes += len(event.canonical)
        if run and (event.stream != run[0].stream or len(run) == _BATCH or size_bytes > _BATCH_BYTES):
            yield run
            run, size_bytes = [], len(event.canonical)
        run.append(event)
    if run:
        yield run
