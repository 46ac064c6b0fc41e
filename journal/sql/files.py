"""What must be true of a path before it is opened as a journal, and how a new file comes to be.

Nothing here changes what it finds.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from struct import Struct
from typing import Final

from ..errors import ForeignJournal
from ..place import sync_folder, warn_of_network
from .execute import Row, Value
from .layout import check_layout
from .sqlite import connect

__all__ = ["check_file", "find_or_create", "lock_file", "probe", "refusing"]

_HEADER = Struct(">16sH6xI")  # magic, page size, how often it was changed; at 28 the pages, at 92 for which change
_HEADER_BYTES: Final = 100
_MAGIC: Final = b"SQLite format 3\0"
_LARGEST_PAGE: Final = 65536
_REFUSED: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM})


def lock_file(path: Path) -> Path:
    """Return the file whose lock keeps other writing processes out."""
    return path.with_name(f"{path.name}.lock")


def find_or_create(path: Path, *, readonly: bool) -> None:
    """Make an empty file where there is none, and warn of a place that should not hold it.

    Raises:
        ForeignJournal: it is a directory, or there is nothing to read.
        OSError: it cannot be made.
    """
    if path.is_dir():
        raise ForeignJournal(path=str(path), reason="this is a directory, and a journal in SQLite is a file")
    if readonly and not path.exists():
        raise ForeignJournal(path=str(path), reason="there is no journal here to read")
    warn_of_network(path)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    except FileExistsError:
        return
    sync_folder(path.parent)


def check_file(path: Path) -> None:
    """Refuse a file that is not SQLite's, or has lost its end. Called before this process connects to it.

    Raises:
        ForeignJournal: with the reason.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
        size = os.fstat(file.fileno()).st_size
    if not header:
        return
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise ForeignJournal(path=str(path), reason="this is not a file of SQLite")
    _, page, changed = _HEADER.unpack_from(header)
    pages, counted_at = int.from_bytes(header[28:32], "big"), int.from_bytes(header[92:96], "big")
    log = Path(f"{path}-wal")
    # What is not in the file yet may be in the log.
    if changed == counted_at and pages * (page if page > 1 else _LARGEST_PAGE) > size and not _filled(log):
        raise ForeignJournal(path=str(path), reason="the file is cut short")


def _filled(log: Path) -> bool:
    try:
        return log.stat().st_size > 0
    except FileNotFoundError:
        return False


def probe(path: Path, *, readonly: bool) -> str:
    """Return the mode to connect for reading, when the file holds a journal, or nothing yet.

    Raises:
        ForeignJournal: it holds something else, or a journal of a newer layout.
        sqlite3.Error: it cannot be opened; see `refusing`.
    """
    try:
        _probe(path, "ro", readonly=readonly)
    except sqlite3.OperationalError as error:
        # In a read-only image there can be no log and no lock. Then nobody writes either.
        if not readonly or error.sqlite_errorcode & 0xFF not in _REFUSED or _filled(Path(f"{path}-wal")):
            raise
        _probe(path, "immutable", readonly=readonly)
        return "immutable"
    return "ro"


def _probe(path: Path, mode: str, *, readonly: bool) -> None:
    with closing(connect(path, mode)) as db:

        class Probing:
            def execute(self, sql: str, *params: Value) -> list[Row]:
                return db.execute(sql, params).fetchall()

        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "clew_meta" in tables:
            check_layout(Probing(), str(path))
        elif tables:
            raise ForeignJournal(path=str(path), reason="this is a database of something else, and not a journal")
        elif readonly:
            raise ForeignJournal(path=str(path), reason="there is no journal here to read")


@contextmanager
def refusing(path: Path) -> Generator[None]:
    """Turn what SQLite says while it opens into what a caller can act on.

    Raises:
        OSError: the system refused.
        ForeignJournal: SQLite did.
    """
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _REFUSED:
            raise PermissionError(f"{path}: {error}") from error
        raise ForeignJournal(path=str(path), reason=f"SQLite cannot open it as a journal ({error})") from error
