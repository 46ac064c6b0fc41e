"""What an examination of a whole journal has found."""

from __future__ import annotations

from typing import Final

import msgspec

from ..codec import chain
from ..errors import CorruptRecord
from .environment import Environment
from .frames import START, VALUE_HEADER_BYTES, End, Frame, Unreadable, count_of, read_frame, read_names
from .index import Index

__all__ = ["Report", "examine"]

_PROBLEMS_MAX: Final = 1000
_BYTES_AT_ONCE: Final = 8 * 1024 * 1024


class Report(msgspec.Struct):
    """How many events and streams were read, and what is wrong with them, each naming its stream and sequence.

    `unlisted` counts problems beyond the first thousand.
    """

    events: int = 0
    streams: int = 0
    problems: list[str] = []
    unlisted: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def add(self, problem: str) -> None:
        """Take a problem into the list, while there is room."""
        if len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(problem)
        else:
            self.unlisted += 1


def examine(env: Environment, index: Index) -> Report:
    """Read everything that was durable at the call: checksums, names, sequences without gaps, digests, times."""
    return _Examination(env, index).run()


class _Examination:
    def __init__(self, env: Environment, index: Index) -> None:
        self._env = env
        self._heads = index.heads(None)
        self._until = index.position
        self._next = 1
        self._next_names = 1
        self._names: dict[int, str] = {}
        self._ends: dict[int, End] = {}
        self._report = Report()

    def run(self) -> Report:
        try:
            while self._next <= self._until and self._some_commits():
                pass
        except CorruptRecord as error:
            self._report.add(str(error))
        if self._next <= self._until:
            self._report.add(f"positions {self._next} to {self._until} are missing")
        self._compare_heads()
        self._report.streams = len(self._ends)
        return self._report

    def _some_commits(self) -> bool:
        """Examine a bounded piece of the log; return whether there was any."""
        size_bytes = 0
        with self._env.reading() as reader:
            for first, value in reader.names(self._next_names):
                self._take_names(first, value)
            for first, value in reader.commits(self._next):
                self._commit(first, value)
                size_bytes += len(value)
                if self._next > self._until or size_bytes > _BYTES_AT_ONCE:
                    break
        return size_bytes > 0

    def _take_names(self, first: int, value: memoryview) -> None:
        self._next_names = first + 1
        try:
            self._names.update(read_names(value))
        except Unreadable as error:
            self._report.add(f"the commit at position {first}: {error}")

    def _commit(self, first: int, value: memoryview) -> None:
        if first != self._next:
            self._report.add(f"positions {self._next} to {first - 1} are missing")
        self._next = first + 1
        try:
            beyond = first + count_of(value)
            self._next = max(beyond, self._next)
            offset = VALUE_HEADER_BYTES
            for position in range(first, beyond):
                frame = read_frame(value, offset)
                self._frame(position, frame)
                offset = frame.after
            if offset != len(value):
                self._report.add(f"the commit at position {first} holds {len(value) - offset} bytes too many")
        except Unreadable as error:
            self._report.add(f"the commit at position {first} cannot be read to its end: {error}")

    def _frame(self, position: int, frame: Frame) -> None:
        self._report.events += 1
        name = self._names.get(frame.number)
        where = f"{name or f'stream number {frame.number}'}, sequence {frame.sequence} (position {position})"
        if not frame.intact:
            self._report.add(f"{where}: does not match its checksum")
            if name is None or frame.sequence != self._ends.get(frame.number, START).sequence + 1:
                # Then the damage may be in these numbers, and they say nothing.
                return
        if name is None:
            self._report.add(f"{where}: the stream has no name")
        end = self._ends.get(frame.number, START)
        self._ends[frame.number] = End(frame.sequence, frame.digest, frame.recorded_at)
        if frame.sequence != end.sequence + 1:
            self._report.add(f"{where}: follows sequence {end.sequence}")
        elif frame.intact and chain(end.digest, frame.canonical) != frame.digest:
            self._report.add(f"{where}: its digest does not continue the one before")
        if frame.recorded_at < end.recorded_at:
            self._report.add(f"{where}: recorded before sequence {end.sequence}")

    def _compare_heads(self) -> None:
        """What this handle believes must be what was read."""
        read = {self._names[number]: end for number, end in self._ends.items() if number in self._names}
        for head in self._heads:
            end = read.get(head.stream, START)
            if end.sequence < head.sequence:
                self._report.add(f"{head.stream}: sequences {end.sequence + 1} to {head.sequence} cannot be found")
