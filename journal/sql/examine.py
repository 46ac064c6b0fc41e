"""The examination of a whole SQL journal."""

from __future__ import annotations

from ..codec import chain
from ..errors import CorruptRecord, StreamDeleted
from ..event import RecordedEvent
from ..report import Report
from .events import decode, where
from .execute import Reading, Row
from .reading import Reader
from .statements import STRAY_EVENTS
from .streams import START, End, Found, heads

__all__ = ["examine"]


def examine(database: Reading, reader: Reader) -> Report:
    """Read everything that was durable at the call: checksums, sequences without gaps, digests, times, chunks."""
    report = Report()
    count, first = database.execute(STRAY_EVENTS)[0]
    if count:
        report.add(f"{count} events from position {first} on belong to no stream")
    for stream in heads(database, None):
        if not stream.end.deleted:
            try:
                _Examination(stream, reader, report).run()
            except CorruptRecord as error:
                report.add(f"{error.where}: {error.reason}")
    return report


class _Examination:
    """Of one stream."""

    def __init__(self, stream: Found, reader: Reader, report: Report) -> None:
        self._stream = stream
        self._reader = reader
        self._report = report
        self._end = START

    def run(self) -> None:
        self._report.streams += 1
        while self._end.sequence < self._stream.end.sequence:
            rows = self._reader.rows(self._stream, self._end.sequence)
            if not rows and not self._reader.still_there(self._stream):
                return
            if not rows:
                self._miss(self._stream.end.sequence + 1)
                return
            for row in rows:
                self._report.events += 1
                self._row(row)
        if self._stream.end.sequence == 0:
            self._report.add(f"{self._stream.name}: it has no events")

    def _row(self, row: Row) -> None:
        # What is damaged may be anything: it must not lead us astray.
        sequence = row[1] if isinstance(row[1], int) and row[1] > self._end.sequence else self._end.sequence + 1
        digest = row[4] if isinstance(row[4], bytes) else b""
        gap = sequence != self._end.sequence + 1
        if gap:
            self._miss(sequence)
        recorded_at = self._end.recorded_at
        try:
            event = decode(self._stream.name, self._stream.number, row, self._reader.load)
            recorded_at = event.recorded_at
            self._continues(event, gap=gap)
        except CorruptRecord as error:
            self._report.add(f"{error.where}: {error.reason}")
        except StreamDeleted:
            # Since we began: what is not there any more cannot be wrong.
            pass
        self._end = End(sequence, digest, recorded_at)

    def _continues(self, event: RecordedEvent, *, gap: bool) -> None:
        if event.recorded_at < self._end.recorded_at:
            self._report.add(f"{where(event.stream, event.sequence)}: recorded before sequence {self._end.sequence}")
        if not gap and chain(self._end.digest, event.canonical) != event.digest:
            self._report.add(f"{where(event.stream, event.sequence)}: its digest does not continue the one before")

    def _miss(self, beyond: int) -> None:
        first, last = self._end.sequence + 1, beyond - 1
        missing = f"sequence {first} is" if first == last else f"sequences {first} to {last} are"
        self._report.add(f"{self._stream.name}: {missing} missing")
