"""Kills: a writing process is killed at random moments again and again, and each time the journal is looked through."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain as joined
from pathlib import Path
from random import Random
from threading import Thread
from typing import Final

import msgspec

from ...journal import GENESIS, ClewError, Head, RecordedEvent, chain
from ...journal.lmdb import LmdbJournal
from .torture_facts import CATALOG, Written, torn
from .torture_orders import Acknowledged, Orders, cell_of

__all__ = ["Kills", "kill_writers", "look_through"]

_ALIVE_S_MAX: Final = 0.5
_CREATIONS: Final = 3
_PROBLEMS_MAX: Final = 20


class Kills(msgspec.Struct):
    """What the kills came to: how many, the acknowledged appends and deletions, and what was wrong afterwards.

    `lost` were acknowledged and are not there as they were, `half_written` are groups of which only a part is there,
    `gaps` are sequences or positions that do not follow each other. `problems` says it in words, also what else was
    wrong, and `unexpected` counts writers that ended by themselves.
    """

    kills: int = 0
    acknowledged: int = 0
    lost: int = 0
    half_written: int = 0
    gaps: int = 0
    unexpected: int = 0
    events: int = 0
    streams: int = 0
    problems: list[str] = []

    def note(self, problem: str) -> None:
        """Take a problem into the list, while there is room."""
        if len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(f"after kill {self.kills}: {problem}")


def kill_writers(
    folder: Path, *, kills: int, writers: int, seed: int, progress: Callable[[int], None] = lambda _: None
) -> Kills:
    """Kill a process with that many writers `kills` times, on one journal in `folder`; return what was found.

    Takes about a second a kill. The journal stays in the folder.
    """
    random = Random(seed)  # noqa: S311  (a torture is repeated by its seed)
    found = Kills()
    check = _Check(folder / "journal", found)
    with _started() as waiting:
        for kill in range(kills):
            orders = _orders(folder / "journal", random, kill, writers)
            lines = _run(waiting, orders, 0.0 if kill < _CREATIONS else random.random() * _ALIVE_S_MAX, found)
            found.kills += 1
            if kill + 1 < kills:
                # It comes up while the journal is looked through.
                waiting.start()
            check.take(lines)
            check.look(folder)
            progress(found.kills)
    return found


def look_through(folder: Path, lines: Sequence[Acknowledged], found: Kills) -> None:
    """Add to `found` what is wrong with the journal in `folder`, given what its writers have said."""
    check = _Check(folder / "journal", found)
    check.take(lines)
    check.look(folder)


def _orders(path: Path, random: Random, kill: int, writers: int) -> Orders:
    return Orders(
        str(path),
        seed=random.randrange(2**32),
        writers=writers,
        seal_after=random.choice((1, 20, 200, 2000)),
        compact=kill % 3 == 2,  # noqa: PLR2004  (every third)
        relaxed=kill % 5 == 4,  # noqa: PLR2004  (to a kill, relaxed syncs are the same)
    )


class _Waiting:
    """A process that waits for its orders."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "clew.adapters.cli.torture_writer"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)  # noqa: S603  (ours)


