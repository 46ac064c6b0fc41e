"""A program that does everything a journal can do, and dies at one chosen place of it; see `test_crash_points.py`.

Places are counted: before and after each thing that is put, deleted, committed, moved or synced. For each line of
orders (which scenario, where, at which place, torn or not) it forks, and answers how far the fork came.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import zstandard

from clew.journal import CellWrite, Commit, Journal
from clew.journal.contract.subject import noise, note
from clew.journal.lmdb import LmdbJournal, migrate, shrink
from tests.journal.crash_places import Places, watch

LAYOUT_1 = Path(__file__).parent.parent / "histories" / "lmdb-1.zst"

Step = tuple[Any, ...]

EVERYTHING: list[Step] = [
    ("append", "a/1", 3),
    ("group", ["b/1", "b/2", "b/" + "é" * 300], 2),
    ("large", "c/1", 1_200_000),
    ("cells", "one"),
    ("compact",),
    ("append", "a/1", 2),
    ("append", "d/1", 100),
    ("compact",),
    ("append", "d/1", 1),
    ("reopen",),
    ("compact",),
    ("delete", "c/1"),
    ("large", "c/2", 100_000),
    ("delete", "b/2"),
    ("append", "b/1", 1),
    ("compact",),
    ("revive", "b/2", 4),
    ("cells", "two"),
    ("backup",),
    ("append", "e/1", 1),
    ("delete", "e/1"),
    ("shrink",),
    ("compact",),
    ("revive", "e/1", 2),
]
MIGRATION: list[Step] = [("layout 1",), ("migrate",), ("append", "a/1", 2), ("compact",), ("append", "order/é/1", 1)]
SCENARIOS = {"everything": EVERYTHING, "migration": MIGRATION}


def perform(journal: Journal, step: Step, number: int) -> None:
    """Do one step, in any journal; what only one on a disk can do changes nothing that is read."""
    match step:
        case ("append" | "revive" as what, stream, count):
            head = journal.head(stream)
            expected = 0 if head.deleted else head.sequence
            events = [note(f"{stream} {number} {n}", cause=f"{number}") for n in range(count)]
            cells = [CellWrite(b"last", stream.encode())]
            journal.append(stream, events, expected=expected, cells=cells, revive=what == "revive").wait()
        case ("large", stream, size):
            journal.append(stream, [note("small"), note(noise(size, number))], expected=0).wait()
        case ("group", streams, count):
            append_together(journal, streams, count)
        case ("cells", text):
            changes = [CellWrite(b"%d" % n, text.encode()) for n in range(3)]
            journal.cells.write([CellWrite(b"last", None), *changes]).wait()
        case ("delete", stream):
            journal.delete(stream, expected=journal.head(stream).sequence).wait()
        case ("compact",):
            if isinstance(journal, LmdbJournal):
                journal.compact()
        case _:
            pass


def append_together(journal: Journal, streams: list[str], count: int) -> None:
    """Append to several streams in one transaction: what comes while the writer calls back waits for its next one."""
    commits: list[Commit] = []
    appended = threading.Event()

    def append(_: object) -> None:
        commits.extend(
            journal.append(stream, [note(f"{stream} {n}") for n in range(count)], expected=0) for stream in streams
        )
        appended.set()

    journal.cells.write([]).add_done_callback(append)
    appended.wait()
    for commit in commits:
        commit.wait()


class Life:
    """A journal through a scenario, from step to step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "journal"
        self.journal: LmdbJournal | None = None

    def step(self, step: Step, number: int) -> None:
        """Do one step."""
        match step:
            case ("layout 1",):
                self.path.mkdir(parents=True, exist_ok=True)
                (self.path / "data.mdb").write_bytes(zstandard.decompress(LAYOUT_1.read_bytes()))
            case ("migrate",):
                migrate(self.path)
            case ("backup",):
                shutil.rmtree(self.folder / "backup", ignore_errors=True)
                self.opened().backup(self.folder / "backup")
            case ("reopen" | "shrink" as what,):
                self.close()
                if what == "shrink":
                    shrink(self.path)
            case _:
                perform(self.opened(), step, number)

    def opened(self) -> LmdbJournal:
        """Return the journal, open."""
        if self.journal is None:
            self.journal = LmdbJournal(self.path, seal_after=10**9, map_bytes=65536)
        return self.journal

    def close(self) -> None:
        """Close it."""
        if self.journal is not None:
            self.journal.close()
            self.journal = None


def live(scenario: str, folder: Path, die_at: int, torn: bool, answer: int) -> None:
    """Go through a scenario, and say how many steps are done, and at the end which places there are."""
    places = Places(die_at, torn=torn)
    watch(places)
    life = Life(folder)
    for number, step in enumerate(SCENARIOS[scenario]):
        places.step = number
        life.step(step, number)
        os.write(answer, b".")
    life.close()
    os.write(answer, json.dumps(places.found).encode())


def main() -> None:
    for line in sys.stdin:
        scenario, folder, die_at, torn = json.loads(line)
        here, there = os.pipe()
        if (child := os.fork()) == 0:
            os.close(here)
            try:
                live(scenario, Path(folder), die_at, torn, there)
                os._exit(0)
            except BaseException as error:  # noqa: BLE001  (a fork must never go on in the loop of its parent)
                os.write(2, f"{error!r}\n".encode())
                os._exit(1)
        os.close(there)
        with os.fdopen(here, "rb") as pipe:
            said = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        steps = len(said) - len(said.lstrip(b"."))
        print(json.dumps([code, steps, json.loads(said[steps:] or b"[]")]), flush=True)


if __name__ == "__main__":
    main()
