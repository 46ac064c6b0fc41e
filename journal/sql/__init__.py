"""The journal in SQL: rows of SQLite, on one machine or in a Durable Object.

In the order of an append: `journal` checks it, `streams` knows where its stream ends, `events` makes rows of it,
`commits` gathers what waits, `writing` turns it into `statements` of one transaction, which the host's `execute` makes
durable. Back out: `reading` makes events of rows, `cells` reads cells, `examine` reads everything.

All that runs in a Durable Object as it is. On one machine `sqlite_journal` adds the rest: `files` looks at what is
there, `sqlite` holds the connections, `thread` commits in groups, `tail` follows another process that writes.
"""

from typing import TYPE_CHECKING

from .execute import Execute, NoRoom
from .journal import SqlJournal

if TYPE_CHECKING:
    from .sqlite_journal import SqliteJournal, Stats

__all__ = ["Execute", "NoRoom", "SqlJournal", "SqliteJournal", "Stats"]


def __getattr__(name: str) -> object:
    """Import the journal in a file when it is first asked for: a Durable Object has no files, locks or threads."""
    if name not in {"SqliteJournal", "Stats"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import sqlite_journal  # noqa: PLC0415  (see above)

    return getattr(sqlite_journal, name)
