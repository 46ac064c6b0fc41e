"""What tests of projections ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.journal import Journal, MemoryJournal
from clew.journal.lmdb import LmdbJournal


@pytest.fixture(params=["memory", "lmdb"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    opened: Journal = MemoryJournal() if request.param == "memory" else LmdbJournal(tmp_path / "journal")
    yield opened
    opened.close()
