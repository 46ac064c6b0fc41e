"""The places where a program that has a journal can die: around everything that changes its disk."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import lmdb

from clew.journal.lmdb import compaction, directory, environment

PAGE_BYTES = 4096


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
        changed = [
            at for at in range(0, len(after), PAGE_BYTES) if after[at : at + PAGE_BYTES] != before[at : at + PAGE_BYTES]
        ]
        for number, at in enumerate(changed):
            if (at < 2 * PAGE_BYTES or number % 2) and at < len(before):
                file.seek(at)
                file.write(before[at : at + PAGE_BYTES])


class Wrapped:
    """One of LMDB's objects, with places around what it changes."""

    def __init__(
        self, inner: Any, places: Places, path: Path, names: dict[int, str] | None = None, database: str = ""
    ) -> None:
        self._inner, self._places, self._path, self._database = inner, places, path, database
        self._names: dict[int, str] = {} if names is None else names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _wrap(self, inner: Any, database: object) -> Wrapped:
        return Wrapped(inner, self._places, self._path, self._names, self._names.get(id(database), ""))

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
        return self._wrap(begun, options.get("db"))

    def copy(self, path: str, **options: Any) -> None:
        self._places.around("copy", lambda: self._inner.copy(path, **options))

    def sync(self, force: bool) -> None:
        self._places.around("sync", lambda: self._inner.sync(force))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if isinstance(self._inner, lmdb.Environment):
            self._inner.close()
        elif kind is None:
            self.commit()
        else:
            self._inner.abort()

    # A writing transaction, and its cursors.

    def _named(self, options: dict[str, Any]) -> str:
        return self._names.get(id(options.get("db")), "") or self._database

    def put(self, key: bytes, value: bytes, **options: Any) -> Any:
        what = f"put into {self._named(options)}"
        return self._places.around(what, lambda: self._inner.put(key, value, **options))

    def delete(self, *key: bytes, **options: Any) -> Any:
        what = f"deletion in {self._named(options)}"
        return self._places.around(what, lambda: self._inner.delete(*key, **options))

    def cursor(self, db: Any) -> Wrapped:
        return self._wrap(self._inner.cursor(db), db)

    def commit(self) -> None:
        self._places.commit(self._path, self._inner.commit)


def watch(places: Places) -> None:
    """Put places around everything that changes a disk."""
    real = directory.map_files

    def map_files(path: Path, **options: Any) -> Any:
        opened = real(path, **options)
        return Wrapped(opened, places, path)

    for module in (directory, environment, compaction):
        module.map_files = map_files  # pyright: ignore[reportAttributeAccessIssue]
    for owner, name in ((Path, "replace"), (Path, "rename"), (os, "fsync"), (shutil, "rmtree"), (Path, "unlink")):
        setattr(owner, name, around(places, name, getattr(owner, name)))


def around(places: Places, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **options: Any) -> Any:
        return places.around(name, lambda: call(*arguments, **options))

    return wrapped
