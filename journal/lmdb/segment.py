"""Sealed events: about a hundred of one stream in one value, by columns, compressed together.

A header that needs no decompression says where the segment ends, so the end of a stream is found without reading it.
Digests are not stored but computed again from the one before the segment: that costs little, and proves on every read
that the events are those which were recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from ..body import Body, Chunk
from ..codec import Catalog, chain
from ..event import RecordedEvent
from .columns import (
    Columns,
    Places,
    Sealed,
    decode_columns,
    decode_places,
    encode_columns,
    gather,
    parts_of,
    unchanged,
    whole,
)
from .compression import Codec
from .frames import End, Unreadable

__all__ = [
    "SEGMENT_BYTES_MAX",
    "SEGMENT_EVENTS_MAX",
    "Header",
    "Loader",
    "Segment",
    "check_segment",
    "open_segment",
    "read_header",
    "seal",
    "typed_one_by_one",
]

SEGMENT_EVENTS_MAX: Final = 128
SEGMENT_BYTES_MAX: Final = 256 * 1024

_CHECKSUM = Struct("<I")
_HEAD = Struct("<BBHIQ16s16s")  # compression, flags, count, size of the columns, recorded_at, digest before, digest
_HEADER_BYTES: Final = _CHECKSUM.size + _HEAD.size
_HAS_CHUNKS: Final = 1


class Header(NamedTuple):
    """What a segment says without being decompressed."""

    compression: int
    chunked: bool
    events: int
    size_bytes: int
    recorded_at: int
    before: bytes
    digest: bytes


class Loader(NamedTuple):
    """What reading a segment needs from its journal: how to decompress, and how to get a chunk."""

    codec: Codec
    chunk: Callable[[Chunk], bytes]


def seal(events: Sequence[Sealed], *, before: bytes, end: End, codec: Codec) -> bytes:
    """Return a segment of these events; `before` is the digest in front of them, `end` what their last one is."""
    columns = gather(events)
    raw = encode_columns(columns)
    compression, packed = codec.compress(raw, dictionary=True)
    flags = _HAS_CHUNKS if columns.chunked else 0
    body = _HEAD.pack(compression, flags, len(events), len(raw), end.recorded_at, before, end.digest) + packed
    return _CHECKSUM.pack(crc32(body)) + body


class Segment:
    """A segment taken apart: its first and last sequence, and its events."""

    __slots__ = ("_bodies", "_columns", "_loader", "_places", "first", "header", "last", "stream")

    def __init__(self, stream: str, last: int, header: Header, columns: Columns, loader: Loader) -> None:
        self.stream = stream
        self.first = last - header.events + 1
        self.last = last
        self.header = header
        self._columns = columns
        self._loader = loader
        self._places: Places | None = None
        self._bodies: list[bytes | Body] | None = None

    @property
    def positions(self) -> list[int]:
        """Where its events stand in the journal."""
        return self._where().positions

    def _where(self) -> Places:
        if self._places is None:
            self._places = decode_places(self._columns, self.header.events)
        return self._places

    @property
    def chunks(self) -> Iterator[bytes]:
        """The digests of the chunks that its events name."""
        for number, _, data in self._pieces():
            if number in self._columns.chunked:
                yield from (part.digest for part in parts_of(data) if isinstance(part, Chunk))

    def sealed(self) -> list[Sealed]:
        """Return its events as they were sealed."""
        columns, chunked = self._columns, self._digests()
        stored = [
            data if number in chunked else whole(columns.kinds[kind], data) for number, kind, data in self._pieces()
        ]
        times, causes = self._where().times, unchanged(columns.causes)
        return [
            Sealed(position, time, cause, one, chunked.get(number, b""))
            for number, (position, time, cause, one) in enumerate(
                zip(self.positions, times, causes, stored, strict=True)
            )
        ]

    def bodies(self) -> list[bytes | Body]:
        """Return the canonical bytes of its events, the large ones to be loaded."""
        if self._bodies is None:
            kinds = self._columns.kinds
            bodies: list[bytes | Body] = [whole(kinds[kind], data) for _, kind, data in self._pieces()]
            if self._columns.chunked:
                pieces = [data for _, _, data in self._pieces()]
                for number in self._columns.chunked:
                    bodies[number] = Body(parts_of(pieces[number]), self._loader.chunk)
            self._bodies = bodies
        return self._bodies

    def events(self, first: int, last: int) -> list[RecordedEvent]:
        """Return its events from the sequence `first` to `last`, as far as it has them.

        Raises:
            Unreadable: they do not lead to the digest at its end, so they are not what was recorded.
        """
        bodies = self.bodies()
        digests: list[bytes] = []
        digest, known = self.header.before, self._digests()
        for number, body in enumerate(bodies):
            digest = chain(digest, body) if isinstance(body, bytes) else known[number]
            digests.append(digest)
        if digest != self.header.digest:
            raise Unreadable("the events do not lead to the recorded digest")
        stream, begin, end = self.stream, max(0, first - self.first), last + 1 - self.first
        times, causes = self._where().times, unchanged(self._columns.causes)
        return [
            RecordedEvent(stream, sequence, position, time, cause, digest, body)
            for sequence, position, time, cause, digest, body in zip(
                range(self.first + begin, self.last + 1),
                self.positions[begin:end],
                times[begin:end],
                causes[begin:end],
                digests[begin:end],
                bodies[begin:end],
                strict=False,
            )
        ]

    def typed(self, catalog: Catalog, after: int) -> tuple[Sequence[str], list[msgspec.Struct]] | None:
        """Return causes and typed events above the sequence `after`; None where some need more than to be decoded."""
        columns = self._columns
        if columns.chunked:
            return None
        events = catalog.decode_together(columns.kinds, columns.kind_of, columns.data)
        if events is None or len(events) != self.header.events:
            return None
        causes, skip = unchanged(columns.causes), max(0, after + 1 - self.first)
        return (causes[skip:], events[skip:]) if skip else (causes, events)

    def _digests(self) -> dict[int, bytes]:
        """Return the digests of the large events by their number here."""
        return dict(zip(self._columns.chunked, self._columns.digests, strict=True))

    def _pieces(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield for each event its number here, its kind and its data."""
        columns = self._columns
        starts = [1] * len(columns.data)
        for number, (kind, size) in enumerate(zip(columns.kind_of, self._where().sizes, strict=True)):
            start = starts[kind]
            yield number, kind, bytes(columns.data[kind][start : start + size])
            starts[kind] = start + size + 1


