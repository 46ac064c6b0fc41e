"""What an examination of a whole journal has found."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import lmdb
import msgspec

from ..codec import chain
from ..errors import CorruptRecord
from ..event import GENESIS
from ..report import Report
from .chunks import open_chunk
from .compression import open_dictionary
from .environment import Environment, unreadable
from .files import walk_pages
from .frames import START, VALUE_HEADER_BYTES, End, Frame, Unreadable, count_of, parts_of, read_frame, read_names
from .index import SEALED_UNKNOWN, Index
from .order import read_order
from .reader import Reader
from .record import StreamRecord, read_record
from .segment import Loader, Segment, open_segment

__all__ = ["examine"]

_BYTES_AT_ONCE: Final = 8 * 1024 * 1024
_AT_ONCE: Final = 1024


def examine(env: Environment, index: Index, loader: Loader) -> Report:
    """Read everything that was durable at the call: checksums, names, sequences without gaps, digests, times, order.

    Others append, seal and delete meanwhile; what they free is used again when this is done.
    """
    heads = [(stream.name, stream.durable.sequence, stream.reset) for stream in index.tails()]
    until = index.position
    with env.snapshot() as reader:
        # What a reader sees stays where it is, also in the file, as long as it reads.
        if problems := walk_pages(env.path):
            return Report(problems=problems)
        return _Examination(_Held(reader, env), heads, until, loader).run()


class _Held:
    """One reading transaction for everything, so that all parts of the examination see the same journal."""

    def __init__(self, reader: Reader, env: Environment) -> None:
        self._reader = reader
        self._env = env

    @contextmanager
    def reading(self) -> Generator[Reader]:
        """Use the one there is.

        Raises:
            CorruptRecord: LMDB finds its own pages damaged.
        """
        try:
            yield self._reader
        except (lmdb.Error, struct.error) as error:
            raise unreadable(self._env.path, error) from error


class _Examination:
    def __init__(self, env: _Held, heads: Sequence[tuple[str, int, int]], until: int, loader: Loader) -> None:
        self._env = env
        self._loader = loader
        self._until = until
        self._heads = heads
        self._report = Report()
        self._records: dict[int, StreamRecord] = {}
        self._names: dict[int, str] = {}
        self._ends: dict[int, End] = {}
        self._sealed_positions: dict[int, array[int]] = {}
        self._first_sealed: dict[int, int] = {}
        self._chunks: dict[bytes, str] = {}

    def run(self) -> Report:
        for part in (
            self._take_dictionaries,
            self._take_records,
            self._take_segments,
            self._take_order,
            self._take_log,
            self._take_chunks,
        ):
            try:
                part()
            except CorruptRecord as error:
                self._report.add(str(error))
        self._compare_heads()
        self._compare_counts()
        self._report.streams = sum(1 for end in self._ends.values() if end.sequence)
        return self._report

    # The records of streams.

    def _compare_counts(self) -> None:
        with self._env.reading() as reader:
            counted = reader.counts()[0]
        there = sum(not record.deleted for record in self._records.values())
        if counted != there:
            self._report.add(f"{counted} recorded streams are counted that are not deleted, and there are {there}")

    def _take_records(self) -> None:
        start = b""
        while True:
            count = 0
            with self._env.reading() as reader:
                for count, (key, value) in enumerate(reader.streams(start), 1):
                    start = key + b"\0"
                    try:
                        record = read_record(key, value)
                    except Unreadable as error:
                        self._report.add(f"{key.decode('utf-8', 'replace')}: {error}")
                        continue
                    self._records[record.number] = record
                    self._names[record.number] = record.name
                    if reader.name(record.number) != record.name:
                        self._report.add(f"{record.name}: its number {record.number} leads to another name or to none")
                    if count == _AT_ONCE:
                        break
            if count < _AT_ONCE:
                return

    def _take_dictionaries(self) -> None:
        with self._env.reading() as reader:
            stored = list(reader.dictionaries())
            if not reader.sealed_is_known():
                self._report.add(SEALED_UNKNOWN)
            if not reader.marks_are_known():
                self._report.add("the marks of the epoch or of what was deleted do not match their checksums")
        for _, value in stored:
            try:
                open_dictionary(value)
            except ValueError as error:
                self._report.add(str(error))

    # What is sealed.

    def _take_segments(self) -> None:
        number, sequence = 0, 0
        while True:
            values: list[tuple[int, int, bytes]] = []
            size_bytes = 0
            with self._env.reading() as reader:
                for stream, last, value in reader.segments(number, sequence):
                    number, sequence = stream, last + 1
                    values.append((stream, last, bytes(value)))
                    size_bytes += len(value)
                    if size_bytes >= _BYTES_AT_ONCE or len(values) == _AT_ONCE:
                        break
            for stream, last, value in values:
                self._segment(stream, last, value)
            if not values:
                return

    def _segment(self, number: int, last: int, value: bytes) -> None:
        name = self._names.get(number, f"stream number {number}")
        if number not in self._records:
            self._report.add(f"{name}, sequence {last}: a segment of a stream that has no record")
        end = self._ends.get(number, START)
        try:
            segment = open_segment(name, last, value, self._loader)
        except Unreadable as error:
            self._report.add(f"{name}, sequences {end.sequence + 1} to {last}: {error}")
            self._ends[number] = End(last, GENESIS, 0)
            return
        self._report.events += segment.header.events
        self._check_segment(name, number, end, segment)
        self._ends[number] = End(last, segment.header.digest, segment.header.recorded_at)
        self._first_sealed.setdefault(number, segment.first)
        positions = self._sealed_positions.setdefault(number, array("Q"))
        known = segment.first - self._first_sealed[number]
        positions.extend([0] * (known - len(positions)))
        positions.extend(segment.positions)
        try:
            for digest in segment.chunks:
                self._chunks.setdefault(digest, f"{name}, sequences {segment.first} to {last}")
        except (Unreadable, msgspec.MsgspecError) as error:
            self._report.add(f"{name}, sequences {segment.first} to {last}: {error}")

    def _check_segment(self, name: str, number: int, end: End, segment: Segment) -> None:
        where = f"{name}, sequences {segment.first} to {segment.last}"
        if segment.first != end.sequence + 1:
            self._report.add(f"{where}: follows sequence {end.sequence}")
        elif end.digest not in (GENESIS, segment.header.before):
            self._report.add(f"{where}: its digest does not continue the one before")
        try:
            events = segment.events(segment.first, segment.last)
        except Unreadable as error:
            self._report.add(f"{where}: {error}")
            return
        before, at = end.recorded_at, 0
        record = self._records.get(number)
        reset = 0 if record is None else record.reset
        for event in events:
            if event.recorded_at < before:
                self._report.add(f"{name}, sequence {event.sequence}: recorded before the one in front of it")
            if event.position <= max(at, reset):
                self._report.add(f"{name}, sequence {event.sequence}: its position does not rise")
            before, at = event.recorded_at, event.position

    # The order of what is sealed.

    def _take_order(self) -> None:
        expected, position = 1, 0
        with self._env.reading() as reader:
            sealed = reader.sealed()
        while expected <= sealed:
            blocks: list[tuple[int, bytes]] = []
            with self._env.reading() as reader:
                for first, value in reader.order(position, within=False):
                    blocks.append((first, bytes(value)))
                    position = first + 1
                    if len(blocks) == _AT_ONCE:
                        break
            if not blocks:
                self._report.add(f"the order of positions {expected} to {sealed} is missing")
                return
            for first, value in blocks:
                expected = self._order(first, expected, value)

    def _order(self, first: int, expected: int, value: bytes) -> int:
        if first != expected:
            self._report.add(f"the order of positions {expected} to {first - 1} is missing")
        try:
            order = read_order(value, self._loader.codec)
        except Unreadable as error:
            self._report.add(f"the order of positions from {first}: {error}")
            return first
        for position, (number, sequence) in enumerate(zip(order.numbers, order.sequences, strict=True), first):
            if number and self._is_lost(number, sequence, position):
                name = self._names.get(number, f"stream number {number}")
                self._report.add(f"{name}, sequence {sequence} (position {position}): cannot be found")
        return first + len(order.numbers)

    def _is_lost(self, number: int, sequence: int, position: int) -> bool:
        record = self._records.get(number)
        if record is not None and position <= record.reset:
            return False
        positions = self._sealed_positions.get(number)
        at = sequence - self._first_sealed.get(number, 0)
        return positions is None or not 0 <= at < len(positions) or positions[at] != position

    # The log.

    def _take_log(self) -> None:
        with self._env.reading() as reader:
            position = reader.sealed() + 1
        named = 0
        while position <= self._until:
            values: list[tuple[int, bytes]] = []
            size_bytes = 0
            with self._env.reading() as reader:
                for first, value in reader.names(named):
                    self._take_names(first, value)
                    named = first + 1
                for first, value in reader.commits(position):
                    values.append((first, bytes(value)))
                    size_bytes += len(value)
                    if size_bytes > _BYTES_AT_ONCE or first > self._until:
                        break
            if not values:
                break
            for first, value in values:
                if first > self._until:
                    break
                position = self._commit(first, position, memoryview(value))
            else:
                continue
            break
        if position <= self._until:
            self._report.add(f"positions {position} to {self._until} are missing")

    def _take_names(self, first: int, value: memoryview) -> None:
        try:
            self._names.update(read_names(value))
        except Unreadable as error:
            self._report.add(f"the commit at position {first}: {error}")

    def _commit(self, first: int, expected: int, value: memoryview) -> int:
        """Examine a commit; return the position behind it."""
        if first != expected:
            self._report.add(f"positions {expected} to {first - 1} are missing")
        beyond = first + 1
        try:
            beyond = max(first + count_of(value), beyond)
            offset = VALUE_HEADER_BYTES
            for position in range(first, first + count_of(value)):
                frame = read_frame(value, offset)
                self._frame(position, frame)
                offset = frame.after
            if offset != len(value):
                self._report.add(f"the commit at position {first} holds {len(value) - offset} bytes too many")
            for digest in parts_of(value):
                self._chunks.setdefault(digest, f"the commit at position {first}")
        except Unreadable as error:
            self._report.add(f"the commit at position {first} cannot be read to its end: {error}")
        return beyond

    def _frame(self, position: int, frame: Frame) -> None:
        name = self._names.get(frame.number)
        where = f"{name or f'stream number {frame.number}'}, sequence {frame.sequence} (position {position})"
        record = self._records.get(frame.number)
        end = self._ends.get(frame.number, START)
        if record is not None and position <= record.reset and frame.intact:
            return
        if frame.intact and frame.sequence <= end.sequence and frame.number in self._sealed_positions:
            # It is sealed already, and was examined there.
            return
        self._report.events += 1
        if not frame.intact:
            self._report.add(f"{where}: does not match its checksum")
            if name is None or frame.sequence != end.sequence + 1:
                # Then the damage may be in these numbers, and they say nothing.
                return
        if name is None:
            self._report.add(f"{where}: the stream has no name")
        self._ends[frame.number] = End(frame.sequence, frame.digest, frame.recorded_at)
        if frame.sequence != end.sequence + 1:
            self._report.add(f"{where}: follows sequence {end.sequence}")
        elif frame.intact and not frame.in_parts and chain(end.digest, frame.stored) != frame.digest:
            self._report.add(f"{where}: its digest does not continue the one before")
        if frame.recorded_at < end.recorded_at:
            self._report.add(f"{where}: recorded before sequence {end.sequence}")

    # Chunks.

    def _take_chunks(self) -> None:
        for digests in _some(sorted(self._chunks)):
            with self._env.reading() as reader:
                stored = [(digest, reader.chunk(digest)) for digest in digests]
            for digest, value in stored:
                self._report.chunks += 1
                try:
                    if value is None:
                        raise Unreadable("the chunk is missing")
                    open_chunk(digest, value, self._loader.codec)
                except Unreadable as error:
                    self._report.add(f"chunk {digest.hex()[:16]}, named by {self._chunks[digest]}: {error}")

    def _compare_heads(self) -> None:
        """What this handle believes must be what was read."""
        read = {self._names[number]: end for number, end in self._ends.items() if number in self._names}
        resets = {record.name: record.reset for record in self._records.values()}
        for name, sequence, reset in self._heads:
            end = read.get(name, START)
            if resets.get(name, reset) == reset and end.sequence < sequence:
                self._report.add(f"{name}: sequences {end.sequence + 1} to {sequence} cannot be found")


def _some(digests: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(digests), 16):
        yield digests[start : start + 16]
