"""Journals written by earlier versions: every stored layout opens, reads, verifies and goes on, for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from clew.journal import MemoryJournal, NewEvent, OutdatedJournal, import_history
from clew.journal.lmdb import LmdbJournal, migrate
from clew.journal.lmdb.directory import LAYOUT_VERSION

HISTORIES = Path(__file__).parent.parent / "histories"

LAYOUTS = sorted(HISTORIES.glob("lmdb-*.zst"))


def record(path: Path, scratch: Path) -> None:
    """Record the golden journal of this layout; done once a layout, never for an existing file."""
    with LmdbJournal(scratch) as journal:
        import_history(journal, HISTORIES / f"robot-{path.stem.removeprefix('lmdb-')}.jsonl")
        journal.append(
            "order/é/1", [NewEvent(b'{"event":"order.paid","version":1,"data":{"cents":5}}')], expected=0
        ).wait()
    with path.open("xb") as out:
        out.write(zstandard.compress((scratch / "data.mdb").read_bytes(), 19))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda path: path.stem)
def test_a_journal_of_every_layout_opens_reads_and_goes_on(layout: Path, tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(zstandard.decompress(layout.read_bytes()))
    recorded = MemoryJournal()
    import_history(recorded, HISTORIES / f"robot-{layout.stem.removeprefix('lmdb-')}.jsonl")

    older = layout.stem != f"lmdb-{LAYOUT_VERSION}"
    if older:
        with pytest.raises(OutdatedJournal, match="clew journal migrate"):
            LmdbJournal(tmp_path)
        with LmdbJournal(tmp_path, readonly=True) as journal:
            assert list(journal.read("thread/t")) == list(recorded.read("thread/t"))
            assert [head.stream for head in journal.streams()] == ["order/é/1", "thread/t"]
            assert journal.verify().problems == []
    assert migrate(tmp_path) == (int(layout.stem.removeprefix("lmdb-")), LAYOUT_VERSION)
    assert migrate(tmp_path) == (LAYOUT_VERSION, LAYOUT_VERSION)

    with LmdbJournal(tmp_path) as journal:
        assert journal.verify().problems == []
        assert list(journal.read("thread/t")) == list(recorded.read("thread/t"))
        assert [head.stream for head in journal.streams()] == ["order/é/1", "thread/t"]

        more = NewEvent(b'{"event":"order.paid","version":1,"data":{"cents":6}}')
        journal.append("order/é/1", [more], expected=1).wait()
        assert journal.verify().problems == []
        journal.compact()
        assert journal.verify().problems == []
        assert list(journal.read("thread/t")) == list(recorded.read("thread/t"))


def test_there_is_a_golden_journal_of_the_present_layout() -> None:
    assert [path.stem for path in LAYOUTS] == ["lmdb-1"]
