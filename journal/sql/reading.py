"""Events out of the tables, in pages, so that nothing is held between two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final

from ..body import Chunk
from ..errors import CorruptRecord, JournalError, StreamDeleted
from ..event import GENESIS, RecordedEvent
from .events import decode, where
from .execute import Reading, Row
from .statements import CHUNK, EVENTS, EVENTS_OF_CATEGORY, EVENTS_OF_STREAM
from .streams import End, Found, find, names_of

__all__ = ["Reader", "deleted"]

EVENTS_AT_ONCE: Final = 256


class Reader:
    """Reads events; `check` refuses to go on when the journal was closed."""

    def __init__(self, database: Reading, check: Callable[[], None]) -> None:
        self._database = database
        self._check = check

    def stream(self, stream: Found, after: int) -> Iterator[RecordedEvent]:
        """Yield the events of a stream as it was found, with a sequence above `after`.

        Raises:
            StreamDeleted: it was deleted since.
            CorruptRecord: an event is missing, or not what was written.
        """
        while after < stream.end.sequence:
            rows = self.rows(stream, after)
            if not rows:
                raise self._missing(stream, after + 1)
            for row in rows:
                after += 1
                if row[1] != after:
                    raise self._missing(stream, after)
                yield decode(stream.name, stream.number, row, self.load)

    def rows(self, stream: Found, after: int) -> list[Row]:
        """Return the next rows of a stream as it was found, whatever is in them."""
        self._check()
        return self._database.execute(EVENTS_OF_STREAM, stream.number, after, stream.end.sequence, EVENTS_AT_ONCE)

    def everything(self, after: int, until: int, category: str | None) -> Iterator[RecordedEvent]:
        """Yield the events of all streams, or of a category, with positions above `after` and up to `until`.

        Raises:
            CorruptRecord: an event is not what was written.
        """
        sql, names = (EVENTS, ()) if category is None else (EVENTS_OF_CATEGORY, names_of(category))
        while after < until:
            self._check()
            rows = self._database.execute(sql, after, until, *names, EVENTS_AT_ONCE)
            for row in rows:
                number, name = row[8:]
                if name is None:
                    raise CorruptRecord(where=f"position {row[0]}", reason=f"its stream, number {number}, has no name")
                yield decode(name, number, row, self.load)
            after = rows[-1][0] if len(rows) == EVENTS_AT_ONCE else until

    def load(self, stream: str, number: int, sequence: int, chunk: Chunk) -> bytes:
        """Return the content of a chunk of an event.

        Raises:
            StreamDeleted: the stream was deleted since the event was read.
            CorruptRecord: the chunk is missing, or not what was written.
        """
        self._check()
        rows = self._database.execute(CHUNK, chunk.digest)
        if not rows:
            known = Found(stream, number, End(sequence, GENESIS, 0))
            raise self._missing(known, sequence, f"its chunk {chunk.digest.hex()} is missing")
        content: bytes = rows[0][0]
        if sha256(content).digest() != chunk.digest:
            reason = f"its chunk {chunk.digest.hex()} does not match its name"
            raise CorruptRecord(where=where(stream, sequence), reason=reason)
        return content

    def still_there(self, stream: Found) -> bool:
        """Whether a stream has not been deleted since it was found."""
        found = find(self._database, stream.name)
        return found is not None and found.number == stream.number and not found.end.deleted

    def _missing(self, stream: Found, sequence: int, reason: str = "it is missing") -> JournalError:
        found = find(self._database, stream.name)
        if found is not None and found.end.deleted:
            return deleted(stream.name, found.end)
        if found is None or found.number != stream.number:
            # It was deleted and has begun again: what is known of its former end is what it was when it was found.
            return deleted(stream.name, stream.end)
        return CorruptRecord(where=where(stream.name, sequence), reason=reason)


def deleted(stream: str, end: End) -> StreamDeleted:
    """Return the error of one who asks for the events of a deleted stream."""
    return StreamDeleted(stream=stream, sequence=end.sequence, digest=end.digest)
