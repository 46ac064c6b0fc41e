"""The lines of a history: one header, then one line an event."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from gzip import BadGzipFile
from typing import Annotated, BinaryIO, Final

import msgspec

from ..codec import chain
from ..errors import InvalidHistory, InvalidName
from ..event import EVENT_BYTES_MAX, GENESIS, RecordedEvent, check_stream

__all__ = ["HISTORY_VERSION", "LINE_BYTES_MAX", "Lines", "header", "line_of"]

HISTORY_VERSION: Final = 1

LINE_BYTES_MAX: Final = EVENT_BYTES_MAX + 64 * 1024
"""The longest line of a history, in bytes: an event, its stream and its cause."""


class _Header(msgspec.Struct, frozen=True):
    clew_history: int


class _Line(msgspec.Struct, frozen=True):
    stream: str
    sequence: Annotated[int, msgspec.Meta(ge=1)]
    recorded_at: Annotated[int, msgspec.Meta(ge=0)]
    cause: str
    digest: str
    record: msgspec.Raw


_HEADER = msgspec.json.Decoder(_Header)
_LINE = msgspec.json.Decoder(_Line)


def header() -> bytes:
    """Return the first line of a history."""
    return msgspec.json.encode(_Header(HISTORY_VERSION)) + b"\n"


def line_of(event: RecordedEvent) -> bytes:
    """Return the line of an event."""
    raw = msgspec.Raw(event.canonical)
    line = _Line(event.stream, event.sequence, event.recorded_at, event.cause, event.digest.hex(), raw)
    return msgspec.json.encode(line) + b"\n"


class Lines:
    """The events of an open history, read one by one; each stream's digests are checked.

    It holds one line, and the end of each stream: the memory grows with the streams, and not with the events.
    """

    def __init__(self, file: BinaryIO, source: str) -> None:
        self._file = file
        self._source = source
        self._heads: dict[str, tuple[int, bytes]] = {}
        self._number = 0
        self.size_bytes = 0
        """How much was read so far, of the lines as they are without compression."""

    def __iter__(self) -> Iterator[RecordedEvent]:
        """Yield the events; the positions are the order of the lines.

        Raises:
            InvalidHistory: not a history, of a newer version, or a line that does not continue its stream.
        """
        self._check_header(self._next() or b"")
        while text := self._next():
            if text.strip():
                yield self._event(text)

    def _next(self) -> bytes:
        self._number += 1
        try:
            text = self._file.readline(LINE_BYTES_MAX + 1)
        except (BadGzipFile, EOFError, zlib.error) as error:
            raise self._invalid(f"the compressed file is damaged or cut short ({error})") from error
        if len(text) > LINE_BYTES_MAX:
            raise self._invalid(f"longer than {LINE_BYTES_MAX} bytes")
        self.size_bytes += len(text)
        return text

    def _check_header(self, text: bytes) -> None:
        if not text:
            raise self._invalid("the file is empty")
        try:
            version = _HEADER.decode(text).clew_history
        except msgspec.MsgspecError as error:
            raise self._invalid("not a clew history") from error
        if version > HISTORY_VERSION:
            reason = f"written by a newer version (history format {version}, this one reads {HISTORY_VERSION})"
            raise self._invalid(reason)

    def _event(self, text: bytes) -> RecordedEvent:
        try:
            line = _LINE.decode(text)
            digest = bytes.fromhex(line.digest)
            check_stream(line.stream)
        except (msgspec.MsgspecError, ValueError, InvalidName) as error:
            raise self._invalid(f"not an event of a history ({error})") from error
        canonical = bytes(line.record)
        known = self._heads.get(line.stream)
        # A history may begin in the middle of a stream; from there on it has no gaps.
        if known is not None and line.sequence != known[0] + 1:
            raise self._invalid(f"{line.stream}: sequence {line.sequence} follows {known[0]}")
        before = known[1] if known else (GENESIS if line.sequence == 1 else None)
        if before is not None and chain(before, canonical) != digest:
            place = f"{line.stream}, sequence {line.sequence}"
            raise self._invalid(f"{place}: the digest does not match, so the event was changed")
        self._heads[line.stream] = (line.sequence, digest)
        return RecordedEvent(
            line.stream, line.sequence, self._number - 1, line.recorded_at, line.cause, digest, canonical
        )

    def _invalid(self, reason: str) -> InvalidHistory:
        return InvalidHistory(source=self._source, line=self._number, reason=reason)
