"""Events of one stream in bounded pieces: out of its segments, then out of the log.

What is where is looked up first and read then. Between the two a commit may have been sealed and dropped; then it is
looked up again (`Moved`), and what the new look says is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from ..body import Body, unpack_parts
from ..codec import Catalog
from ..errors import CorruptRecord, JournalError, StreamDeleted
from ..event import DATA_MARK, RecordedEvent
from ..journal import Page
from .environment import Environment
from .frames import Frame, Unreadable, read_frame, read_stored
from .index import Index
from .reader import Reader
from .segment import Loader, Segment, open_segment, typed_one_by_one
from .stream import MISSING, Stream

__all__ = ["StreamScan", "body_of", "recorded"]

_EVENTS_MAX: Final = 256
_BYTES_MAX: Final = 1024 * 1024
_SEALED_BYTES_MAX: Final = 64 * 1024
_LOOKS_MAX: Final = 100

T = TypeVar("T")

Places: TypeAlias = "Sequence[tuple[int, int, int]]"
"""Where events of a stream lie in the log: the commit, the position and the offset of each."""


class Moved(Exception):
    """What was looked up is no longer where it was."""


class _Piece(NamedTuple):
    """Frames of the log that follow each other in their stream, with their positions; what stopped, if anything."""

    frames: list[tuple[int, Frame]]
    error: CorruptRecord | None


class _Stored(NamedTuple):
    """Events of the log that follow each other in their stream, to be decoded together: see `decode_together`."""

    causes: list[str]
    kinds: list[bytes]
    kind_of: list[int]
    data: list[list[bytes]]


class _Sealed(NamedTuple):
    """Segments of a stream that follow each other, with the last sequences in them."""

    values: list[tuple[int, bytes]]


class StreamScan:
    """Reads one stream from a sequence on, as of the call."""

    def __init__(
        self, env: Environment, index: Index, loader: Loader, refresh: Callable[[], None], name: str, after: int
    ) -> None:
        self._env = env
        self._index = index
        self._loader = loader
        self._refresh = refresh
        self._name = name
        self._after = after
        self._ahead: tuple[int, _Sealed] | None = None
        stream = self._there(index.find(name) or self._begin())
        self._until = 0 if stream is None else stream.durable.sequence
        self._reset = 0 if stream is None else stream.reset

    def _begin(self) -> Stream | None:
        """Look a stream up that is not in memory, and what is to be read first of it in the same transaction."""
        generation = self._index.generation
        with self._env.reading() as reader:
            loaded = self._index.recall(reader, self._name)
            if loaded is not None and self._after < loaded.sealed:
                self._until = loaded.sealed
                with suppress(Moved):
                    self._ahead = generation, self._segments(reader, loaded, self._after + 1)
        # It may have come into memory meanwhile, with events that were not there before.
        return self._index.find(self._name) or loaded

    def events(self, after: int) -> Iterator[RecordedEvent]:
        """Yield recorded events above the sequence `after`."""
        while after < self._until:
            found = self._some(after, self._piece)
            if isinstance(found, _Sealed):
                for last, value in found.values:
                    segment = self._open(last, value, after + 1)
                    try:
                        events = segment.events(after + 1, self._until)
                    except Unreadable as error:
                        raise self._corrupt(segment.first, error) from error
                    yield from events
                    after = last
                continue
            for position, frame in found.frames:
                yield recorded(self._name, position, frame, self._loader)
            after += len(found.frames)
            if found.error is not None:
                raise found.error

    def pages(self, catalog: Catalog, after: int) -> Iterator[Page]:
        """Yield typed events above the sequence `after`."""
        while after < self._until:
            found = self._some(after, self._stored)
            if isinstance(found, _Sealed):
                for last, value in found.values:
                    yield from self._segment_pages(self._open(last, value, after + 1), catalog, after)
                    after = last
            elif isinstance(found, _Stored) and (events := _decoded(catalog, found)) is not None:
                yield Page(after + 1, found.causes, events)
                after += len(events)
            else:
                # Something is old, large, unknown or damaged: one by one, which says what.
                slow = self._some(after, self._piece)
                if isinstance(slow, _Piece):
                    page, error = _typed(self._name, slow, catalog, self._loader, after + 1)
                    if page.events:
                        yield page
                    if error is not None:
                        raise error
                    after += len(slow.frames)

    def _segment_pages(self, segment: Segment, catalog: Catalog, after: int) -> Iterator[Page]:
        first = max(after + 1, segment.first)
        typed = segment.typed(catalog, after)
        error: JournalError | None = None
        if typed is None:
            causes, events = list[str](), list[msgspec.Struct]()
            try:
                for cause, event in typed_one_by_one(segment, catalog, after):
                    causes.append(cause)
                    events.append(event)
            except JournalError as stopped:
                error = stopped
            except Unreadable as stopped:
                error = self._corrupt(segment.first, stopped)
            typed = causes, events
        # A segment may have grown since the call, when it was sealed anew with later events.
        count = self._until + 1 - first
        if typed[1]:
            whole = len(typed[1]) <= count
            yield Page(first, *typed) if whole else Page(first, typed[0][:count], typed[1][:count])
        if error is not None and len(typed[1]) < count:
            raise error

    def _look(self) -> Stream | None:
        return self._there(self._index.look(self._name))

    def _there(self, stream: Stream | None) -> Stream | None:
        if stream is not None and stream.deleted is not None:
            raise StreamDeleted(stream=self._name, sequence=stream.deleted.sequence, digest=stream.deleted.digest)
        return stream

    def _some(
        self, after: int, read: Callable[[Reader, Stream, int, Sequence[tuple[int, int, int]]], T]
    ) -> T | _Sealed:
        """Return what comes next behind the sequence `after`: segments, or what `read` makes of a piece of the log."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and after == self._after and ahead[0] == self._index.generation:
            return ahead[1]
        for _ in range(_LOOKS_MAX):
            generation = self._index.generation
            stream = self._look()
            if stream is None or stream.reset != self._reset:
                # Deleted, and begun again by an import.
                raise StreamDeleted(stream=self._name, sequence=0, digest=b"")
            sealed, places = self._index.places(stream, after, min(self._until - after, _EVENTS_MAX))
            try:
                with self._env.reading() as reader:
                    if after < sealed:
                        return self._segments(reader, stream, after + 1)
                    if places:
                        return read(reader, stream, after, places)
                    raise Moved
            except Moved:
                self._refresh()
                self._index.wait_settled()
                if generation == self._index.generation:
                    break
        raise self._corrupt(after + 1, "the event is missing")

    def _segments(self, reader: Reader, stream: Stream, sequence: int) -> _Sealed:
        values: list[tuple[int, bytes]] = []
        size_bytes = 0
        for number, last, value in reader.segments(stream.number, sequence):
            if number != stream.number:
                break
            values.append((last, bytes(value)))
            size_bytes += len(value)
            if last >= self._until or size_bytes >= _SEALED_BYTES_MAX:
                break
        if not values:
            raise Moved
        return _Sealed(values)

    def _open(self, last: int, value: bytes, sequence: int) -> Segment:
        try:
            segment = open_segment(self._name, last, value, self._loader)
        except Unreadable as error:
            raise self._corrupt(sequence, error) from error
        if segment.first > sequence:
            raise self._corrupt(sequence, f"sequences {sequence} to {segment.first - 1} are missing")
        return segment

    def _stored(self, reader: Reader, stream: Stream, after: int, places: Places) -> _Stored | None:
        """Read events of the log to be decoded together; None where the first of them is not for that."""
        causes: list[str] = []
        kinds: dict[bytes, int] = {}
        kind_of: list[int] = []
        data: list[list[bytes]] = []
        held, value, number = MISSING, memoryview(b""), stream.number
        for sequence, (first, _, offset) in enumerate(places, after + 1):
            if first != held:
                try:
                    held, value = first, _commit(reader, first)
                except (Moved, Unreadable):
                    break
            found = read_stored(value, offset, number, sequence)
            if found is None:
                break
            cause, kind, piece = found
            known = kinds.get(kind)
            if known is None:
                known = kinds[kind] = len(kinds)
                data.append([])
            causes.append(cause)
            kind_of.append(known)
            data[known].append(piece)
        return _Stored(causes, list(kinds), kind_of, data) if causes else None

    def _piece(self, reader: Reader, stream: Stream, after: int, places: Places) -> _Piece:
        frames: list[tuple[int, Frame]] = []
        held = size_bytes = 0
        value = memoryview(b"")
        for sequence, (first, position, offset) in enumerate(places, after + 1):
            try:
                # Events of one stream often lie in one commit.
                if first != held or not held:
                    held, value = first, _commit(reader, first)
                frame = read_frame(value, offset)
                if not frame.intact or frame.number != stream.number or frame.sequence != sequence:
                    raise Unreadable("the event does not match its checksum")
            except Unreadable as error:
                return _Piece(frames, self._corrupt(sequence, error))
            except Moved:
                if frames:
                    break
                raise
            frames.append((position, frame))
            size_bytes += len(frame.stored)
            if size_bytes >= _BYTES_MAX:
                break
        return _Piece(frames, None)

    def _corrupt(self, sequence: int, reason: object) -> CorruptRecord:
        return CorruptRecord(where=f"{self._name}, sequence {sequence}", reason=str(reason))


