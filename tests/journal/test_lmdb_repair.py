"""Repair: what can be read is there again, with its positions and digests; what cannot is kept and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from clew.journal import CellWrite, CorruptRecord, ForeignJournal, JournalLocked, RecordedEvent
from clew.journal.contract.subject import append, appended, noise, note
from clew.journal.lmdb import LmdbJournal, repair

Change = Callable[[bytes], bytes | None]

DATABASES = ("log", "names", "cells", "meta", "streams", "numbers", "segments", "order", "chunks")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with sealed events, large ones, deleted ones, and a log."""
    path = tmp_path / "journal"
    with LmdbJournal(path, clock=iter(range(1, 10**6)).__next__) as journal:
        for n in range(900):
            stream = f"order/{n % 3}"
            journal.append(stream, [note(f"{stream} #{n // 3 + 1} {noise(60, n)}")], expected=n // 3)
        append(journal, "large/1", "small", noise(100_000), "small")
        append(journal, "gone/1", "x", "y")
        journal.delete("gone/1", expected=2).wait()
        journal.cells.write([CellWrite(b"cell", b"value")]).wait()
        journal.compact()
        for n in range(30):
            stream = f"order/{n % 3}"
            journal.append(stream, [note(f"{stream} #{n // 3 + 301}")], expected=n // 3 + 300).wait()
        append(journal, "late/1", "a", "b")
    return path


def change(path: Path, database: str, pick: Callable[[list[bytes]], bytes], how: Change) -> None:
    """Change one value of a database with LMDB's own means."""
    with lmdb.open(str(path), max_dbs=len(DATABASES), lib_version=0) as env:
        db = env.open_db(database.encode(), create=False)
        with env.begin(write=True, db=db) as txn:
            key = pick([key for key, _ in txn.cursor()])
            value = how(txn.get(key) or b"")
            if value is None:
                txn.delete(key)
            else:
                txn.put(key, value)


def flipped(value: bytes, at: int | None = None) -> bytes:
    """The value with one bit flipped, of its middle if nothing else is said."""
    place = len(value) // 2 if at is None else len(value) + at
    return value[:place] + bytes([value[place] ^ 4]) + value[place + 1 :]


def lost(_: bytes) -> None:
    """Nothing."""


def everything(path: Path) -> list[RecordedEvent]:
    with LmdbJournal(path, readonly=True) as journal:
        return list(journal.read_all())


def test_a_sound_journal_is_left_alone(path: Path) -> None:
    before = (path / "data.mdb").read_bytes()

    done = repair(path)

    assert (done.original, list(done.quarantined), done.events) == (None, [], 935)
    assert (path / "data.mdb").read_bytes() == before


@pytest.mark.parametrize("database", ["order", "streams", "numbers"])
@pytest.mark.parametrize("how", [flipped, lost])
def test_indexes_are_made_again_from_the_streams(database: str, how: Change, path: Path) -> None:
    before = everything(path)
    change(path, database, min, how)
    with LmdbJournal(path, readonly=True) as journal:
        assert journal.verify().problems

    done = repair(path)

    assert done.original is not None
    assert everything(path) == before
    with LmdbJournal(path) as journal:
        assert journal.verify().problems == []
        assert journal.cells.get(b"cell") == b"value"
        append(journal, "order/1", "more", expected=310)
        append(journal, "new/1", "first", expected=0)
        assert journal.verify().problems == []


def test_a_lost_segment_leaves_a_gap_that_is_named_and_harms_no_other_stream(path: Path) -> None:
    before = everything(path)
    change(path, "segments", lambda keys: [key for key in keys if key[:4] == keys[0][:4]][1], flipped)

    done = repair(path)

    lost = [text for text in done.quarantined if "sequences" in text]
    assert len(lost) == 1
    assert "order/0, sequences 129 to 256" in lost[0]
    with LmdbJournal(path) as journal:
        found = [event for head in journal.streams() if not head.deleted for event in _readable(journal, head.stream)]
        gap = {("order/0", sequence) for sequence in range(129, 257)}
        assert sorted(found, key=lambda event: event.position) == [
            event for event in before if (event.stream, event.sequence) not in gap
        ]
        with pytest.raises(CorruptRecord, match="order/0, sequence 129"):
            list(journal.read("order/0", after=128))
        append(journal, "order/0", "goes on", expected=310)
        assert any("order/0" in problem for problem in journal.verify().problems)
    assert done.original is not None
    quarantine = [json.loads(line) for line in (done.original / "quarantine.jsonl").read_text().splitlines()]
    assert [one["what"] for one in quarantine] == ["order/0, sequences 129 to 256"]
    assert quarantine[0]["bytes"]
    with LmdbJournal(done.original, readonly=True) as original:
        assert original.verify().problems


def _readable(journal: LmdbJournal, stream: str) -> list[RecordedEvent]:
    """What can be read of a stream, also behind a gap."""
    found: list[RecordedEvent] = []
    after, end = 0, journal.head(stream).sequence
    while after < end:
        try:
            for event in journal.read(stream, after=after):
                found.append(event)
                after = event.sequence
        except CorruptRecord:
            after += 1
    return found


def test_a_damaged_end_is_taken_off_and_the_stream_goes_on(path: Path) -> None:
    change(path, "log", max, lambda value: flipped(value, -4))

    with LmdbJournal(path, readonly=True) as journal:
        assert journal.verify().problems
    done = repair(path)

    assert any("position" in text for text in done.quarantined)
    with LmdbJournal(path) as journal:
        assert journal.verify().problems == []
        assert appended(journal, "late/1") == ["a"]
        append(journal, "late/1", "more", expected=1)


def test_a_damaged_chunk_costs_its_event_alone(path: Path) -> None:
    change(path, "chunks", min, flipped)

    done = repair(path)

    assert any("chunk" in text for text in done.quarantined)
    with LmdbJournal(path) as journal:
        events = list(journal.read("large/1"))
        assert [len(event.canonical) < 100 for event in (events[0], events[2])] == [True, True]
        with pytest.raises(CorruptRecord, match="chunk"):
            _ = events[1].canonical
        assert len(appended(journal, "order/1")) == 310


def test_a_mark_of_what_is_sealed_that_does_not_match_its_checksum_is_noticed_and_made_again(path: Path) -> None:
    before = everything(path)
    change(path, "meta", lambda _: b"sealed", lambda value: flipped(value, -6))

    with pytest.raises(CorruptRecord, match="the mark of how far the journal is sealed"):
        LmdbJournal(path)
    with LmdbJournal(path, readonly=True) as journal:
        assert any("the mark of how far" in problem for problem in journal.verify().problems)
    repair(path)

    assert everything(path) == before


def test_repairing_twice_does_nothing_the_second_time(path: Path) -> None:
    change(path, "order", min, flipped)

    assert repair(path).original is not None
    assert repair(path).original is None


def test_nobody_may_write_while_a_journal_is_repaired(path: Path) -> None:
    with LmdbJournal(path), pytest.raises(JournalLocked):
        repair(path)


def test_what_lmdb_cannot_open_is_left_to_a_backup(path: Path) -> None:
    (path / "data.mdb").write_bytes(b"not a journal" * 1000)

    with pytest.raises(ForeignJournal, match="restore a backup"):
        repair(path)
