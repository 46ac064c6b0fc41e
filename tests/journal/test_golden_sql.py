"""SQL journals written by earlier versions: every stored layout opens, reads, verifies and goes on, for ever."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import zstandard

from clew.journal import StreamDeleted, import_history
from clew.journal.contract.subject import append, appended, note
from clew.journal.sql import SqliteJournal
from clew.journal.sql.layout import LAYOUT_VERSION

HISTORIES = Path(__file__).parent.parent / "histories"

LAYOUTS = sorted(HISTORIES.glob("sqlite-*.zst"))

LARGE = "a large text, of which there are many. " * 3000


def record(path: Path, scratch: Path) -> None:
    """Record the golden journal of this layout; done once a layout, never for an existing file."""
    with SqliteJournal(scratch / "journal.db") as journal:
        import_history(journal, HISTORIES / "robot-1.jsonl")
        append(journal, "order/large", "small", LARGE, "small")
        append(journal, "order/gone", "soon forgotten")
        journal.delete("order/gone", expected=1).wait()
    # What is in the write-ahead log, too.
    with sqlite3.connect(scratch / "journal.db") as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("xb") as out:
        out.write(zstandard.compress((scratch / "journal.db").read_bytes(), 19))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda path: path.stem)
def test_a_journal_of_every_layout_opens_reads_and_goes_on(layout: Path, tmp_path: Path) -> None:
    place = tmp_path / "journal.db"
    place.write_bytes(zstandard.decompress(layout.read_bytes()))

    with SqliteJournal(place) as journal:
        assert journal.verify().problems == []
        assert [head.stream for head in journal.streams()] == ["order/gone", "order/large", "thread/t"]
        assert appended(journal, "order/large") == ["small", LARGE, "small"]
        with pytest.raises(StreamDeleted):
            journal.append("order/gone", [note("x")], expected=1)
        append(journal, "order/large", "more", expected=3)
        assert import_history(journal, HISTORIES / "robot-1.jsonl") == {"thread/t": 0}
        assert journal.verify().problems == []


def test_there_is_a_golden_journal_of_the_present_layout() -> None:
    assert [path.stem for path in LAYOUTS] == [f"sqlite-{version}" for version in range(1, LAYOUT_VERSION + 1)]
