"""Events as rows, and back: the canonical form or its parts, with a checksum over all that a row says."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from ..body import INLINE_BYTES_MAX, Body, Chunk, pack_parts, split, unpack_parts
from ..codec import chain
from ..errors import CorruptRecord
from ..event import NewEvent, RecordedEvent
from .execute import Row
from .streams import End

__all__ = ["Encoded", "EventRow", "decode", "encode", "where"]

EventRow: TypeAlias = tuple[int, str, bytes, bytes, int, int, bytes]
"""Sequence, time, cause, digest, checksum, whether it is in chunks, and body; position and stream come in front."""

Load: TypeAlias = Callable[[str, int, int, Chunk], bytes]
"""Reads a chunk of an event, which is given by its stream's name and number and its sequence."""

_CHECKED = struct.Struct("<qqB")  # sequence, time, whether it is in chunks

_DAMAGED: Final = (ValueError, TypeError, AttributeError, struct.error, msgspec.MsgspecError)


class Encoded(NamedTuple):
    """The rows of an append, the chunks they name, where the stream then ends, and about how many bytes it all is."""

    rows: Sequence[EventRow]
    contents: Mapping[bytes, bytes]
    end: End
    size_bytes: int


def encode(stream: str, before: End, events: Sequence[NewEvent], now: int) -> Encoded:
    """Make rows of the events that follow `before`."""
    sequence, digest, recorded_at = before.sequence, before.digest, before.recorded_at
    name = crc32(stream.encode())
    rows: list[EventRow] = []
    contents: dict[bytes, bytes] = {}
    size_bytes = 0
    for new in events:
        sequence += 1
        digest = chain(digest, new.canonical)
        recorded_at = max(recorded_at, new.recorded_at or now)
        body, chunked = new.canonical, 0
        size_bytes += len(body)
        if len(body) > INLINE_BYTES_MAX:
            parts, found = split(body)
            contents.update(found)
            body, chunked = pack_parts(parts), 1
        cause = new.cause.encode()
        checksum = _checksum(name, sequence, recorded_at, cause, digest, chunked, body)
        rows.append((sequence, str(recorded_at), cause, digest, checksum, chunked, body))
    return Encoded(rows, contents, End(sequence, digest, recorded_at), size_bytes)


def decode(stream: str, number: int, row: Row, load: Load) -> RecordedEvent:
    """Make an event of a row. What is in chunks is loaded when it is asked for.

    Raises:
        CorruptRecord: the row is not what was written.
    """
    position, sequence, time, cause, digest, checksum, chunked, stored = row[:8]
    try:
        recorded_at = int(time)
        if _checksum(crc32(stream.encode()), sequence, recorded_at, cause, digest, chunked, stored) != checksum:
            raise ValueError(checksum)
        body = Body(unpack_parts(stored), _Loader(stream, number, sequence, load)) if chunked else stored
        return RecordedEvent(stream, sequence, position, recorded_at, cause.decode(), digest, body)
    except _DAMAGED as error:
        raise CorruptRecord(where=where(stream, sequence), reason="the event does not match its checksum") from error


def where(stream: str, sequence: int) -> str:
    """Return how errors name an event."""
    return f"{stream}, sequence {sequence}"


def _checksum(
    name: int, sequence: int, recorded_at: int, cause: bytes, digest: bytes, chunked: int, body: bytes
) -> int:
    return crc32(body, crc32(cause, crc32(_CHECKED.pack(sequence, recorded_at, chunked) + digest, name)))


class _Loader:
    """Reads the chunks of one event."""

    __slots__ = ("_load", "_number", "_sequence", "_stream")

    def __init__(self, stream: str, number: int, sequence: int, load: Load) -> None:
        self._stream = stream
        self._number = number
        self._sequence = sequence
        self._load = load

    def __call__(self, chunk: Chunk) -> bytes:
        return self._load(self._stream, self._number, self._sequence, chunk)
