"""How events lie in the log: one value a commit, a short header and then a frame for each event.

A frame is a checksum, its stream (by number) and place, its digest, its cause and its canonical bytes, or for a large
event the parts of them. The layout is versioned by the value's magic, so that later layouts can stand beside this one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from ..body import INLINE_BYTES_MAX, Chunk, pack_parts, split, unpack_parts
from ..codec import chain
from ..event import DATA_MARK, EVENT_BYTES_MAX, GENESIS, NewEvent
from ..journal import CAUSE_BYTES_MAX, check_events

__all__ = [
    "START",
    "VALUE_HEADER_BYTES",
    "Encoded",
    "End",
    "Frame",
    "Place",
    "Unreadable",
    "count_of",
    "encode",
    "encode_names",
    "parts_of",
    "read_entries",
    "read_frame",
    "read_names",
    "read_places",
    "read_stored",
    "value_header",
]

_MAGIC: Final = b"CLW\x01"
_VALUE = Struct("<4sI")  # magic, how many events
_CHECKSUM = Struct("<I")
_HEAD = Struct("<IIQQ16sH")  # length of what is stored, stream, sequence, recorded_at, digest, length of the cause
_FRAME = Struct("<IIIQQ16sH")  # the same behind its checksum

VALUE_HEADER_BYTES: Final = _VALUE.size
_FRAME_BYTES: Final = _FRAME.size
_CHECKSUM_BYTES: Final = _CHECKSUM.size
_MARK_BYTES: Final = len(DATA_MARK)

_IN_PARTS: Final = 1 << 31
"""In the length of what is stored: it is the packed parts of a large event."""

_pack_checksum = _CHECKSUM.pack
_pack_head = _HEAD.pack
_unpack_frame = _FRAME.unpack_from

_NAME = Struct("<IH")  # number of a stream, length of its name


class End(msgspec.Struct, frozen=True, gc=False):
    """Where a stream ends: what the next event continues."""

    sequence: int
    digest: bytes
    recorded_at: int


START = End(0, GENESIS, 0)


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One event as it lies in the log: `stored` are its canonical bytes, or its packed parts.

    `after` is where the next frame begins, `intact` whether the checksum holds.
    """

    number: int
    sequence: int
    recorded_at: int
    digest: bytes
    cause: str
    stored: bytes
    in_parts: bool
    after: int
    intact: bool


class Encoded(NamedTuple):
    """An append ready to be written: a frame for each event, the stream's new end, and chunks by their digest."""

    frames: list[bytes]
    end: End
    chunks: dict[bytes, bytes]


class Unreadable(Exception):
    """The bytes cannot be taken apart, so what follows them cannot be found either. Says why."""


def encode(stream: str, number: int, end: End, events: Sequence[NewEvent], now: int) -> Encoded:
    """Return what is to be written for these events behind the stream's `end`.

    Raises:
        PayloadTooLarge, InvalidName: see `check_events`.
    """
    frames: list[bytes] = []
    chunks: dict[bytes, bytes] = {}
    sequence, digest, recorded_at = end.sequence, end.digest, end.recorded_at
    for new in events:
        canonical = new.canonical
        cause = new.cause.encode("utf-8", "surrogatepass")
        if len(canonical) > EVENT_BYTES_MAX or len(cause) > CAUSE_BYTES_MAX or not new.cause.isascii():
            check_events(stream, [new])
        sequence += 1
        digest = chain(digest, canonical)
        # The clock may step back, and a stream's times may not.
        recorded_at = max(recorded_at, new.recorded_at or now)
        size = len(canonical)
        if size > INLINE_BYTES_MAX:
            parts, contents = split(canonical)
            chunks.update(contents)
            canonical = pack_parts(parts)
            size = len(canonical) | _IN_PARTS
        body = _pack_head(size, number, sequence, recorded_at, digest, len(cause)) + cause + canonical
        frames.append(_pack_checksum(crc32(body)) + body)
    return Encoded(frames, End(sequence, digest, recorded_at), chunks)


def value_header(count: int) -> bytes:
    """Return the header of a log value that holds `count` events."""
    return _VALUE.pack(_MAGIC, count)


def count_of(value: memoryview) -> int:
    """Return how many events a log value holds.

    Raises:
        Unreadable: it is not a log value of this layout.
    """
    if len(value) < VALUE_HEADER_BYTES:
        raise Unreadable("a log value is cut short")
    magic, count = _VALUE.unpack_from(value)
    if magic != _MAGIC:
        raise Unreadable(f"a log value begins with {bytes(magic)!r}, not {_MAGIC!r}")
    return count


def read_frame(value: memoryview, offset: int) -> Frame:
    """Return the frame at `offset`. Copies what it returns: the value is gone with its transaction.

    Raises:
        Unreadable: the frame does not fit into the value.
    """
    start = offset + _FRAME_BYTES
    if start > len(value):
        raise Unreadable("a frame is cut short")
    checksum, size, number, sequence, recorded_at, digest, cause_size = _unpack_frame(value, offset)
    body = start + cause_size
    after = body + (size & ~_IN_PARTS)
    if after > len(value):
        raise Unreadable("a frame runs over the end of its log value")
    intact = crc32(value[offset + 4 : after]) == checksum
    cause = str(value[start:body], "utf-8", "strict" if intact else "replace") if cause_size else ""
    in_parts = bool(size & _IN_PARTS)
    return Frame(number, sequence, recorded_at, digest, cause, bytes(value[body:after]), in_parts, after, intact)


