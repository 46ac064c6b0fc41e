"""The layout of the tables: made in an empty database, recognised in another."""

from __future__ import annotations

from typing import Final

from ..errors import ForeignJournal, NewerJournal
from .execute import Execute, Reading
from .statements import INSERT_LAYOUT, LAYOUT, META, TABLES

__all__ = ["LAYOUT_VERSION", "check_layout", "prepare"]

LAYOUT_VERSION: Final = 1
"""The newest layout of the tables that this version reads and writes."""


def prepare(database: Execute) -> None:
    """Make the tables where there are none.

    Raises:
        ForeignJournal: they are there, and of a newer layout.
    """

    def create() -> None:
        database.execute(META)
        if not check_layout(database, database.name):
            for sql in TABLES:
                database.execute(sql)
            database.execute(INSERT_LAYOUT, str(LAYOUT_VERSION))

    database.atomically(create)


def check_layout(database: Reading, name: str) -> bool:
    """Return whether there are tables.

    Raises:
        NewerJournal: they are of a newer layout. ForeignJournal: of none that could be.
    """
    rows = database.execute(LAYOUT)
    if not rows:
        return False
    layout: str = rows[0][0]
    if not layout.isdecimal():
        raise ForeignJournal(path=name, reason=f"its layout is {layout!r}, which is no number")
    if int(layout) > LAYOUT_VERSION:
        raise NewerJournal(path=name, layout=int(layout), layout_now=LAYOUT_VERSION)
    return True
