"""What tests of projections ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.journal import Journal, MemoryJournal
from clew.journal.lmdb import LmdbJournal
from clew.journal.sql import SqliteJournal


@pytest.fixture(params=["memory", "lmdb", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    opened: Journal
    match request.param:
        case "lmdb":
            opened = LmdbJournal(tmp_path / "journal")
        case "sqlite":
            opened = SqliteJournal(tmp_path / "journal.db")
        case _:
            opened = MemoryJournal()
    yield opened
    opened.close()
