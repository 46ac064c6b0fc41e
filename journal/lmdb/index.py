"""Where the events of each stream lie in the log, and where each stream ends. Kept in memory, read from the log."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from ..event import Head, category_of, check_stream
from .frames import START, VALUE_HEADER_BYTES, End, Frame, Unreadable, count_of, read_frame, read_names

__all__ = ["BROKEN", "MISSING", "Index", "Stream"]

MISSING = 0
"""The position of an event that should be there and is not."""

BROKEN = End(-1, b"", 0)
"""The end of a stream whose last event is damaged: no append can expect it."""


class Stream:
    """One stream: its number in the log, where its events are, and its two ends.

    `durable` is what readers see; `assigned` counts the appends under way and belongs to the writer.
    """

    __slots__ = ("assigned", "damaged", "durable", "name", "number", "offsets", "positions")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.positions = array("Q")
        self.offsets = array("I")
        self.durable = START
        self.assigned = START
        self.damaged = 0
        """The sequence of an event that does not match its checksum; 0 when there is none."""


class Index:
    """The streams of a journal by name and by number, and the position of the last durable event.

    `damage` says what the log was found to lack, so that nobody appends behind a hole.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, Stream] = {}
        self._by_number: dict[int, Stream] = {}
        self._next_number = 1
        self._firsts = array("Q")
        self.position = 0
        self.damage = ""
        self.find: Callable[[str], Stream | None] = self._by_name.get
        """Return the stream of that name, if it was ever appended to."""

    def numbered(self, number: int) -> Stream | None:
        """Return the stream that the log knows by `number`."""
        return self._by_number.get(number)

    def add(self, name: str) -> Stream:
        """Return the stream of that name, numbered now if it is new.

        Raises:
            InvalidName: see `check_stream`.
        """
        check_stream(name)
        with self._lock:
            found = self._by_name.get(name)
            return found or self._enter(name, self._next_number)

    def _enter(self, name: str, number: int) -> Stream:
        stream = self._by_name[name] = self._by_number[number] = Stream(name, number)
        self._next_number = max(self._next_number, number + 1)
        return stream

    def publish(self, first: int, grown: Iterable[tuple[Stream, Sequence[bytes], End]]) -> None:
        """Show readers what one log value at position `first` has brought: streams, their frames, their new ends."""
        position, offset = first, VALUE_HEADER_BYTES
        with self._lock:
            self._firsts.append(first)
            for stream, frames, end in grown:
                for frame in frames:
                    stream.positions.append(position)
                    stream.offsets.append(offset)
                    position += 1
                    offset += len(frame)
                stream.durable = end
            self.position = position - 1

    def places(self, stream: Stream, after: int, count: int) -> list[tuple[int, int, int]]:
        """Return where up to `count` events of `stream` above the sequence `after` are: commit, position and offset."""
        with self._lock:
            positions = stream.positions[after : after + count]
            offsets = stream.offsets[after : after + count]
            return [
                (self._first_of(position), position, offset)
                for position, offset in zip(positions, offsets, strict=True)
            ]

    def first_of(self, position: int) -> int:
        """Return the position of the first event of the commit that the event at `position` is in."""
        with self._lock:
            return self._first_of(position)

    def _first_of(self, position: int) -> int:
        number = bisect_right(self._firsts, position)
        return self._firsts[number - 1] if number and position != MISSING else MISSING

    def heads(self, category: str | None) -> list[Head]:
        """Return the durable end of every stream (of one category), ordered by name."""
        with self._lock:
            found = [
                Head(name, stream.durable.sequence, stream.durable.digest)
                for name, stream in self._by_name.items()
                if stream.durable.sequence and (category is None or category_of(name) == category)
            ]
        found.sort()
        return found

    def count(self) -> tuple[int, int]:
        """Return how many durable streams and events there are."""
        with self._lock:
            streams = [stream for stream in self._by_name.values() if stream.durable.sequence]
        return len(streams), sum(stream.durable.sequence for stream in streams)

    def learn_names(self, first: int, value: memoryview) -> None:
        """Take in the names of the streams that begin in the commit at `first`."""
        with self._lock:
            try:
                for number, name in read_names(value):
                    self._enter(name, number)
            except Unreadable as error:
                self._note(f"the commit at position {first}: {error}")

    def learn(self, first: int, value: memoryview) -> set[str]:
        """Take in one log value that another process, or an earlier one, has written; return the streams it touched."""
        touched: set[str] = set()
        with self._lock:
            if first != self.position + 1:
                self._note(f"positions {self.position + 1} to {first - 1} are missing")
            self.position = first
            self._firsts.append(first)
            try:
                count = count_of(value)
                self.position = first + count - 1
                offset = VALUE_HEADER_BYTES
                for position in range(first, first + count):
                    frame = read_frame(value, offset)
                    self._place(frame, position, offset, touched)
                    offset = frame.after
                if offset != len(value):
                    self._note(f"the commit at position {first} holds {len(value) - offset} bytes too many")
            except Unreadable as error:
                self._note(f"the commit at position {first} cannot be read: {error}")
        return touched

    def _place(self, frame: Frame, position: int, offset: int, touched: set[str]) -> None:
        stream = self._by_number.get(frame.number)
        if stream is None:
            self._note(f"the event at position {position} belongs to stream number {frame.number}, which has no name")
            return
        expected = stream.durable.sequence + 1
        if frame.sequence < expected or (frame.sequence > expected and not frame.intact):
            self._note(f"position {position}: {stream.name}, sequence {expected} expected, {frame.sequence} found")
            return
        if frame.sequence > expected:
            self._note(f"{stream.name}: sequences {expected} to {frame.sequence - 1} are missing")
            lost = frame.sequence - expected
            stream.positions.extend([MISSING] * lost)
            stream.offsets.extend([0] * lost)
        stream.positions.append(position)
        stream.offsets.append(offset)
        stream.durable = stream.assigned = End(frame.sequence, frame.digest, frame.recorded_at)
        if not frame.intact:
            stream.damaged, stream.assigned = frame.sequence, BROKEN
        touched.add(stream.name)

    def _note(self, damage: str) -> None:
        # The first finding is enough to stop at; `verify` lists them all.
        self.damage = self.damage or damage
