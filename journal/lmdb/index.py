"""Where each stream ends, and where those of its events lie that are not sealed yet.

Only streams with events in the log are kept in memory, and those that were appended to lately; everything else is
looked up in the journal when it is asked for. So opening costs what the log holds, however many streams there are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..event import check_stream
from .environment import Environment
from .frames import VALUE_HEADER_BYTES, End, Place, Unreadable, count_of, read_names, read_places
from .reader import Reader
from .stream import BROKEN, DELETED, GONE, MISSING, Stream, broken, load

__all__ = ["SEALED_UNKNOWN", "Index"]

_SETTLE_S: Final = 30.0
_KEPT_MAX: Final = 16_384
"""How many streams without events in the log are kept for the next append."""


SEALED_UNKNOWN: Final = "the mark of how far the journal is sealed does not match its checksum"


class Index:
    """The streams of a journal, the position of the last durable event, and how far the log is sealed.

    `damage` says what the log was found to lack, so that nobody appends behind a hole. `generation` changes when
    something that was looked up may no longer be where it was.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._lock = threading.Lock()
        self._by_name: dict[str, Stream] = {}
        self._by_number: dict[int, Stream] = {}
        self._tails: dict[int, Stream] = {}
        self._next_number = 1
        self.position = 0
        self.sealed = 0
        self.generation = 0
        self.damage = ""
        self._settled = threading.Event()
        self._settled.set()
        self.find: Callable[[str], Stream | None] = self._by_name.get
        """Return the stream of that name, if it is in memory; to look there costs an append nearly nothing."""

    def restart(self, reader: Reader) -> None:
        """Forget everything, and begin where the log does."""
        with self._lock:
            self._by_name.clear()
            self._by_number.clear()
            self._tails.clear()
            self.position = self.sealed = reader.sealed()
            self._next_number = reader.last_number() + 1
            self.generation += 1
            self.damage = "" if reader.sealed_is_known() else SEALED_UNKNOWN

    def look(self, name: str) -> Stream | None:
        """Return a stream to read from: what it was at the call, or what it is."""
        found = self._by_name.get(name)
        if found is not None:
            return found
        with self._env.reading() as reader:
            loaded = self.recall(reader, name)
        # It may have come into memory meanwhile, with events that were not there before.
        return self._by_name.get(name) or loaded

    def recall(self, reader: Reader, name: str) -> Stream | None:
        """Return what is recorded of a stream that is not in memory, to read from; damage is left to the reading."""
        return load(reader, name, check=False)

    def own(self, name: str) -> Stream:
        """Return the one `Stream` of that name that appends go through, numbered now if it is new.

        Raises:
            InvalidName: see `check_stream`.
        """
        check_stream(name)
        while True:
            generation = self.generation
            with self._env.reading() as reader:
                loaded = load(reader, name)
            with self._lock:
                if (found := self._by_name.get(name)) is not None:
                    return found
                if generation != self.generation:
                    continue
                return self._enter(loaded or Stream(name, self._next_number))

    def _enter(self, stream: Stream) -> Stream:
        self._by_name[stream.name] = self._by_number[stream.number] = stream
        self._next_number = max(self._next_number, stream.number + 1)
        return stream

    def name_of(self, reader: Reader, number: int) -> str | None:
        """Return the name of the stream that the journal knows by `number`."""
        found = self._by_number.get(number)
        return found.name if found is not None else reader.name(number) or None

    def reset_of(self, reader: Reader, number: int) -> int:
        """Return the position up to which the events of a stream were deleted."""
        found = self._by_number.get(number)
        if found is None:
            name = reader.name(number)
            found = load(reader, name) if name else None
        return 0 if found is None else found.reset

    def publish(self, first: int, grown: Iterable[tuple[Stream, Sequence[bytes], End]]) -> None:
        """Show readers what one log value at position `first` has brought: streams, their frames, their new ends."""
        position, offset = first, VALUE_HEADER_BYTES
        with self._lock:
            for stream, frames, end in grown:
                if not stream.positions:
                    self._tails[stream.number] = stream
                    if not stream.began or not stream.durable.sequence:
                        stream.began, stream.deleted = position, None
                for frame in frames:
                    stream.positions.append(position)
                    stream.offsets.append(offset)
                    stream.firsts.append(first)
                    position += 1
                    offset += len(frame)
                stream.durable = end
            self.position = position - 1

    def publish_sealed(self, sealed: Iterable[tuple[Stream, int]]) -> None:
        """Show readers that streams lie in segments up to a sequence."""
        with self._lock:
            for stream, until in sealed:
                count = until - stream.sealed
                del stream.positions[:count], stream.offsets[:count], stream.firsts[:count]
                stream.sealed, stream.recorded = until, True
                if not stream.positions:
                    self._tails.pop(stream.number, None)
            self.generation += 1

    def publish_dropped(self, position: int) -> None:
        """Show readers that the log begins behind a position."""
        with self._lock:
            self.sealed = position
            self.generation += 1

    def publish_deleted(self, stream: Stream, reset: int, end: End) -> None:
        """Show readers that a stream has no events any more."""
        with self._lock:
            stream.clear(reset, end)
            stream.recorded = True
            self._tails.pop(stream.number, None)
            self.generation += 1

    def evict(self) -> None:
        """Put streams that are all sealed out of memory, where there are many. Appends must be held off meanwhile."""
        with self._lock:
            if len(self._by_name) - len(self._tails) <= _KEPT_MAX:
                return
            for stream in list(self._by_name.values()):
                at_rest = stream.assigned is stream.durable or stream.assigned is DELETED
                if at_rest and stream.recorded and stream.number not in self._tails:
                    stream.assigned = GONE
                    del self._by_name[stream.name], self._by_number[stream.number]
            self.generation += 1

    def begin_move(self) -> None:
        """Say that a transaction is about to move or delete what readers may look for."""
        self._settled.clear()

    def end_move(self) -> None:
        """Say that this index tells again what is where."""
        self._settled.set()

    def wait_settled(self) -> None:
        """Wait while something is being moved: it is durable a moment before this index tells it."""
        self._settled.wait(_SETTLE_S)

    def droppable(self) -> int:
        """Return the position up to which everything in the log is sealed or deleted."""
        with self._lock:
            firsts = [stream.positions[0] for stream in self._tails.values() if stream.positions]
            return min(firsts) - 1 if firsts else self.position

    def tails(self) -> list[Stream]:
        """Return the streams that have events in the log which are not sealed."""
        with self._lock:
            return list(self._tails.values())

    def places(self, stream: Stream, after: int, count: int) -> tuple[int, list[tuple[int, int, int]]]:
        """Return how far `stream` is sealed, and where up to `count` events behind `after` are, if that is in the log.

        A place is the commit, the position and the offset.
        """
        with self._lock:
            at = after - stream.sealed
            if at < 0:
                return stream.sealed, []
            until = at + count
            return stream.sealed, list(
                zip(stream.firsts[at:until], stream.positions[at:until], stream.offsets[at:until], strict=True)
            )

    def count(self) -> tuple[int, int]:
        """Return how many streams and events there are."""
        with self._env.reading() as reader:
            recorded, removed = reader.counts()
        with self._lock:
            new = sum(not stream.recorded for stream in self._tails.values())
            return recorded + new, self.position - removed

    def unrecorded(self) -> list[Stream]:
        """Return the durable streams that have no record yet, ordered by name."""
        with self._lock:
            found = [stream for stream in self._tails.values() if not stream.recorded]
        return sorted(found, key=lambda stream: stream.name)

    def learn_names(self, reader: Reader, first: int, value: memoryview) -> None:
        """Take in the names of the streams that begin in the commit at `first`."""
        with self._lock:
            try:
                for number, name in read_names(value):
                    if number not in self._by_number:
                        self._enter(self._begun(reader, number, name))
            except Unreadable as error:
                self._note(f"the commit at position {first}: {error}")

    def learn(self, reader: Reader, first: int, value: memoryview) -> set[str]:
        """Take in one log value that another process, or an earlier one, has written; return the streams it touched."""
        touched: set[str] = set()
        with self._lock:
            # Whoever looked while this index began anew may have seen less than there is.
            self.generation += 1
            if first != self.position + 1:
                self._note(f"positions {self.position + 1} to {first - 1} are missing")
            self.position = first
            try:
                count = count_of(value)
                self.position = first + count - 1
                offset = self._take_in(reader, first, value, touched)
                if offset != len(value):
                    self._note(f"the commit at position {first} holds {len(value) - offset} bytes too many")
            except Unreadable as error:
                self._note(f"the commit at position {first} cannot be read: {error}")
        return touched

    def _take_in(self, reader: Reader, first: int, value: memoryview, touched: set[str]) -> int:
        """Take in the events of a log value; return where they end. To open a journal is mostly this."""
        streams, end = self._by_number, VALUE_HEADER_BYTES
        for position, place in enumerate(read_places(value), first):
            number, sequence, digest, recorded_at, offset, end, intact = place
            stream = streams.get(number)
            if stream is None or not intact or sequence != stream.durable.sequence + 1 or position <= stream.reset:
                self._place(reader, Place(*place), first, position, offset, touched)
                continue
            if not stream.positions:
                self._begin_tail(stream, position, touched)
            stream.positions.append(position)
            stream.firsts.append(first)
            stream.offsets.append(offset)
            stream.durable = stream.assigned = End(sequence, digest, recorded_at)
            touched.add(stream.name)
        return end

    def _begin_tail(self, stream: Stream, position: int, touched: set[str]) -> None:
        """Take note of the first event of a stream that is in the log and not sealed."""
        stream.began, stream.deleted = stream.began or position, None
        self._tails[stream.number] = stream
        touched.add(stream.name)

    def _place(self, reader: Reader, place: Place, first: int, position: int, offset: int, touched: set[str]) -> None:
        stream = self._by_number.get(place.number) or self._recall(reader, place.number)
        if stream is None:
            self._note(f"the event at position {position} belongs to stream number {place.number}, which has no name")
            return
        if position <= stream.reset or place.sequence <= stream.sealed:
            # Deleted or sealed, and not dropped from the log yet.
            return
        expected = stream.durable.sequence + 1
        if place.sequence < expected or (place.sequence > expected and not place.intact):
            self._note(f"position {position}: {stream.name}, sequence {expected} expected, {place.sequence} found")
            return
        if place.sequence > expected:
            self._note(f"{stream.name}: sequences {expected} to {place.sequence - 1} are missing")
            lost = place.sequence - expected
            stream.positions.extend([MISSING] * lost)
            stream.firsts.extend([MISSING] * lost)
            stream.offsets.extend([0] * lost)
        stream.positions.append(position)
        stream.firsts.append(first)
        stream.offsets.append(offset)
        stream.durable = stream.assigned = End(place.sequence, place.digest, place.recorded_at)
        if not place.intact:
            stream.damaged, stream.assigned = place.sequence, BROKEN
        self._begin_tail(stream, position, touched)

    def _begun(self, reader: Reader, number: int, name: str) -> Stream:
        """Return a stream that the log says has begun in it: it may be recorded already, sealed or deleted."""
        recorded, loaded = reader.name(number), load(reader, name)
        if recorded is None and loaded is None:
            return Stream(name, number)
        if loaded is None or loaded.number != number:
            loaded = broken(Stream(name, number))
        if recorded != name or loaded.number != number or not loaded.recorded:
            self._note(f"{name}: its record and its number {number} do not agree, or are damaged")
        return loaded

    def _recall(self, reader: Reader, number: int) -> Stream | None:
        """Load a stream that has begun before the log did."""
        name = reader.name(number)
        loaded = load(reader, name) if name else None
        return None if loaded is None or loaded.number != number else self._enter(loaded)

    def _note(self, damage: str) -> None:
        # The first finding is enough to stop at; `verify` lists them all.
        self.damage = self.damage or damage
