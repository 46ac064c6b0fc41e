"""A process of its own with a journal in it, which does what it is told line by line. Started by `process.py`."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from clew.journal import ClewError, Journal
from clew.journal.contract.subject import append, note
from clew.journal.lmdb import LmdbJournal


class Child:
    """The commands."""

    def __init__(self) -> None:
        self.journal: LmdbJournal | None = None

    def open(self, path: str, options: dict[str, Any]) -> int:
        """Open the journal; answer with its number of events."""
        self.journal = LmdbJournal(path, **options)
        return self.journal.stats().events

    def close(self) -> None:
        """Close the journal."""
        self._open.close()

    def append(self, stream: str, texts: list[str], expected: int) -> int:
        """Append notes; answer with the last sequence when they are durable."""
        commit = self._open.append(stream, [note(text) for text in texts], expected=expected)
        commit.wait(timeout_s=30)
        return commit.last_sequence

    def count(self, stream: str) -> int:
        """Answer with the number of events that can be read."""
        return sum(1 for _ in self._open.read(stream))

    def texts(self, stream: str) -> list[str]:
        """Answer with what the events of a stream say."""
        return [json.loads(event.canonical)["data"]["text"] for event in self._open.read(stream)]

    def problems(self) -> list[str]:
        """Answer with what `verify` finds."""
        return self._open.verify().problems

    def hold_reader(self, path: str) -> None:
        """Take a slot of LMDB's reader table and keep it."""
        import lmdb

        self.reader = lmdb.open(path, readonly=True, max_dbs=4, lib_version=0).begin()

    def limit_file_size(self, size_bytes: int | None) -> None:
        """Let every write beyond `size_bytes` fail, as on a full disk; None takes the limit away."""
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size_bytes is None else size_bytes, hard))

    def fill(self, stream: str, text: str, expected: int) -> list[object]:
        """Append one note after the other until one fails; answer with the last sequence and the error."""
        while True:
            try:
                append(self._open, stream, text, expected=expected)
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
            "open again": lambda: LmdbJournal(journal.path, readonly=True),
            "close": journal.close,
        }
        answer, to_parent = os.pipe()
        if (pid := os.fork()) == 0:
            try:
                os.write(to_parent, json.dumps({name: _outcome(call) for name, call in calls.items()}).encode())
            finally:
                # Not `os._exit`: what runs when an interpreter ends must do no harm either.
                sys.exit()
        os.close(to_parent)
        with os.fdopen(answer) as pipe:
            found = json.load(pipe)
        return found | {"exit": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}

    def leave_open(self) -> NoReturn:
        """End the process with the journal open and appends under way."""
        journal = self._open
        threading.Thread(target=_append_for_ever, args=(journal,), daemon=True).start()
        append(journal, "order/1", "the last that is acknowledged", expected=0)
        print(json.dumps(["acknowledged", 1]), flush=True)
        sys.exit(7)

    def drop_privileges(self) -> None:
        """Become nobody, for whom permissions are more than advice."""
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)

    def change_directory(self, path: str) -> None:
        """Go to a directory."""
        os.chdir(path)

    @property
    def _open(self) -> LmdbJournal:
        if self.journal is None:
            raise RuntimeError("the test has not opened a journal in this process")
        return self.journal


def _append_for_ever(journal: Journal) -> None:
    for n in range(10_000_000):
        journal.append("order/2", [note("x" * 1000)], expected=n)


def _outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except ClewError as error:
        return type(error).__name__
    return "done"


def _described(error: BaseException) -> dict[str, object]:
    facts = {name: value for name, value in vars(error).items() if isinstance(value, str | int)}
    return {"error": type(error).__name__, "text": str(error), **facts}


def main() -> None:
    """Answer each line of commands with a line."""
    child = Child()
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = ["done", getattr(child, name)(*arguments)]
        except Exception as error:  # noqa: BLE001  (the test decides what it thinks of it)
            answer = ["raised", _described(error)]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