@contextmanager
def _started() -> Generator[_Waiting]:
    waiting = _Waiting()
    try:
        yield waiting
    finally:
        _end(waiting.process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def _run(waiting: _Waiting, orders: Orders, alive_s: float, found: Kills) -> list[Acknowledged]:
    """Let the process do what it is to do for a while, kill it, and return what it said."""
    process = waiting.process
    output: list[bytes] = []
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise AssertionError("the process was started with pipes")
    with suppress(BrokenPipeError):
        process.stdin.write(msgspec.json.encode(orders) + b"\n")
        process.stdin.flush()
    output.append(process.stdout.readline())
    # Who writes must never wait for a full pipe: then it would be killed there and nowhere else.
    reading = Thread(target=output.extend, args=(process.stdout,))
    reading.start()
    time.sleep(alive_s)
    if process.poll() is not None:
        found.unexpected += 1
        found.note(f"the writing process ended by itself: {process.stderr.read().decode(errors='replace')[-500:]}")
    process.kill()
    process.wait()
    reading.join()
    _end(process)
    return [msgspec.json.decode(line, type=Acknowledged) for line in output[1:]]


class _Stream:
    """What a stream must be: how it was after the last kill, what was acknowledged since, and what was under way."""

    def __init__(self) -> None:
        self.head = Head("", 0, GENESIS)
        self.known: dict[int, str] = {}
        """Digests by their sequence, of what must be there."""
        self.deletes = 0
        """The sequence at which a deletion is under way; 0 when none is."""
        self.begins = False

    def take(self, line: Acknowledged) -> None:
        """Take in what was said."""
        digest = bytes.fromhex(line.digest)
        match line.what:
            case "appended":
                self.known[line.sequence] = line.digest
                self.head, self.begins = Head(line.stream, line.sequence, digest), False
            case "deleted":
                self.known, self.deletes = {}, 0
                self.head = Head(line.stream, line.sequence, digest, deleted=True)
            case "deletes":
                self.deletes = line.sequence
            case _:
                self.begins = True

    def lost(self, head: Head, digests: list[bytes]) -> int:
        """Return how much that must be there is not, given the head of the stream and the digests of its events."""
        if self.head.deleted:
            return 0 if head == self.head or (self.begins and not head.deleted) else 1
        if head.deleted:
            return 0 if self.deletes == head.sequence == self.head.sequence and head.digest == self.head.digest else 1
        there = dict(enumerate((digest.hex() for digest in digests), 1))
        return sum(there.get(sequence) != digest for sequence, digest in self.known.items())

    def settle(self, head: Head) -> None:
        """Take what there is for what must be there."""
        self.head, self.deletes, self.begins = head, 0, False
        self.known = {} if head.deleted else {head.sequence: head.digest.hex()}


class _Check:
    """Looks through the journal after each kill."""

    def __init__(self, path: Path, found: Kills) -> None:
        self._path = path
        self._found = found
        self._streams: dict[str, _Stream] = {}

    def take(self, lines: Sequence[Acknowledged]) -> None:
        """Take in what the killed process had said."""
        for line in lines:
            self._found.acknowledged += line.what in {"appended", "deleted"}
            self._streams.setdefault(line.stream, _Stream()).take(line)

    def look(self, folder: Path) -> None:
        """Open the journal, and note everything in it that is not as it must be."""
        try:
            # Sealing is left to the writers: what they were about to seal is to be found in the log.
            with LmdbJournal(self._path, seal_after=10**9) as journal:
                self._examine(journal)
            for backup in folder.glob("backup-*"):
                with LmdbJournal(backup, readonly=True) as journal:
                    self._verify(journal, "a backup")
                shutil.rmtree(backup)
            for left in folder.glob(".backup-*"):
                shutil.rmtree(left)
        except ClewError as error:
            self._found.lost += 1
            self._found.note(f"{type(error).__name__}: {error}")

    def _verify(self, journal: LmdbJournal, what: str) -> None:
        for problem in journal.verify().problems:
            self._found.note(f"{what}: {problem}")

    def _examine(self, journal: LmdbJournal) -> None:
        self._verify(journal, "verify")
        heads = {head.stream: head for head in journal.streams()}
        self._found.streams = len(heads)
        self._found.events = 0
        read: dict[str, list[RecordedEvent]] = {}
        for name in {*heads, *self._streams}:
            head = journal.head(name)
            if head.sequence and heads.get(name) != head:
                self._found.lost += 1
                self._found.note(f"{name[:20]}: the list of streams says {heads.get(name)}, and its head is {head}")
            read[name] = [] if head.deleted else list(journal.read(name))
            self._stream(journal, name, head, read[name])
        self._order(journal, read)

    def _stream(self, journal: LmdbJournal, name: str, head: Head, events: list[RecordedEvent]) -> None:
        found = self._found
        found.events += len(events)
        digests: list[bytes] = []
        for event in events:
            digests.append(chain(digests[-1] if digests else GENESIS, event.canonical))
        if [event.sequence for event in events] != [*range(1, (0 if head.deleted else head.sequence) + 1)]:
            found.gaps += 1
            found.note(f"{name[:20]}: its sequences do not go from 1 to {head.sequence}")
        stream = self._streams.setdefault(name, _Stream())
        lost = stream.lost(head, digests) + sum(
            event.digest != digest for event, digest in zip(events, digests, strict=True)
        )
        if lost or (events and digests[-1] != head.digest):
            found.lost += max(lost, 1)
            found.note(f"{name[:20]}: {stream.head[1:]} was acknowledged, and {head[1:]} is there")
        groups = torn(event for page in _pages(journal, name, head) for event in page if isinstance(event, Written))
        cell = journal.cells.get(cell_of(name))
        if not head.deleted and head.sequence and cell != b"%d" % head.sequence:
            groups.append(f"the cell that says {cell!r}, written with the events up to {head.sequence}")
        for group in groups:
            found.half_written += 1
            found.note(f"{name[:20]}: only a part of {group} is there")
        stream.settle(head)

    def _order(self, journal: LmdbJournal, read: dict[str, list[RecordedEvent]]) -> None:
        everything = sorted(joined.from_iterable(read.values()), key=lambda event: event.position)
        positions = [event.position for event in everything]
        if len({*positions}) != len(positions) or list(journal.read_all()) != everything:
            self._found.gaps += 1
            self._found.note("to read everything gives something else than to read every stream")


def _pages(journal: LmdbJournal, name: str, head: Head) -> Iterator[list[msgspec.Struct]]:
    if not head.deleted:
        yield from (list(page.events) for page in journal.pages(name, CATALOG))
