"""A process of its own with a journal in it, which does what it is told line by line. Started by `process.py`."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import lmdb

from clew.journal import CellWrite, ClewError, Commit, Journal
from clew.journal.contract.subject import append, noise, note
from clew.journal.lmdb import LmdbJournal
from clew.journal.sql import SqliteJournal


class Child:
    """The commands."""

    def __init__(self) -> None:
        self.journal: LmdbJournal | SqliteJournal | None = None
        self.readers: list[object] = []

    def open(self, path: str, options: dict[str, Any]) -> int:
        """Open the journal, in SQLite where that is a `.db`; answer with its number of events."""
        self.journal = _opened(path, options)
        return self.journal.stats().events

    def close(self) -> None:
        """Close the journal."""
        self._open.close()

    def append(self, stream: str, texts: list[str], expected: int) -> int:
        """Append notes; answer with the last sequence when they are durable."""
        commit = self._open.append(stream, [note(text) for text in texts], expected=expected)
        commit.wait(timeout_s=30)
        return commit.last_sequence

    def delete(self, stream: str, expected: int) -> None:
        """Delete a stream; answer when that is durable."""
        self._open.delete(stream, expected=expected).wait(timeout_s=30)

    def count(self, stream: str) -> int:
        """Answer with the number of events that can be read."""
        return sum(1 for _ in self._open.read(stream))

    def texts(self, stream: str) -> list[str]:
        """Answer with what the events of a stream say."""
        return [json.loads(event.canonical)["data"]["text"] for event in self._open.read(stream)]

    def problems(self) -> list[str]:
        """Answer with what `verify` finds."""
        return self._open.verify().problems

    def compact(self) -> list[int]:
        """Seal and compact an LMDB journal; answer with what that did."""
        assert isinstance(self._open, LmdbJournal)
        return list(self._open.compact())

    def sealed(self) -> int:
        """Answer with how many events of an LMDB journal are sealed."""
        assert isinstance(self._open, LmdbJournal)
        return self._open.stats().sealed_events

    def hold_readers(self, path: str, count: int) -> int:
        """Take up to `count` slots of LMDB's reader table and keep them; answer with how many there were."""
        self.env = lmdb.open(path, readonly=True, max_dbs=9, max_readers=8, lib_version=0)
        while len(self.readers) < count:
            try:
                self.readers.append(self.env.begin())
            except lmdb.ReadersFullError:
                break
        return len(self.readers)

    def processes_with_slots(self) -> list[int]:
        """Answer with the processes that LMDB's reader table names, living or dead."""
        return [int(line.split()[0]) for line in self.env.readers().splitlines()[1:]]

    def limit_file_size(self, size_bytes: int | None) -> None:
        """Let every write beyond `size_bytes` fail, as on a full disk; None takes the limit away."""
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size_bytes is None else size_bytes, hard))

    def remove(self, path: str) -> None:
        """Delete a file."""
        Path(path).unlink()

    def break_data_file(self) -> None:
        """Let every write to the data file fail from now on, as a disk that is pulled out."""
        path = self._open.path
        files = {path / "data.mdb", path, Path(f"{path}-wal")}
        nowhere = os.open(os.devnull, os.O_RDONLY)
        for fd in list(Path("/proc/self/fd").iterdir()):
            if fd.is_symlink() and fd.readlink() in files:
                os.dup2(nowhere, int(fd.name))

    def queue(self, streams: list[str], size: int) -> list[object]:
        """Append a note to each stream without waiting; answer with how each of them ended."""
        commits = [
            self._open.append(stream, [note(noise(size, seed))], expected=0) for seed, stream in enumerate(streams)
        ]
        return [_outcome_of(commit) for commit in commits]

    def fill(self, stream: str, size: int, expected: int) -> list[object]:
        """Append one note of noise after the other until one fails; answer with the last sequence and the error."""
        while True:
            try:
                append(self._open, stream, noise(size, expected), expected=expected)
            except ClewError as error:
                return [expected, _described(error)]
            expected += 1

    def fork(self) -> dict[str, object]:
        """Use the journal in a fork of this process; answer with what happened there."""
        journal = self._open
        calls: dict[str, Callable[[], object]] = {
            "append": lambda: journal.append("order/1", [note("of the fork")], expected=1),
            "read": lambda: journal.read("order/1"),
            "read_all": journal.read_all,
            "head": lambda: journal.head("order/1"),
            "streams": journal.streams,
            "watch": lambda: journal.watch(lambda: None),
            "verify": journal.verify,
            "stats": journal.stats,
            "cells.get": lambda: journal.cells.get(b"cell"),
            "cells.scan": lambda: journal.cells.scan(b""),
            "cells.write": lambda: journal.cells.write([]),
            "open again": lambda: _opened(str(journal.path), {"readonly": True}),
            "close": journal.close,
        }
        from_child, to_parent = os.pipe()
        if (pid := os.fork()) == 0:
            try:
                os.write(to_parent, json.dumps({name: _outcome(call) for name, call in calls.items()}).encode())
            finally:
                # Not `os._exit`: what runs when an interpreter ends must do no harm either.
                sys.exit()
        os.close(to_parent)
        with os.fdopen(from_child) as pipe:
            found = json.load(pipe)
        return found | {"exit": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}

    def leave_open(self) -> NoReturn:
        """End the process with the journal open and appends under way."""
        journal = self._open
        threading.Thread(target=_append_for_ever, args=(journal,), daemon=True).start()
        append(journal, "order/1", "the last that is acknowledged", expected=0)
        answer(["acknowledged", 1])
        sys.exit(7)

    def append_until_killed(self, path: str, threads: int, options: dict[str, Any]) -> NoReturn:
        """Append from several threads to two streams each, and say so of each append that is durable."""
        os.write(1, b"starting\n")
        journal = _opened(path, options)
        for n in range(threads):
            threading.Thread(target=_acknowledge_appends, args=(journal, n), daemon=True).start()
        threading.Event().wait()
        raise AssertionError

    def drop_privileges(self) -> None:
        """Become nobody, for whom permissions are more than advice."""
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)

    def change_directory(self, path: str) -> None:
        """Go to a directory."""
        os.chdir(path)

    @property
    def _open(self) -> LmdbJournal | SqliteJournal:
        if self.journal is None:
            raise RuntimeError("the test has not opened a journal in this process")
        return self.journal


