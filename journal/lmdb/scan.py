"""Events out of the log in bounded pieces, each read in one short transaction and checked against its checksum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from ..errors import CorruptRecord
from ..event import RecordedEvent
from .environment import Environment
from .frames import VALUE_HEADER_BYTES, Frame, Unreadable, count_of, read_frame
from .index import MISSING, Index, Stream
from .transaction import Reader

__all__ = ["Place", "log_events", "stream_events"]

_EVENTS_MAX: Final = 256
_BYTES_MAX: Final = 1024 * 1024

Place: TypeAlias = "tuple[int, int]"
"""Where to go on in the log: a position, and where its frame begins in its commit (0: to be found)."""


def stream_events(
    env: Environment, index: Index, stream: Stream, *, after: int, until: int
) -> tuple[list[RecordedEvent], CorruptRecord | None]:
    """Return the next events of a stream above the sequence `after`, and what stopped before the next one, if anything.

    At least one event is returned when nothing did.
    """
    events: list[RecordedEvent] = []
    places = index.places(stream, after, min(until - after, _EVENTS_MAX))
    held = size_bytes = 0
    value = memoryview(b"")
    with env.reading() as reader:
        for sequence, (first, position, offset) in enumerate(places, after + 1):
            try:
                # Events of one stream often lie in one commit.
                if first != held or not held:
                    held, value = first, _commit(reader, first)
                frame = read_frame(value, offset)
                if not frame.intact or frame.number != stream.number or frame.sequence != sequence:
                    raise Unreadable("the event does not match its checksum")
            except Unreadable as error:
                return events, CorruptRecord(where=f"{stream.name}, sequence {sequence}", reason=str(error))
            events.append(_recorded(frame, stream, position))
            size_bytes += len(frame.canonical)
            if size_bytes >= _BYTES_MAX:
                break
    return events, None


def log_events(
    env: Environment, index: Index, *, start: Place, until: int
) -> tuple[list[RecordedEvent], Place, CorruptRecord | None]:
    """Return the next events of the log up to the position `until`, where to go on, and what stopped, if anything."""
    events: list[RecordedEvent] = []
    place = start
    size_bytes = 0
    with env.reading() as reader:
        try:
            for position, frame, behind in _walk(reader, index.first_of(start[0]), start):
                events.append(_recorded(frame, _stream_of(index, frame), position))
                place = behind
                size_bytes += len(frame.canonical)
                if position == until or len(events) == _EVENTS_MAX or size_bytes >= _BYTES_MAX:
                    return events, place, None
            raise Unreadable("the event is missing from the log")
        except Unreadable as error:
            return events, place, CorruptRecord(where=f"position {place[0]}", reason=str(error))


def _walk(reader: Reader, commit: int, start: Place) -> Iterator[tuple[int, Frame, Place]]:
    """Yield what is in the log from `start` on, which is in `commit`: the position, the frame and the place behind it.

    Raises:
        Unreadable: the frame at the place behind the last one cannot be found.
    """
    position, offset = start
    for first, value in reader.commits(commit):
        beyond = first + count_of(value)
        if not first <= position < beyond:
            raise Unreadable("the event is missing from the log")
        # Frames have different sizes, so without an offset those before ours are walked over.
        at, offset = (position, offset) if offset else (first, VALUE_HEADER_BYTES)
        while at < beyond:
            frame = read_frame(value, offset)
            at += 1
            offset = frame.after if at < beyond else 0
            if at > position:
                yield position, frame, (at, offset)
                position = at


def _commit(reader: Reader, first: int) -> memoryview:
    value = None if first == MISSING else reader.commit(first)
    if value is None:
        raise Unreadable("the event is missing from the log")
    return value


def _stream_of(index: Index, frame: Frame) -> Stream:
    stream = index.numbered(frame.number)
    if stream is None or not frame.intact:
        named = stream.name if stream else f"stream number {frame.number}"
        raise Unreadable(f"{named}, sequence {frame.sequence}: the event does not match its checksum")
    return stream


def _recorded(frame: Frame, stream: Stream, position: int) -> RecordedEvent:
    return RecordedEvent(
        stream.name, frame.sequence, position, frame.recorded_at, frame.cause, frame.digest, frame.canonical
    )
