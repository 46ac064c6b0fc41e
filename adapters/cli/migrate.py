"""`clew journal migrate`: a journal of an older version of Clew, for this one."""

from __future__ import annotations

from ...journal.lmdb import migrate as migrate_directory
from .opening import DEFAULT_JOURNAL, AsJson, JournalArgument, directory_of, refusing
from .render import console, one_line, write_json

__all__ = ["migrate"]

_SQLITE = "There is one layout of journals in SQLite, so there is nothing to migrate."


def migrate(journal: JournalArgument = DEFAULT_JOURNAL, *, as_json: AsJson = False) -> int:
    """Bring a journal of an older layout to the present one.

    Events and digests stay as they are. Make a backup first: older versions of Clew cannot open it afterwards.
    """
    path = directory_of(journal, _SQLITE)
    with refusing(path):
        done = migrate_directory(path)
    if as_json:
        write_json(done._asdict())
        return 0
    text = (
        f"layout {done.before} became {done.after}" if done.before != done.after else f"has layout {done.after} already"
    )
    console().print(f"{one_line(journal)}: {text}", soft_wrap=True)
    return 0
