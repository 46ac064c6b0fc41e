"""Connections to a journal's file: one that writes, and as many that read as threads do at one time.

The file is in write-ahead mode, so reading waits for nothing, and sees only what was synced. Which failures certainly
wrote nothing is decided here.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from ..errors import CorruptRecord, JournalError, ReadOnlyJournal
from .execute import NoRoom, Row, Value

__all__ = ["Readers", "WritingConnection", "connect"]

BUSY_TIMEOUT_S: Final = 10.0
"""How long to wait for another process that reads or recovers the file, or looks at it with a tool."""

_READERS_KEPT: Final = 8
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR})
_PAGE: Final = bytes(4096)

T = TypeVar("T")


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Connect to a file that is there; `mode` is "rw", "ro", or "immutable" where not even a lock can be written.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    options = "mode=ro&immutable=1" if mode == "immutable" else f"mode={mode}"
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        uri=True,
    )
    # A damaged value may say that it is text: then it is found out where its stream and sequence are known.
    db.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    return db


class WritingConnection:
    """The connection that writes; used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = connect(path, "rw")
        try:
            if self._db.execute("PRAGMA journal_mode = WAL").fetchall() != [("wal",)]:
                raise OSError(errno.ENOTSUP, "the file system has no shared memory, which the log needs", str(path))
            # Each commit is synced before it is seen; on macOS, where a sync means less, in the way that lasts.
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA fullfsync = ON")
            self._db.execute("PRAGMA temp_store = MEMORY")
            # What a killed writer had written and not synced must not be read before it is.
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except BaseException:
            self._db.close()
            raise

    @property
    def name(self) -> str:
        """See `Execute.name`."""
        return str(self._path)

    def execute(self, sql: str, *params: Value) -> list[Row]:
        """See `Reading.execute`."""
        return self._db.execute(sql, params).fetchall()

    def atomically(self, work: Callable[[], T]) -> T:
        """See `Execute.atomically`."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            done = work()
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error) and self._wrote_nothing(error):
                raise NoRoom(str(error)) from error
            raise
        return done

    def _wrote_nothing(self, error: sqlite3.Error) -> bool:
        """Whether the disk was full. Then the frame that ends a commit is not in the log, and the rest is ignored."""
        full = error.sqlite_errorcode == sqlite3.SQLITE_FULL or (
            # A limit that is not "no space left" is told as a failed write.
            error.sqlite_errorcode == sqlite3.SQLITE_IOERR_WRITE and self._is_full()
        )
        return full and not self._db.in_transaction

    def _is_full(self) -> bool:
        """Whether the log cannot become longer. What is behind its last commit is never read."""
        log = Path(f"{self._path}-wal")
        if not log.exists():
            return False
        # The log itself carries no locks, which closing it would drop.
        with log.open("ab", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            try:
                return file.write(_PAGE) < len(_PAGE)
            except OSError as error:
                return error.errno in _NO_ROOM
            finally:
                file.truncate(size)

    def close(self) -> None:
        """Let go; the last connection empties the log into the file."""
        self._db.close()


class Readers:
    """Connections that read, each used by one thread at a time."""

    def __init__(self, path: Path, mode: str) -> None:
        self._path = path
        self._mode = mode
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    def execute(self, sql: str, *params: Value) -> list[Row]:
        """See `Reading.execute`.

        Raises:
            CorruptRecord: SQLite finds its own pages damaged.
            JournalError: it could not read for another reason.
        """
        with self._connection() as db:
            try:
                return db.execute(sql, params).fetchall()
            except sqlite3.Error as error:
                raise self._failure(error) from error

    @property
    def name(self) -> str:
        """See `Execute.name`."""
        return str(self._path)

    def atomically(self, work: Callable[[], T]) -> T:
        """Refuse.

        Raises:
            ReadOnlyJournal: always.
        """
        raise ReadOnlyJournal(path=self.name)

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        with self._lock:
            db = self._idle.pop() if self._idle else None
        if db is None:
            try:
                db = connect(self._path, self._mode)
            except sqlite3.Error as error:
                raise self._failure(error) from error
        try:
            yield db
        finally:
            with self._lock:
                keep = not self._closed and len(self._idle) < _READERS_KEPT
                if keep:
                    self._idle.append(db)
            if not keep:
                db.close()

    def _failure(self, error: sqlite3.Error) -> JournalError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if code & 0xFF in _DAMAGED:
            return CorruptRecord(where=str(self._path), reason=f"SQLite cannot read its pages ({error})")
        return JournalError(f"{self._path}: SQLite could not read ({error}). Try again, or open the journal again.")

    def close(self) -> None:
        """Let go; what is in use is let go of when it has been used."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()
