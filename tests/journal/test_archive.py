"""Archives: a stream is in its file before it leaves the journal, whatever happens in between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from clew.journal import (
    CellWrite,
    CorruptRecord,
    InvalidHistory,
    Journal,
    MemoryJournal,
    RecordedEvent,
    StreamDeleted,
    open_mark,
    read_history,
    write_history,
)
from clew.journal.archive import archive, archive_file, restore_archive
from clew.journal.contract.subject import append, appended
from clew.journal.snapshot import SnapshotPolicy, Snapshots, Tip
from tests.journal.deleting import OPENERS, ticking


@pytest.fixture(params=OPENERS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    with OPENERS[request.param](tmp_path / "journal", clock=ticking()) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archives" / "of this journal"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    "stream", ["order/1", "order/" + "é" * 1000, "order/../../etc/passwd", "order/CON", "order/a b?"]
)
def test_an_archived_stream_is_in_its_file_and_comes_back(stream: str, journal: Journal, folder: Path) -> None:
    append(journal, stream, *(f"text {n}" for n in range(30)))
    append(journal, "order/other", "stays")
    before, head = BytesIO(), journal.head(stream)
    write_history(journal.read(stream), before)

    report = archive(journal, [stream], folder)

    [archived] = report.archived
    assert (archived.stream, archived.sequence, archived.digest) == (stream, 30, head.digest.hex())
    assert report.left == {}
    assert files(folder) == [archive_file(head)] == [Path(archived.file).name]
    assert archive_file(head).isascii()
    assert len(archive_file(head)) < 200
    assert journal.head(stream).deleted
    with pytest.raises(StreamDeleted):
        list(journal.read(stream))
    assert appended(journal, "order/other") == ["stays"]

    assert restore_archive(journal, archived.file) == {stream: 30}

    after = BytesIO()
    write_history(journal.read(stream), after)
    assert after.getvalue() == before.getvalue()
    assert journal.head(stream) == head


def test_streams_are_archived_by_name_each_once_and_those_that_are_not_there_are_reported(
    journal: Journal, folder: Path
) -> None:
    append(journal, "order/1", "a")
    append(journal, "order/2", "b")

    report = archive(journal, ["order/2", "order/9", "order/1", "order/2"], folder)

    assert [one.stream for one in report.archived] == ["order/2", "order/1"]
    assert report.left == {"order/9": "the journal has no such stream"}


def test_two_streams_of_one_name_in_two_journals_have_two_files(folder: Path) -> None:
    for text in ("a", "b"):
        journal = MemoryJournal()
        append(journal, "order/1", text)
        archive(journal, ["order/1"], folder)

    assert len(files(folder)) == 2


def test_a_stream_with_open_work_is_taken_only_when_that_is_asked_for(journal: Journal, folder: Path) -> None:
    append(journal, "order/1", "x")
    journal.cells.write([CellWrite(open_mark("order/1"), b"order/1")]).wait()

    report = archive(journal, ["order/1"], folder)
    assert "may have open work" in report.left["order/1"]
    assert (files(folder), appended(journal, "order/1")) == ([], ["x"])

    assert [one.stream for one in archive(journal, ["order/1"], folder, take_open=True).archived] == ["order/1"]
    assert journal.cells.get(open_mark("order/1")) is None


def test_snapshots_go_with_their_stream(journal: Journal, folder: Path) -> None:
    snapshots = Snapshots("fold", version=1, schema=b"", policy=SnapshotPolicy(every=1))
    for stream in ("order/1", "order/2"):
        append(journal, stream, "x")
        head = journal.head(stream)
        kept, _ = snapshots.save(
            journal.cells, stream, sequence=1, digest=head.digest, taken_at=1, state=b"s", added=b"l", after=Tip()
        )
        kept.wait()
    before = dict(journal.cells.scan(b""))

    archive(journal, ["order/1"], folder)

    assert snapshots.find(journal, "order/2") is not None
    left = dict(journal.cells.scan(b""))
    assert left.items() < before.items()
    assert len(left) * 2 == len(before)


class GrowsWhenWritten(MemoryJournal):
    """A journal whose stream grows while it is being written to its file."""

    def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
        events = super().read(stream, after=after)
        append(self, stream, "one more", expected=self.head(stream).sequence)
        return events


def test_a_stream_that_grows_meanwhile_is_left_alone(folder: Path) -> None:
    journal = GrowsWhenWritten()
    append(journal, "order/1", "a", "b")

    report = archive(journal, ["order/1"], folder)

    assert report.archived == []
    assert "it grew meanwhile" in report.left["order/1"]
    assert [event.sequence for event in MemoryJournal.read(journal, "order/1")] == [1, 2, 3]


def test_a_stream_that_cannot_be_read_is_left_alone_and_those_behind_it_are_not(folder: Path) -> None:
    class Damaged(MemoryJournal):
        def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
            if stream == "order/1":
                raise CorruptRecord(where="order/1, sequence 1", reason="damaged")
            return super().read(stream, after=after)

    journal = Damaged()
    append(journal, "order/1", "a")
    append(journal, "order/2", "b")

    report = archive(journal, ["order/1", "order/2"], folder)

    assert [one.stream for one in report.archived] == ["order/2"]
    assert report.left["order/1"].startswith("order/1, sequence 1: damaged")


def test_a_file_that_is_damaged_is_written_again_and_a_whole_one_is_not(folder: Path) -> None:
    journal = MemoryJournal()
    append(journal, "order/1", "a")
    folder.mkdir(parents=True)
    file = folder / archive_file(journal.head("order/1"))
    file.write_bytes(b"cut")
    archive(journal, ["order/1"], folder)
    assert len(read_history(file)) == 1

    restore_archive(journal, file)
    before = file.stat().st_ino
    archive(journal, ["order/1"], folder, take_open=True)
    assert file.stat().st_ino == before
    assert journal.head("order/1").deleted


def test_a_deleted_stream_whose_file_is_elsewhere_is_reported(folder: Path) -> None:
    journal = MemoryJournal()
    append(journal, "order/1", "a")
    journal.delete("order/1", expected=1).wait()

    assert "not in this folder" in archive(journal, ["order/1"], folder).left["order/1"]


def test_a_file_that_does_not_read_back_keeps_the_stream(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = MemoryJournal()
    append(journal, "order/1", "a")
    replace = os.replace

    def lose_the_end(source: Any, target: Any) -> None:
        os.truncate(source, 30)
        replace(source, target)

    # What pathlib calls, whose file system loses what was synced.
    monkeypatch.setattr(os, "replace", lose_the_end)

    with pytest.raises(InvalidHistory, match="does not read back"):
        archive(journal, ["order/1"], folder)
    assert appended(journal, "order/1") == ["a"]