def _opened(path: str, options: dict[str, Any]) -> LmdbJournal | SqliteJournal:
    return SqliteJournal(path, **options) if path.endswith(".db") else LmdbJournal(path, **options)


def _append_for_ever(journal: Journal) -> None:
    for n in range(10_000_000):
        journal.append("order/2", [note("x" * 1000)], expected=n)


def _acknowledge_appends(journal: Journal, thread: int) -> None:
    streams = [f"order/{thread}-{n}" for n in "ab"]
    expected = {stream: journal.head(stream).sequence for stream in streams}
    while True:
        for size in (1, 2, 30):
            commits = [_append_some(journal, stream, expected[stream], size) for stream in streams]
            for commit in commits:
                commit.wait()
                expected[commit.stream] = commit.last_sequence
                # One write of a short line is whole or not there, whatever the other threads do.
                os.write(1, f"{commit.stream} {commit.last_sequence}\n".encode())


def _append_some(journal: Journal, stream: str, expected: int, size: int) -> Commit:
    events = [note(f"{stream} {expected + n + 1} " + "x" * 300) for n in range(size)]
    last = CellWrite(stream.encode(), b"%d" % (expected + size))
    return journal.append(stream, events, expected=expected, cells=[last])


def _outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except ClewError as error:
        return type(error).__name__
    return "done"


def _outcome_of(commit: Commit) -> object:
    try:
        commit.wait(timeout_s=30)
    except ClewError as error:
        return _described(error)
    return "durable"


def _described(error: BaseException) -> dict[str, object]:
    facts = {name: value for name, value in vars(error).items() if isinstance(value, str | int)}
    return {"error": type(error).__name__, "text": str(error), **facts}


def answer(outcome: object) -> None:
    """Say how a command ended."""
    sys.stdout.write(json.dumps(outcome) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Answer each line of commands with a line."""
    child = Child()
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            outcome = ["done", getattr(child, name)(*arguments)]
        except Exception as error:  # noqa: BLE001  (the test decides what it thinks of it)
            outcome = ["raised", _described(error)]
        answer(outcome)


if __name__ == "__main__":
    main()
