"""Sealing: the events of streams go from the log into segments, and the log gives up what is sealed.

A cycle seals every stream that has events in the log, a slice of streams in each transaction, and then drops the log
up to where it is sealed throughout, leaving the order of events behind. A crash between two transactions leaves events
in both places, and the segments count. Small segments at the end of a stream are sealed again together with what
follows, each time about as many as are new, so an event is rewritten a few times and no more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ..codec import chain
from ..event import GENESIS
from .columns import Sealed
from .compression import dictionary_key, shipped_dictionary, write_dictionary
from .environment import Environment
from .frames import End, Unreadable, count_of, read_entries, read_frame
from .index import Index
from .order import ORDER_EVENTS_MAX, write_order
from .reader import Reader
from .record import stream_key, write_record
from .segment import SEGMENT_BYTES_MAX, SEGMENT_EVENTS_MAX, Loader, check_segment, open_segment, read_header, seal
from .stream import DELETED, MISSING, Stream
from .transaction import Transaction
from .writer import Writer
from .writes import Job

__all__ = ["SealedRun", "Sealing", "cut"]

_EVENTS_PER_PLAN: Final = 32 * SEGMENT_EVENTS_MAX
# Appends wait while a slice is written, so it is to take a millisecond or two.
_SLICE_STREAMS: Final = 32
_SLICE_BYTES: Final = 512 * 1024
_DROP_COMMITS: Final = 512
_MERGE_RATIO: Final = 4


class SealedRun(NamedTuple):
    """One segment, ready to be put: its last sequence and its bytes."""

    last: int
    value: bytes


class _Plan(NamedTuple):
    """What is to be done for one stream: it was sealed up to `base`, and will be up to `until`."""

    stream: Stream
    reset: int
    base: int
    until: int
    obsolete: Sequence[int]
    segments: Sequence[SealedRun]


class Sealing:
    """Does one cycle at a time."""

    def __init__(self, env: Environment, index: Index, writer: Writer, loader: Loader) -> None:
        self._env = env
        self._index = index
        self._writer = writer
        self._loader = loader
        self._has_dictionary = False
        self.lock = threading.Lock()
        """Held for a cycle, and by whoever else rewrites segments."""

    def cycle(self, pause: Callable[[], bool] | None = None, *, times: Callable[[], int] = lambda: 1) -> int:
        """Seal what is durable and drop it from the log; return how many events were sealed.

        Between two transactions `pause()` is called, which ends the cycle by returning False. A transaction is
        `times()` as large as one that appends should wait for.

        Raises:
            JournalFull, AppendUnknown, JournalClosed: as an append would.
        """
        with self.lock:
            self._store_dictionary()
            sealed = 0
            for plans in self._slices(times):
                self._writer.submit(Job(_Put(self._index, plans), _size(plans))).wait()
                sealed += sum(plan.until - plan.base for plan in plans)
                if pause is not None and not pause():
                    return sealed
            while self._drop_some(times()) and (pause is None or pause()):
                pass
            return sealed

    def _store_dictionary(self) -> None:
        if self._has_dictionary:
            return
        number, raw = shipped_dictionary()
        key = dictionary_key(number)
        with self._env.reading() as reader:
            there = reader.meta(key) is not None
        if not there:

            def change(txn: Transaction) -> Callable[[], None]:
                txn.set_meta(key, write_dictionary(raw))
                # Readers that know another one are to learn it before they meet what it was used for.
                txn.begin_epoch()
                return lambda: None

            self._writer.submit(Job(change, len(raw))).wait()
        self._has_dictionary = True

    def _slices(self, times: Callable[[], int]) -> Iterator[list[_Plan]]:
        plans: list[_Plan] = []
        size_bytes = 0
        for stream in self._index.tails():
            while (plan := self._plan(stream)) is not None:
                plans.append(plan)
                size_bytes += _size([plan])
                more = plan.until < stream.durable.sequence and plan.until - plan.base >= _EVENTS_PER_PLAN
                if more or len(plans) >= times() * _SLICE_STREAMS or size_bytes >= times() * _SLICE_BYTES:
                    yield plans
                    plans, size_bytes = [], 0
                if not more:
                    break
        if plans:
            yield plans

    def _plan(self, stream: Stream) -> _Plan | None:
        """Prepare the sealing of what a stream has in the log; None when there is nothing that can be sealed."""
        reset = stream.reset
        base, places = self._index.places(stream, stream.sealed, _EVENTS_PER_PLAN)
        if not places or stream.assigned is DELETED:
            return None
        new: list[Sealed] = []
        digest = GENESIS
        try:
            with self._env.reading() as reader:
                for event, digest in self._read(reader, stream, base + 1, places):  # noqa: B007  (the last one counts)
                    new.append(event)
                obsolete, older, before = self._mergeable(reader, stream, base, len(new))
        except Unreadable:
            return None
        if not new:
            return None
        until = base + len(new)
        segments = list(cut([*older, *new], until, before, self._loader))
        if read_header(segments[-1].value).digest != digest:
            # What lies in the log is not what was recorded; `verify` names it, and it stays where it is.
            return None
        return _Plan(stream, reset, base, until, obsolete, segments)

    def _read(
        self, reader: Reader, stream: Stream, sequence: int, places: Sequence[tuple[int, int, int]]
    ) -> Iterator[tuple[Sealed, bytes]]:
        """Yield events out of the log and their digests, as far as they are whole: what is damaged stays there."""
        for expected, (first, position, offset) in enumerate(places, sequence):
            value = None if first == MISSING else reader.commit(first)
            if value is None:
                return
            try:
                frame = read_frame(value, offset)
            except Unreadable:
                return
            if not frame.intact or frame.number != stream.number or frame.sequence != expected:
                return
            explicit = frame.digest if frame.in_parts else b""
            yield Sealed(position, frame.recorded_at, frame.cause, frame.stored, explicit), frame.digest

    def _mergeable(
        self, reader: Reader, stream: Stream, base: int, count: int
    ) -> tuple[list[int], list[Sealed], bytes]:
        """Return the small segments at the end of a stream, their events, and the digest in front of all that.

        Raises:
            Unreadable: the last segment is damaged or missing, so that nothing can be put behind it.
        """
        obsolete: list[int] = []
        older: list[Sealed] = []
        before, last = GENESIS, base
        while last and (found := reader.segment(stream.number, last)) is not None and found[0] == last:
            try:
                header = check_segment(found[1])
            except Unreadable:
                if not obsolete:
                    raise
                break
            if not obsolete:
                before = header.digest
            small = header.events + count <= SEGMENT_EVENTS_MAX and header.size_bytes <= SEGMENT_BYTES_MAX // 2
            if not small or header.events > _MERGE_RATIO * count:
                break
            try:
                segment = open_segment(stream.name, last, bytes(found[1]), self._loader)
            except Unreadable:
                break
            older[:0] = segment.sealed()
            obsolete.append(last)
            before, count, last = header.before, count + header.events, last - header.events
        if base and before == GENESIS and last:
            raise Unreadable("the last segment is missing")
        return obsolete, older, before

    def _drop_some(self, times: int) -> bool:
        """Drop some commits whose events are all sealed; return whether there were any."""
        until = self._index.droppable()
        if until <= self._index.sealed:
            return False
        numbers: list[int] = []
        sequences: list[int] = []
        first = end = self._index.sealed + 1
        try:
            with self._env.reading() as reader:
                for commits, (start, value) in enumerate(reader.commits(first)):
                    beyond = start + count_of(value)
                    full = numbers and len(numbers) + beyond - start > ORDER_EVENTS_MAX
                    if start != end or beyond - 1 > until or full or commits == times * _DROP_COMMITS:
                        break
                    for number, sequence in read_entries(value):
                        numbers.append(number)
                        sequences.append(sequence)
                    end = beyond
        except Unreadable:
            return False
        if not numbers or len(numbers) != end - first:
            return False
        block = write_order(numbers, sequences, self._loader.codec)

        def change(txn: Transaction) -> Callable[[], None]:
            txn.set_order(first, block)
            txn.drop(end - 1)
            return lambda: self._index.publish_dropped(end - 1)

        self._writer.submit(Job(change, len(block))).wait()
        return True


class _Put:
    """The change that puts the segments of some plans."""

    def __init__(self, index: Index, plans: Sequence[_Plan]) -> None:
        self._index = index
        self._plans = plans

    def __call__(self, txn: Transaction) -> Callable[[], None]:
        """Put what still fits: a stream that was deleted meanwhile is left alone."""
        done = [plan for plan in self._plans if (plan.stream.reset, plan.stream.sealed) == (plan.reset, plan.base)]
        for plan in done:
            stream = plan.stream
            for last in plan.obsolete:
                txn.delete_segment(stream.number, last)
            for segment in plan.segments:
                txn.set_segment(stream.number, segment.last, segment.value)
            if not stream.recorded:
                txn.set_stream(stream_key(stream.name), write_record(stream.record()), stream.number, stream.name)

        def publish() -> None:
            self._index.publish_sealed([(plan.stream, plan.until) for plan in done])
            self._index.evict()

        return publish


def cut(events: Sequence[Sealed], until: int, before: bytes, loader: Loader) -> Iterator[SealedRun]:
    """Yield the segments of events that end at the sequence `until`; `before` is the digest in front of them."""
    last = until - len(events)
    run: list[Sealed] = []
    size_bytes, digest = 0, before
    for number, event in enumerate(events, 1):
        run.append(event)
        size_bytes += len(event.stored)
        digest = event.digest or chain(digest, event.stored)
        if len(run) == SEGMENT_EVENTS_MAX or size_bytes >= SEGMENT_BYTES_MAX or number == len(events):
            last += len(run)
            yield SealedRun(
                last, seal(run, before=before, end=End(last, digest, event.recorded_at), codec=loader.codec)
            )
            run, size_bytes, before = [], 0, digest


def _size(plans: Sequence[_Plan]) -> int:
    return sum(len(segment.value) for plan in plans for segment in plan.segments)