def read_header(value: memoryview | bytes) -> Header:
    """Return what a segment says without being decompressed.

    Raises:
        Unreadable: it is cut short.
    """
    if len(value) < _HEADER_BYTES:
        raise Unreadable("a segment is cut short")
    compression, flags, count, size_bytes, recorded_at, before, digest = _HEAD.unpack_from(value, _CHECKSUM.size)
    return Header(compression, bool(flags & _HAS_CHUNKS), count, size_bytes, recorded_at, before, digest)


def check_segment(value: memoryview | bytes) -> Header:
    """Return what a segment says without being decompressed, if it matches its checksum.

    Raises:
        Unreadable: it does not.
    """
    header = read_header(value)
    if crc32(memoryview(value)[_CHECKSUM.size :]) != _CHECKSUM.unpack_from(value)[0]:
        raise Unreadable("the segment does not match its checksum")
    return header


def open_segment(stream: str, last: int, value: bytes, loader: Loader) -> Segment:
    """Take a segment apart, whose last sequence is `last`.

    Raises:
        Unreadable: it does not match its checksum, or is not a segment.
    """
    header = check_segment(value)
    try:
        raw = loader.codec.decompress(header.compression, memoryview(value)[_HEADER_BYTES:], header.size_bytes)
        columns = decode_columns(raw)
    except (ValueError, msgspec.MsgspecError) as error:
        raise Unreadable(f"the segment cannot be taken apart: {error}") from error
    count = header.events
    if not _holds(columns, count) or count > last:
        raise Unreadable("the segment does not hold what it says")
    return Segment(stream, last, header, columns, loader)


def _holds(columns: Columns, count: int) -> bool:
    """Whether the columns have as much as they should: they match their checksum, so this is about who wrote them."""
    return (
        count == len(columns.causes) == len(columns.kind_of) > 0
        and len(columns.data) == len(columns.kinds) > max(columns.kind_of)
        and len(columns.chunked) == len(columns.digests)
        and max(columns.chunked, default=0) < count
    )


def typed_one_by_one(segment: Segment, catalog: Catalog, after: int) -> Iterator[tuple[str, msgspec.Struct]]:
    """Yield causes and typed events above the sequence `after`, led up from older versions where needed.

    Raises:
        UnknownEvent: an event is not in the catalog.
        CorruptRecord: stored fields do not fit their type, or a chunk cannot be read.
    """
    sealed = segment.sealed()
    for sequence, (one, body) in enumerate(zip(sealed, segment.bodies(), strict=True), segment.first):
        if sequence > after:
            recorded = RecordedEvent(segment.stream, sequence, one.position, one.recorded_at, one.cause, b"", body)
            yield one.cause, catalog.decode(recorded)