class Place(NamedTuple):
    """What the log says of an event without its content: stream, sequence, digest, time, and where its frame lies."""

    number: int
    sequence: int
    digest: bytes
    recorded_at: int
    offset: int
    after: int
    intact: bool


def read_places(value: memoryview) -> Iterator[tuple[int, int, bytes, int, int, int, bool]]:
    """Yield a `Place` for each event of a log value, as a plain tuple: a fifth of the cost of `read_frame`.

    Raises:
        Unreadable: it is not a log value, or a frame does not fit into it.
    """
    length, offset = len(value), VALUE_HEADER_BYTES
    for _ in range(count_of(value)):
        start = offset + _FRAME_BYTES
        if start > length:
            raise Unreadable("a frame is cut short")
        checksum, size, number, sequence, recorded_at, digest, cause_size = _unpack_frame(value, offset)
        after = start + cause_size + (size & ~_IN_PARTS)
        if after > length:
            raise Unreadable("a frame runs over the end of its log value")
        intact = crc32(value[offset + 4 : after]) == checksum
        yield number, sequence, digest, recorded_at, offset, after, intact
        offset = after


def read_stored(value: memoryview, offset: int, number: int, sequence: int) -> tuple[str, bytes, bytes] | None:
    """Return of the frame at `offset` the cause, what stands in front of the event's data, and the data.

    None where it is another event than that of this stream and sequence, is damaged, or is a large one: the fast way to
    fold the log leaves those to `read_frame`.
    """
    if offset + _FRAME_BYTES > len(value):
        return None
    checksum, size, found, at, _, _, cause_size = _unpack_frame(value, offset)
    end = offset + _FRAME_BYTES + cause_size + size
    # A large event has a size beyond any value.
    if end > len(value) or found != number or at != sequence:
        return None
    # Bytes are cut in a fifth of the time of a view.
    frame = bytes(value[offset:end])
    body = _FRAME_BYTES + cause_size
    mark = frame.find(DATA_MARK, body)
    if mark < 0 or frame[-1:] != b"}" or crc32(frame[_CHECKSUM_BYTES:]) != checksum:
        return None
    return frame[_FRAME_BYTES:body].decode(), frame[body:mark], frame[mark + _MARK_BYTES : -1]


def read_entries(value: memoryview) -> Iterator[tuple[int, int]]:
    """Yield the stream (by number) and the sequence of each event of a log value.

    Raises:
        Unreadable: it is not a log value, or a frame does not fit into it.
    """
    offset = VALUE_HEADER_BYTES
    for _ in range(count_of(value)):
        if offset + _FRAME_BYTES > len(value):
            raise Unreadable("a frame is cut short")
        _, size, number, sequence, _, _, cause_size = _unpack_frame(value, offset)
        yield number, sequence
        offset += _FRAME_BYTES + cause_size + (size & ~_IN_PARTS)


def parts_of(value: memoryview) -> Iterator[bytes]:
    """Yield the digests of the chunks that the events of a log value name.

    Raises:
        Unreadable: the value cannot be taken apart, or the parts of an event cannot be told.
    """
    offset = VALUE_HEADER_BYTES
    for _ in range(count_of(value)):
        if offset + _FRAME_BYTES > len(value):
            raise Unreadable("a frame is cut short")
        _, size, _, _, _, _, cause_size = _unpack_frame(value, offset)
        start = offset + _FRAME_BYTES + cause_size
        offset = start + (size & ~_IN_PARTS)
        if size & _IN_PARTS:
            try:
                yield from (part.digest for part in unpack_parts(bytes(value[start:offset])) if isinstance(part, Chunk))
            except msgspec.MsgspecError as error:
                raise Unreadable(f"the parts of a large event cannot be told: {error}") from error


def encode_names(names: Sequence[tuple[int, str]]) -> bytes:
    """Return the value that keeps the names of streams that begin in one commit."""
    encoded = [(number, name.encode()) for number, name in names]
    body = b"".join(_NAME.pack(number, len(name)) + name for number, name in encoded)
    return _pack_checksum(crc32(body)) + body


def read_names(value: memoryview) -> list[tuple[int, str]]:
    """Return numbers and names of streams.

    Raises:
        Unreadable: the value does not match its checksum.
    """
    if len(value) < _CHECKSUM.size or crc32(value[_CHECKSUM.size :]) != _CHECKSUM.unpack_from(value)[0]:
        raise Unreadable("the names of streams do not match their checksum")
    names: list[tuple[int, str]] = []
    offset = _CHECKSUM.size
    try:
        while offset < len(value):
            number, size = _NAME.unpack_from(value, offset)
            offset += _NAME.size + size
            names.append((number, str(value[offset - size : offset], "utf-8")))
    except (struct.error, UnicodeDecodeError) as error:
        raise Unreadable(f"the names of streams cannot be taken apart: {error}") from error
    return names
