"""A program that does everything a journal can do, and dies at one chosen place of it. Started by `test_crash_points.py`.

Places are counted: before and after each thing that is put, deleted, committed, moved or synced. For each line of orders
(which scenario, where, at which place, torn or not) it forks, and answers how far the fork came.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lmdb
import zstandard

from clew.journal import CellWrite, Commit, Journal
from clew.journal.contract.subject import noise, note
from clew.journal.lmdb import LmdbJournal, migrate, shrink
from clew.journal.lmdb import compaction, directory, environment, repair

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


class Place(NamedTuple):
    """Where the program can die."""

    step: int
    what: str


class Places:
    """Counts the places, and dies at the one that was chosen."""

    def __init__(self, die_at: int, *, torn: bool) -> None:
        self.found: list[Place] = []
        self.die_at = die_at
        self.torn = torn
        self.step = 0

    def here(self, what: str) -> None:
        """Be at a place."""
        self.found.append(Place(self.step, what))
        if len(self.found) == self.die_at and not self.torn:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, what: str, call: Callable[[], Any]) -> Any:
        """Do something between two places."""
        self.here(f"before {what}")
        result = call()
        self.here(f"after {what}")
        return result

    def commit(self, path: Path, call: Callable[[], Any]) -> Any:
        """Commit; where the power is to fail in it, some of its pages reach the disk, and its root does not."""
        if not (self.torn and len(self.found) + 1 == self.die_at):
            return self.around("commit", call)
        data = path / "data.mdb"
        before = data.read_bytes()
        call()
        tear(data, before)
        os.kill(os.getpid(), signal.SIGKILL)
        return None


def tear(data: Path, before: bytes) -> None:
    """Take back the roots and every second page that a commit has changed."""
    with data.open("r+b") as file:
        after = file.read()
        changed = [at for at in range(0, len(after), 4096) if after[at : at + 4096] != before[at : at + 4096]]
        for number, at in enumerate(changed):
            if (at < 2 * 4096 or number % 2) and at < len(before):
                file.seek(at)
                file.write(before[at : at + 4096])


class Wrapped:
    """One of LMDB's objects, with places around what it changes."""

    def __init__(self, inner: Any, places: Places, names: dict[int, str], path: Path) -> None:
        self._inner, self._places, self._names, self._path = inner, places, names, path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _wrap(self, inner: Any) -> Wrapped:
        return type(self)(inner, self._places, self._names, self._path)

    # The environment.

    def open_db(self, name: bytes, *, create: bool = False) -> Any:
        def call() -> Any:
            return self._inner.open_db(name, create=create)

        found = self._places.around("making of a database", call) if create else call()
        self._names[id(found)] = name.decode()
        return found

    def begin(self, *, write: bool = False, **options: Any) -> Any:
        begun = self._inner.begin(write=write, **options)
        if not write:
            return begun
        wrapped = self._wrap(begun)
        wrapped._database = self._names.get(id(options.get("db")), "")
        return wrapped

    def copy(self, path: str, **options: Any) -> None:
        self._places.around("copy", lambda: self._inner.copy(path, **options))

    def sync(self, force: bool) -> None:
        self._places.around("sync", lambda: self._inner.sync(force))

    def __enter__(self) -> Wrapped:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if isinstance(self._inner, lmdb.Environment):
            self._inner.close()
        elif kind is None:
            self.commit()
        else:
            self._inner.abort()

    # A writing transaction, and its cursors.

    _database = ""

    def _named(self, options: dict[str, Any]) -> str:
        return self._names.get(id(options.get("db")), "") or self._database

    def put(self, key: bytes, value: bytes, **options: Any) -> Any:
        what = f"put into {self._named(options)}"
        return self._places.around(what, lambda: self._inner.put(key, value, **options))

    def delete(self, *key: bytes, **options: Any) -> Any:
        what = f"delete from {self._named(options)}"
        return self._places.around(what, lambda: self._inner.delete(*key, **options))

    def cursor(self, db: Any) -> Wrapped:
        wrapped = self._wrap(self._inner.cursor(db))
        wrapped._database = self._names.get(id(db), "")
        return wrapped

    def commit(self) -> None:
        self._places.commit(self._path, self._inner.commit)


def watch(places: Places) -> None:
    """Put places around everything that changes a disk."""
    real = directory.map_files

    def map_files(path: Path, **options: Any) -> Any:
        opened = real(path, **options)
        return opened if options.get("readonly") and not hasattr(opened, "copy") else Wrapped(opened, places, {}, path)

    for module in (directory, environment, compaction, repair):
        module.map_files = map_files  # pyright: ignore[reportAttributeAccessIssue]
    for owner, name in ((Path, "replace"), (Path, "rename"), (os, "fsync"), (shutil, "rmtree"), (Path, "unlink")):
        setattr(owner, name, around(places, name, getattr(owner, name)))


def around(places: Places, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **options: Any) -> Any:
        return places.around(name, lambda: call(*arguments, **options))

    return wrapped


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
            except BaseException as error:
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
