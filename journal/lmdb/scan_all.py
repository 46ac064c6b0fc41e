"""Events of all streams in the order of their positions: those that are sealed by the recorded order, then the log.

What is sealed lies by stream, so a window of positions is put together from the segments that its events are in. The
window grows as the reading goes on: whoever wants a few events pays for few, and whoever wants all decompresses each
segment a few times at the most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ..errors import CorruptRecord
from ..event import RecordedEvent, category_of
from .environment import Environment
from .frames import VALUE_HEADER_BYTES, Frame, Unreadable, count_of, read_frame
from .index import Index
from .order import read_order
from .reader import Reader
from .scan import Moved, recorded
from .segment import Loader, open_segment
from .stream import MISSING

__all__ = ["JournalScan"]

_EVENTS_MAX: Final = 256
_BYTES_MAX: Final = 1024 * 1024
_WINDOW_MIN: Final = 256
_WINDOW_MAX: Final = 65_536
_SEGMENTS_AT_ONCE: Final = 64
_LOOKS_MAX: Final = 100


class _Wanted(NamedTuple):
    """An event of a window: its sequence, its position, and its place in the window."""

    sequence: int
    position: int
    slot: int


class _Piece(NamedTuple):
    """Some events, the position behind them (with its offset in its commit, 0: to be found), and what stopped."""

    events: list[RecordedEvent]
    position: int
    offset: int
    error: CorruptRecord | None


class JournalScan:
    """Reads every stream (of one category) up to a position."""

    def __init__(
        self,
        env: Environment,
        index: Index,
        loader: Loader,
        refresh: Callable[[], None],
        *,
        until: int,
        category: str | None,
    ) -> None:
        self._env = env
        self._index = index
        self._loader = loader
        self._refresh = refresh
        self._until = until
        self._category = category
        self._names: dict[int, str | None] = {}
        self._resets: dict[int, int] = {}

    def events(self, after: int) -> Iterator[RecordedEvent]:
        """Yield the events at positions above `after`."""
        position, offset, window = after + 1, 0, _WINDOW_MIN
        while position <= self._until:
            if position <= self._index.sealed:
                piece = self._window(position, min(window, self._until + 1 - position))
                window = min(2 * window, _WINDOW_MAX)
            else:
                piece = self._piece(position, offset)
            yield from piece.events
            position, offset = piece.position, piece.offset
            if piece.error is not None:
                raise piece.error

    def _wanted(self, number: int, name: str | None) -> bool:
        return name is None or self._category is None or category_of(name) == self._category

    # What is sealed.

    def _window(self, position: int, count: int) -> _Piece:
        """Put the events of some positions together; fewer than `count` where what is sealed ends."""
        try:
            with self._env.reading() as reader:
                wanted, slots = self._order(reader, position, count)
        except Unreadable as error:
            return _Piece([], position, 0, _corrupt(position, error))
        found: list[RecordedEvent | None] = [None] * slots
        failed: dict[int, CorruptRecord] = {}
        for number, events in wanted.items():
            try:
                self._fill(found, number, events)
            except CorruptRecord as error:
                slot = next((one.slot for one in events if found[one.slot] is None), events[0].slot)
                failed[slot] = error
        stop = min(failed, default=slots)
        events = [event for event in found[:stop] if event is not None]
        return _Piece(events, position + slots, 0, failed.get(stop))

    def _order(self, reader: Reader, position: int, count: int) -> tuple[dict[int, list[_Wanted]], int]:
        """Return which events stand at these positions, by stream, and how many positions are known."""
        wanted: dict[int, list[_Wanted]] = {}
        slots = 0
        for first, value in reader.order(position):
            order = read_order(value, self._loader.codec)
            skip = position + slots - first
            if not 0 <= skip < len(order.numbers):
                raise Unreadable("the order of events is not known")
            for number, sequence in zip(order.numbers[skip:], order.sequences[skip:], strict=True):
                if number != MISSING and self._wanted(number, self._name(reader, number)):
                    wanted.setdefault(number, []).append(_Wanted(sequence, position + slots, slots))
                slots += 1
                if slots == count:
                    return wanted, slots
        if not slots:
            raise Unreadable("the order of events is not known")
        return wanted, slots

    def _fill(self, found: list[RecordedEvent | None], number: int, events: Sequence[_Wanted]) -> None:
        """Put the wanted events of one stream where they belong; those that were deleted are not wanted."""
        at = 0
        while at < len(events):
            with self._env.reading() as reader:
                name = self._name(reader, number)
                reset = self._index.reset_of(reader, number)
                if reset >= events[at].position:
                    at += 1
                    continue
                values = self._values(reader, number, events[at:])
            if name is None:
                raise _corrupt(events[at].position, f"its stream (number {number}) has no name")
            for last, value in values:
                try:
                    segment = open_segment(name, last, value, self._loader)
                    here = segment.events(events[at].sequence, last)
                except Unreadable as error:
                    raise _corrupt(events[at].position, f"{name}, sequence {events[at].sequence}: {error}") from error
                first = here[0].sequence if here else last + 1
                while at < len(events) and events[at].sequence <= last:
                    one = events[at]
                    if one.sequence < first or here[one.sequence - first].position != one.position:
                        self._check_deleted(number, one)
                    else:
                        found[one.slot] = here[one.sequence - first]
                    at += 1
            if not values:
                self._check_deleted(number, events[at])
                at += 1

    def _values(self, reader: Reader, number: int, events: Sequence[_Wanted]) -> list[tuple[int, bytes]]:
        """Return the segments that hold the next of these events."""
        values: list[tuple[int, bytes]] = []
        for found, last, value in reader.segments(number, events[0].sequence):
            if found != number or len(values) == _SEGMENTS_AT_ONCE:
                break
            values.append((last, bytes(value)))
            if last >= events[-1].sequence:
                break
        return values

    def _check_deleted(self, number: int, one: _Wanted) -> None:
        self._refresh()
        self._index.wait_settled()
        with self._env.reading() as reader:
            if self._index.reset_of(reader, number) < one.position:
                name = self._name(reader, number) or f"stream number {number}"
                raise _corrupt(one.position, f"{name}, sequence {one.sequence}: the event is missing")

    def _name(self, reader: Reader, number: int) -> str | None:
        if number not in self._names:
            self._names[number] = self._index.name_of(reader, number)
        return self._names[number]

    # What is in the log.

    def _piece(self, position: int, offset: int) -> _Piece:
        """Return the next events of the log from a position on, whose frame begins at `offset` in its commit."""
        for _ in range(_LOOKS_MAX):
            generation = self._index.generation
            try:
                with self._env.reading() as reader:
                    return self._walked(reader, position, offset)
            except Moved:
                self._refresh()
                self._index.wait_settled()
                if position <= self._index.sealed:
                    return _Piece([], position, 0, None)
                if generation == self._index.generation:
                    break
        return _Piece([], position, 0, _corrupt(position, "the event is missing from the log"))

    def _walked(self, reader: Reader, position: int, offset: int) -> _Piece:
        events: list[RecordedEvent] = []
        count = size_bytes = 0
        self._resets.clear()
        try:
            for at, frame, behind in _walk(reader, position, offset):
                event = self._event(reader, at, frame)
                position, offset = behind
                count += 1
                if event is not None:
                    events.append(event)
                    size_bytes += len(frame.stored)
                if at == self._until or count == _EVENTS_MAX or size_bytes >= _BYTES_MAX:
                    return _Piece(events, position, offset, None)
        except (Unreadable, CorruptRecord) as error:
            failed = error if isinstance(error, CorruptRecord) else _corrupt(position, error)
            return _Piece(events, position, offset, failed)
        except Moved:
            pass
        if not count:
            raise Moved
        return _Piece(events, position, offset, None)

    def _event(self, reader: Reader, position: int, frame: Frame) -> RecordedEvent | None:
        name = self._name(reader, frame.number)
        if name is None or not frame.intact:
            named = name or f"stream number {frame.number}"
            raise Unreadable(f"{named}, sequence {frame.sequence}: the event does not match its checksum")
        reset = self._resets.get(frame.number)
        if reset is None:
            reset = self._resets[frame.number] = self._index.reset_of(reader, frame.number)
        if position <= reset or not self._wanted(frame.number, name):
            return None
        return recorded(name, position, frame, self._loader)


def _walk(reader: Reader, position: int, offset: int) -> Iterator[tuple[int, Frame, tuple[int, int]]]:
    """Yield what is in the log from a position on: the position, the frame, and the place behind it.

    Raises:
        Unreadable: the frame at the place behind the last one cannot be found.
    """
    for first, value in reader.commits(position, within=True):
        beyond = first + count_of(value)
        if position >= beyond or position < first:
            # A commit before ours is the last one: ours is gone. One behind ours: it was dropped, or is lost.
            raise Moved
        # Frames have different sizes, so without an offset those before ours are walked over.
        at, offset = (position, offset) if offset else (first, VALUE_HEADER_BYTES)
        while at < beyond:
            frame = read_frame(value, offset)
            at += 1
            offset = frame.after if at < beyond else 0
            if at > position:
                yield position, frame, (at, offset)
                position = at


def _corrupt(position: int, reason: object) -> CorruptRecord:
    return CorruptRecord(where=f"position {position}", reason=str(reason))
