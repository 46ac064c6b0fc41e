"""One stream as it is in memory, and as it is looked up: its number, its ends, and where its later events are."""

from __future__ import annotations

from array import array
from typing import Final

from ..event import GENESIS, Head
from .frames import START, End, Unreadable
from .reader import Reader
from .record import StreamRecord, read_record, stream_key
from .segment import check_segment, read_header

__all__ = ["BROKEN", "DELETED", "GONE", "MISSING", "Stream", "broken", "load", "load_record"]

MISSING: Final = 0
"""The position of an event that should be there and is not."""

BROKEN: Final = End(-1, b"", 0)
"""The end of a stream whose last event is damaged: no append can expect it."""

GONE: Final = End(-2, b"", 0)
"""The end of a stream that was put out of memory: whoever holds it is to look it up again."""

DELETED: Final = End(-3, b"", 0)
"""The end of a stream that was deleted, or is about to be."""


class Stream:
    """One stream: its number, its two ends, how far it is sealed, and where its later events are.

    `durable` is what readers see; `assigned` counts the appends under way and belongs to the writer. `began` is the
    position of its first event. Events up to the position `reset` were deleted; `deleted` is where it ended then, while
    nothing has followed, and `ending` where it will once a deletion under way is durable. `recorded` says whether it
    has a record, and `damaged` is the sequence of a last event that does not match its checksum.
    """

    __slots__ = (
        "assigned",
        "began",
        "damaged",
        "deleted",
        "durable",
        "ending",
        "firsts",
        "name",
        "number",
        "offsets",
        "positions",
        "recorded",
        "reset",
        "sealed",
    )  # fmt: skip

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.began = 0
        self.reset = 0
        self.recorded = False
        self.deleted: End | None = None
        self.ending: End | None = None
        self.damaged = 0
        self.sealed = 0
        self.positions = array("Q")
        self.firsts = array("Q")
        self.offsets = array("I")
        self.durable = START
        self.assigned = START

    @property
    def head(self) -> Head:
        """The durable end."""
        if self.deleted is not None:
            return Head(self.name, self.deleted.sequence, self.deleted.digest, deleted=True)
        return Head(self.name, self.durable.sequence, self.durable.digest)

    def record(self, *, deleted: bool = False, reset: int | None = None, end: End | None = None) -> StreamRecord:
        """Return what is to be recorded of it."""
        began = self.began or (self.positions[0] if self.positions else 0)
        return StreamRecord(self.number, self.name, began, deleted, self.reset if reset is None else reset, end)

    def clear(self, reset: int, deleted: End | None) -> None:
        """Forget its events, which are those up to the position `reset`."""
        self.reset, self.deleted, self.damaged, self.sealed = reset, deleted, 0, 0
        self.positions, self.firsts, self.offsets = array("Q"), array("Q"), array("I")
        self.durable = START


def load(reader: Reader, name: str, *, check: bool = True) -> Stream | None:
    """Return what is recorded of a stream, as if it had no events in the log; None when nothing is."""
    key = stream_key(name)
    value = reader.stream(key)
    if value is None:
        return None
    try:
        record = read_record(key, value)
    except Unreadable:
        return broken(Stream(name, MISSING))
    return load_record(reader, record, check=check)


def load_record(reader: Reader, record: StreamRecord, *, check: bool = False) -> Stream:
    """Return the stream of a record, as if it had no events in the log; with `check`, fit to be appended to."""
    stream = Stream(record.name, record.number)
    stream.began, stream.reset, stream.recorded = record.began, record.reset, True
    if record.deleted:
        stream.deleted, stream.assigned = record.end or End(0, GENESIS, 0), DELETED
        return stream
    found = reader.last_segment(record.number)
    if found is not None:
        last, value = found
        try:
            header = check_segment(value) if check else read_header(value)
        except Unreadable:
            stream.sealed = last
            stream.durable = End(last, GENESIS, 0)
            return broken(stream)
        stream.sealed = last
        stream.durable = stream.assigned = End(last, header.digest, header.recorded_at)
    return stream


def broken(stream: Stream) -> Stream:
    """Return the stream as one that nothing can be appended to, since its end is damaged."""
    stream.damaged, stream.assigned = max(stream.durable.sequence, 1), BROKEN
    return stream
