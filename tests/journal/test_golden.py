"""Journals written by earlier versions: every stored layout opens, reads, verifies and goes on, for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from clew.journal import MemoryJournal, NewEvent, OutdatedJournal, StreamDeleted, import_history
from clew.journal.contract.subject import append, appended, note
from clew.journal.lmdb import LmdbJournal, migrate
from clew.journal.lmdb.directory import LAYOUT_VERSION

HISTORIES = Path(__file__).parent.parent / "histories"

LAYOUTS = sorted(HISTORIES.glob("lmdb-*.zst"))

ROBOT = HISTORIES / "robot-1.jsonl"

PAID = '{"event":"order.paid","version":1,"data":{"cents":%d}}'

LARGE = "a large text, of which there are many. " * 3000


def record(path: Path, scratch: Path) -> None:
    """Record the golden journal of this layout; done once a layout, never for an existing file.

    It has something of everything: what is sealed, what is in the log, a large event, a deleted stream.
    """
    with LmdbJournal(scratch, seal_after=None) as journal:
        import_history(journal, ROBOT)
        for number in range(300):
            append(journal, "order/many", f"number {number}")
        append(journal, "order/large", "small", LARGE, "small")
        append(journal, "order/gone", "soon forgotten")
        journal.compact()
        journal.delete("order/gone", expected=1).wait()
        append(journal, "order/many", "in the log")
        journal.append("order/é/1", [NewEvent((PAID % 5).encode())], expected=0).wait()
    with path.open("xb") as out:
        out.write(zstandard.compress((scratch / "data.mdb").read_bytes(), 19))


def unpack(layout: Path, folder: Path) -> int:
    """Put a golden journal into a folder; return its layout."""
    (folder / "data.mdb").write_bytes(zstandard.decompress(layout.read_bytes()))
    return int(layout.stem.removeprefix("lmdb-"))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda path: path.stem)
def test_a_journal_of_every_layout_opens_reads_and_goes_on(layout: Path, tmp_path: Path) -> None:
    version = unpack(layout, tmp_path)
    recorded = MemoryJournal()
    import_history(recorded, ROBOT)

    with LmdbJournal(tmp_path, readonly=True) as journal:
        assert list(journal.read("thread/t")) == list(recorded.read("thread/t"))
        assert {"order/é/1", "thread/t"} <= {head.stream for head in journal.streams()}
        assert journal.verify().problems == []
    if version < LAYOUT_VERSION:
        with pytest.raises(OutdatedJournal, match="clew journal migrate"):
            LmdbJournal(tmp_path)
    assert migrate(tmp_path) == (version, LAYOUT_VERSION)
    assert migrate(tmp_path) == (LAYOUT_VERSION, LAYOUT_VERSION)

    with LmdbJournal(tmp_path) as journal:
        assert list(journal.read("thread/t")) == list(recorded.read("thread/t"))
        journal.append("order/é/1", [NewEvent((PAID % 6).encode())], expected=1).wait()
        assert journal.verify().problems == []
        journal.compact()
        assert journal.verify().problems == []
        assert list(journal.read("thread/t")) == list(recorded.read("thread/t"))


@pytest.mark.parametrize("layout", LAYOUTS[1:], ids=lambda path: path.stem)
def test_what_is_sealed_large_or_deleted_in_a_golden_journal_is_what_it_was(layout: Path, tmp_path: Path) -> None:
    unpack(layout, tmp_path)

    with LmdbJournal(tmp_path) as journal:
        assert appended(journal, "order/many") == [*(f"number {number}" for number in range(300)), "in the log"]
        assert appended(journal, "order/large") == ["small", LARGE, "small"]
        assert journal.head("order/gone").deleted
        with pytest.raises(StreamDeleted):
            journal.append("order/gone", [note("x")], expected=1)


def test_there_is_a_golden_journal_of_the_present_layout() -> None:
    assert [path.stem for path in LAYOUTS] == [f"lmdb-{version}" for version in range(1, LAYOUT_VERSION + 1)]
