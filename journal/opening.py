"""Where a journal is, in one word: a directory, a URL, or nowhere but in memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from .journal import Journal
from .memory import MemoryJournal

__all__ = ["open_journal"]

_SCHEME: Final = re.compile(r"(sqlite|[A-Za-z][A-Za-z0-9+.-]*(?=://)):")
_PREFIX: Final = "sqlite:///"


def open_journal(place: str | Path) -> Journal:
    """Open the journal at a place, made if needed: a directory (LMDB), `"sqlite:///file.db"`, or `"memory:"`.

    Behind the three slashes stands the path of a file, as it is: `sqlite:///data.db` is relative, and with a fourth
    slash, `sqlite:////var/data.db`, it is absolute.

    Raises:
        ValueError: it is a URL of something else, or one without a file.
        JournalLocked, JournalForked, ForeignJournal, CorruptRecord, OSError: as for `LmdbJournal` and `SqliteJournal`.
    """
    if place == "memory:":
        return MemoryJournal()
    if isinstance(place, str) and _SCHEME.match(place):
        path = _path_of(place)
        from .sql import SqliteJournal  # noqa: PLC0415  (a host needs only what its journal needs)

        return SqliteJournal(path)
    from .lmdb import LmdbJournal  # noqa: PLC0415  (as above)

    return LmdbJournal(place)


def _path_of(url: str) -> str:
    if not url.startswith("sqlite:"):
        raise ValueError(f"{url!r}: a journal is a directory, 'sqlite:///file.db' or 'memory:'; no other URL is known")
    path = url.removeprefix(_PREFIX)
    if path == url or "?" in path:
        raise ValueError(
            f"{url!r}: write 'sqlite:///file.db', or 'sqlite:////var/file.db' for an absolute path; "
            "there is no host and no query"
        )
    if path in {"", ":memory:"}:
        raise ValueError(f"{url!r} names no file; for a journal that is kept nowhere write 'memory:'")
    return path
