"""What can be read of a damaged journal: its streams with their events, and what was left out."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from ..body import pack_parts
from ..codec import chain
from ..errors import CorruptRecord
from ..event import GENESIS
from .columns import Sealed
from .environment import Environment
from .frames import START, VALUE_HEADER_BYTES, End, Frame, Unreadable, count_of, read_frame, read_names
from .reader import Reader
from .record import StreamRecord, read_record
from .segment import Loader, open_segment
from .stream import MISSING

__all__ = ["Damaged", "Run", "Salvage"]

T = TypeVar("T")


class Damaged(NamedTuple):
    """Something that cannot be read: what it is, why not, and its bytes as far as they could be had."""

    what: str
    reason: str
    value: bytes


class Run(NamedTuple):
    """Events of one stream that follow each other: the first sequence, the digest in front of them, and their end."""

    first: int
    before: bytes
    events: list[Sealed]
    end: End


class _Entry(NamedTuple):
    """An event in the log: the commit it is in, its position, and where its frame begins."""

    first: int
    position: int
    offset: int


class Salvage:
    """Reads a journal past its damage. `damaged` takes what is found on the way."""

    def __init__(self, env: Environment, loader: Loader, damaged: Callable[[Damaged], None]) -> None:
        self._env = env
        self._loader = loader
        self._damaged = damaged
        self._log: dict[int, list[_Entry]] = {}
        self._positions: set[int] = set()
        self.records: dict[int, StreamRecord] = {}
        """What is known of each stream, by its number."""
        self.position = 0
        """The last position that anything is known of."""

    def survey(self) -> None:
        """Find out which streams there are, and what is in the log."""
        self._take_records()
        self._take_names()
        self._take_log()
        with self._env.reading() as reader:
            self.position = max(self.position, reader.sealed())

    def runs(self, number: int) -> Iterator[Run]:
        """Yield the events of a stream: what is sealed, then what is in the log, broken where something is lost."""
        name = self.records[number].name
        end = START
        for run in self._sealed(number, name):
            if run.events:
                yield run
            end = run.end
        yield from self._logged(number, name, end)

    # The streams.

    def _each(self, what: str, iterate: Callable[[Reader], Iterator[T]], take: Callable[[T], None]) -> None:
        """Take all there is, up to where LMDB itself cannot go on."""
        try:
            with self._env.reading() as reader:
                for one in iterate(reader):
                    take(one)
        except CorruptRecord as error:
            self._damaged(Damaged(what, str(error), b""))

    def _take_records(self) -> None:
        def take(found: tuple[bytes, bytes]) -> None:
            try:
                record = read_record(*found)
            except Unreadable as error:
                self._damaged(Damaged(f"the record of {found[0]!r}", str(error), found[1]))
            else:
                self.records[record.number] = record

        self._each("records of streams", lambda reader: reader.streams(b""), take)

        def name(found: tuple[int, str]) -> None:
            if found[1]:
                self.records.setdefault(found[0], StreamRecord(found[0], found[1], 0))
            elif found[0] not in self.records:
                self._damaged(Damaged(f"the name of stream number {found[0]}", "it does not match its checksum", b""))

        self._each("numbers of streams", lambda reader: reader.all_names(), name)

    def _take_names(self) -> None:
        def take(found: tuple[int, memoryview]) -> None:
            try:
                for number, name in read_names(found[1]):
                    self.records.setdefault(number, StreamRecord(number, name, found[0]))
            except Unreadable as error:
                self._damaged(Damaged(f"names of streams at position {found[0]}", str(error), bytes(found[1])))

        self._each("names of streams", lambda reader: reader.names(0), take)

    # What is sealed.

    def _sealed(self, number: int, name: str) -> Iterator[Run]:
        end = End(0, GENESIS, 0)
        for last, value in self._segments(number):
            try:
                segment = open_segment(name, last, value, self._loader)
                segment.events(segment.first, last)
            except Unreadable as error:
                self._damaged(Damaged(f"{name}, sequences {end.sequence + 1} to {last}", str(error), value))
                end = End(last, GENESIS, end.recorded_at)
                yield Run(last + 1, GENESIS, [], end)
                continue
            header = segment.header
            end = End(last, header.digest, header.recorded_at)
            yield Run(segment.first, header.before, segment.sealed(), end)

    def _segments(self, number: int) -> Iterator[tuple[int, bytes]]:
        sequence = 0
        while True:
            found: tuple[int, bytes] | None = None
            try:
                with self._env.reading() as reader:
                    if (next_one := reader.segment(number, sequence)) is not None:
                        found = next_one[0], bytes(next_one[1])
            except CorruptRecord as error:
                self._damaged(Damaged(f"segments of stream number {number}", str(error), b""))
            if found is None:
                return
            sequence = found[0] + 1
            yield found

    # The log.

    def _take_log(self) -> None:
        def take(found: tuple[int, memoryview]) -> None:
            first, value = found
            self.position = max(self.position, first)
            try:
                count = count_of(value)
                offset = VALUE_HEADER_BYTES
                for position in range(first, first + count):
                    frame = read_frame(value, offset)
                    self.position = max(self.position, position)
                    if frame.intact:
                        self._log.setdefault(frame.number, []).append(_Entry(first, position, offset))
                    else:
                        record = self.records.get(frame.number)
                        name = record.name if record else f"stream number {frame.number}"
                        what = f"{name}, sequence {frame.sequence} (position {position})"
                        reason = "it does not match its checksum"
                        self._damaged(Damaged(what, reason, bytes(value[offset : frame.after])))
                    offset = frame.after
            except Unreadable as error:
                self._damaged(Damaged(f"the commit at position {first}", str(error), bytes(value)))

        self._each("the log", lambda reader: reader.commits(0), take)
        for number in self._log:
            if number not in self.records:
                self._damaged(Damaged(f"stream number {number}", "it has no name, so it was given one", b""))
                self.records[number] = StreamRecord(number, f"nameless/{number}", 0)

    def _logged(self, number: int, name: str, end: End) -> Iterator[Run]:
        reset = self.records[number].reset
        events: list[Sealed] = []
        first, before = end.sequence + 1, end.digest
        for position, frame in self._frames(number):
            if position <= reset or frame.sequence <= end.sequence:
                continue
            if frame.sequence != end.sequence + 1:
                if events:
                    yield Run(first, before, events, end)
                # The digest in front of a hole is not known, so the first event behind it says its own.
                events, first, before = [], frame.sequence, GENESIS
            proved = bool(events) or end.digest != GENESIS or frame.sequence == 1
            continues = proved and frame.sequence == end.sequence + 1
            if continues and not frame.in_parts and chain(end.digest, frame.stored) != frame.digest:
                reason = "its digest does not continue the one before; it was kept"
                self._damaged(Damaged(f"{name}, sequence {frame.sequence}", reason, b""))
                continues = False
            events.append(_plain(position, frame) if continues and not frame.in_parts else _explicit(position, frame))
            end = End(frame.sequence, frame.digest, frame.recorded_at)
        if events:
            yield Run(first, before, events, end)

    def _frames(self, number: int) -> Iterator[tuple[int, Frame]]:
        for entry in self._log.get(number, ()):
            with self._env.reading() as reader:
                value = reader.commit(entry.first)
                frame = None if value is None else read_frame(value, entry.offset)
            if frame is not None:
                yield entry.position, frame


class Order:
    """Which event stands at which position, put together again."""

    def __init__(self, last: int) -> None:
        self.numbers = array("I", bytes(4 * last))
        self.sequences = array("Q", bytes(8 * last))

    def put(self, number: int, run: Run) -> None:
        """Say where the events of a run stand."""
        for sequence, event in enumerate(run.events, run.first):
            if MISSING < event.position <= len(self.numbers):
                self.numbers[event.position - 1] = number
                self.sequences[event.position - 1] = sequence


def _plain(position: int, frame: Frame) -> Sealed:
    return Sealed(position, frame.recorded_at, frame.cause, frame.stored)


def _explicit(position: int, frame: Frame) -> Sealed:
    stored = frame.stored if frame.in_parts else pack_parts([frame.stored])
    return Sealed(position, frame.recorded_at, frame.cause, stored, frame.digest)