def recorded(name: str, position: int, frame: Frame, loader: Loader) -> RecordedEvent:
    """Return the event of a frame.

    Raises:
        CorruptRecord: the parts of a large event cannot be told.
    """
    body = body_of(name, frame, loader) if frame.in_parts else frame.stored
    return RecordedEvent(name, frame.sequence, position, frame.recorded_at, frame.cause, frame.digest, body)


def body_of(name: str, frame: Frame, loader: Loader) -> Body:
    """Return the body of a large event.

    Raises:
        CorruptRecord: its parts cannot be told.
    """
    try:
        return Body(unpack_parts(frame.stored), loader.chunk)
    except msgspec.MsgspecError as error:
        where = f"{name}, sequence {frame.sequence}"
        raise CorruptRecord(where=where, reason=f"the parts of a large event cannot be told: {error}") from error


def _decoded(catalog: Catalog, stored: _Stored) -> list[msgspec.Struct] | None:
    """Return the typed events; None where one of them needs more than to be decoded."""
    arrays = [b"[" + b",".join(pieces) + b"]" for pieces in stored.data]
    return catalog.decode_together(stored.kinds, stored.kind_of, arrays)


def _typed(
    name: str, piece: _Piece, catalog: Catalog, loader: Loader, first_sequence: int
) -> tuple[Page, JournalError | None]:
    """Return the typed events of a piece, and what stopped before its end, if anything."""
    decoders = catalog.decoders
    causes: list[str] = []
    events: list[msgspec.Struct] = []
    for position, frame in piece.frames:
        stored = frame.stored
        mark = -1 if frame.in_parts else stored.find(DATA_MARK)
        decode = decoders.get(stored[:mark]) if mark > 0 else None
        try:
            if decode is not None:
                try:
                    events.append(decode(stored[mark + _MARK_BYTES : -1]))
                    causes.append(frame.cause)
                    continue
                except msgspec.MsgspecError:
                    # Said again below, with its place.
                    pass
            events.append(catalog.decode(recorded(name, position, frame, loader)))
            causes.append(frame.cause)
        except JournalError as error:
            return Page(first_sequence, causes, events), error
    return Page(first_sequence, causes, events), piece.error


_MARK_BYTES: Final = len(DATA_MARK)


def _commit(reader: Reader, first: int) -> memoryview:
    if first == MISSING:
        raise Unreadable("the event is missing from the log")
    value = reader.commit(first)
    if value is None:
        raise Moved
    return value
