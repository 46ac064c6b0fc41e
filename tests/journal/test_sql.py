"""The SQL journal: within the limits of a Durable Object, without threads, in groups, and in the hands of failures."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from clew.journal import (
    CHUNK_BYTES_MAX,
    AppendUnknown,
    CellConflict,
    CellWrite,
    Commit,
    ForeignJournal,
    Journal,
    JournalClosed,
    JournalFull,
    MemoryJournal,
    StreamDeleted,
)
from clew.journal.contract.subject import append, appended, delete, note
from clew.journal.lmdb import LmdbJournal
from clew.journal.sql import NoRoom, SqliteJournal, SqlJournal
from clew.journal.sql.thread import WriterThread
from tests.journal.object_storage import PARAMETERS_MAX, ObjectStorage

MEBIBYTE = 1024 * 1024


@pytest.mark.scenario("JRN-14")
def test_values_beyond_what_an_object_can_hold_are_cut_and_joined(tmp_path: Path) -> None:
    storage = ObjectStorage()
    text, snapshot = "y" * 7_000_000, bytes(range(256)) * 30_000
    journal = SqlJournal(storage)
    append(journal, "thread/t", "small", text)
    journal.cells.write([CellWrite(b"snapshot", snapshot)]).wait()

    evicted = SqlJournal(storage)

    assert appended(evicted, "thread/t") == ["small", text]
    assert evicted.cells.get(b"snapshot") == snapshot
    assert list(evicted.cells.scan(b"snap")) == [(b"snapshot", snapshot)]
    # A snapshot that cannot be saved stands in nobody's way.
    failed = evicted.cells.write([CellWrite(b"snapshot", snapshot, expected=b"another")])
    append(evicted, "thread/t", "more", expected=2)
    with pytest.raises(CellConflict):
        failed.wait()
    assert evicted.verify().problems == []
    assert storage.value_bytes <= CHUNK_BYTES_MAX


def test_no_statement_has_more_parameters_than_an_object_takes() -> None:
    storage = ObjectStorage()
    journal = SqlJournal(storage)

    journal.append("order/1", [note(str(n)) for n in range(1000)], expected=0).wait()
    journal.append("order/2", [note(f"{n}" + "x" * 100_000) for n in range(150)], expected=0).wait()
    journal.cells.write([CellWrite(b"%d" % n, b"x" * n) for n in range(1000)]).wait()
    journal.cells.write([CellWrite(b"%d" % n, None if n % 2 else b"y") for n in range(1000)]).wait()
    delete(journal, "order/2", 150)

    assert len(list(journal.read_all())) == 1000
    assert len(list(journal.cells.scan(b""))) == 500
    # It comes near, so that few statements are enough; the storage refuses what is beyond.
    assert PARAMETERS_MAX * 0.9 < storage.parameters <= PARAMETERS_MAX
    assert storage.value_bytes <= CHUNK_BYTES_MAX


def test_without_threads_a_commit_is_done_when_the_call_returns() -> None:
    threads = threading.enumerate()
    journal = SqlJournal(ObjectStorage())

    done = [
        journal.append("order/1", [note("a")], expected=0),
        journal.cells.write([CellWrite(b"cell", b"1")]),
        journal.delete("order/1", expected=1),
    ]

    assert [(commit.done, commit.error) for commit in done] == [(True, None)] * 3
    assert threading.enumerate() == threads


def test_what_is_appended_while_others_are_told_comes_behind_and_may_go_on_for_long() -> None:
    journal = SqlJournal(ObjectStorage())
    behind: list[Commit] = []
    at_once: list[bool] = []

    def go_on() -> None:
        if (sequence := journal.head("order/1").sequence) < 2000:
            behind.append(journal.append("order/1", [note("x")], expected=sequence))
            at_once.append(behind[-1].done)

    journal.watch(go_on, stream="order/1")
    append(journal, "order/1", "x")

    assert journal.head("order/1").sequence == 2000
    assert all(commit.done and commit.error is None for commit in behind)
    assert not any(at_once)


def test_a_transaction_that_does_not_fit_changes_nothing_and_the_journal_goes_on() -> None:
    storage = ObjectStorage()
    journal = SqlJournal(storage)
    append(journal, "order/1", "a")
    append(journal, "order/2", "b")

    for work in (
        lambda: journal.append("order/1", [note("x" * 100_000)], expected=1, cells=[CellWrite(b"cell", b"1")]),
        lambda: journal.append("order/3", [note("x")], expected=0),
        lambda: journal.delete("order/2", expected=1),
        lambda: journal.cells.write([CellWrite(b"cell", b"1")]),
    ):
        storage.failure = NoRoom("the disk is full")
        with pytest.raises(JournalFull, match="nothing of it was written"):
            work().wait()

    assert [head.stream for head in journal.streams()] == ["order/1", "order/2"]
    assert journal.cells.get(b"cell") is None
    append(journal, "order/1", "c", expected=1)
    append(journal, "order/2", "d", expected=1)
    append(journal, "order/3", "e", expected=0)
    assert [appended(journal, f"order/{n}") for n in (1, 2, 3)] == [["a", "c"], ["b", "d"], ["e"]]
    assert journal.verify().problems == []


def test_a_new_beginning_that_does_not_fit_leaves_the_stream_deleted() -> None:
    storage = ObjectStorage()
    journal = SqlJournal(storage)
    append(journal, "order/1", "a")
    delete(journal, "order/1", 1)

    storage.failure = NoRoom("the disk is full")
    with pytest.raises(JournalFull):
        journal.append("order/1", [note("b")], expected=0, revive=True).wait()

    assert journal.head("order/1").deleted
    with pytest.raises(StreamDeleted):
        append(journal, "order/1", "c", expected=1)
    journal.append("order/1", [note("d")], expected=0, revive=True).wait()
    assert appended(journal, "order/1") == ["d"]


def test_any_other_failure_leaves_the_answer_open_and_ends_the_journal() -> None:
    storage = ObjectStorage()
    journal = SqlJournal(storage)
    told: list[bool] = []
    journal.watch(lambda: told.append(journal.closed))
    append(journal, "order/1", "a")

    storage.failure = OSError("the disk was pulled out")
    with pytest.raises(AppendUnknown, match="order/1 failed and may or may not be on disk"):
        append(journal, "order/1", "b")

    with pytest.raises(JournalClosed, match="a write failed: the disk was pulled out"):
        journal.append("order/1", [note("b")], expected=1)
    assert told == [False, True]
    assert appended(SqlJournal(storage), "order/1") == ["a"]


def test_what_waits_is_one_transaction_of_bounded_size() -> None:
    storage = ObjectStorage()
    with SqlJournal(storage, runner=WriterThread) as journal:
        everything_waits = threading.Event()

        def stand_still() -> None:
            everything_waits.wait(60)

        journal.watch(stand_still, stream="order/0")
        append(journal, "order/0", "the writer stands still behind this one")
        before = storage.transactions
        commits = [journal.append(f"order/{n % 7 + 1}", [note("x")], expected=n // 7) for n in range(500)]
        commits += [journal.append("order/8", [note("x" * MEBIBYTE)], expected=n) for n in range(20)]
        commits += [journal.append("order/9", [note("y" * MEBIBYTE)] * 12, expected=0)]
        everything_waits.set()
        for commit in commits:
            commit.wait(timeout_s=60)

        # 500 small ones with the first 7 large ones, 7, 6, and one append that is never torn.
        assert storage.transactions - before == 4


def test_a_large_value_is_stored_once_read_when_asked_for_and_removed_with_its_last_event() -> None:
    storage = ObjectStorage()
    journal = SqlJournal(storage)
    for stream in ("order/1", "order/2"):
        append(journal, stream, "x" * 100_000, "x" * 100_000)

    assert chunks(storage) == 1
    before = storage.value_bytes
    events = list(journal.read("order/1"))
    assert storage.value_bytes == before == 100_000 + 2
    storage.value_bytes = 0
    assert [event.type.name for event in journal.read("order/2")] == ["contract.noted"] * 2
    assert storage.value_bytes < 1000
    assert len(events[0].canonical) > 100_000
    assert storage.value_bytes > 100_000

    delete(journal, "order/1", 2)
    assert chunks(storage) == 1
    delete(journal, "order/2", 2)
    assert chunks(storage) == 0
    with pytest.raises(StreamDeleted):
        _ = events[1].canonical


def chunks(storage: ObjectStorage) -> int:
    count: int = storage.db.execute("SELECT count(*) FROM clew_chunks").fetchone()[0]
    return count


def test_tables_of_a_newer_layout_are_refused_and_left_alone() -> None:
    storage = ObjectStorage()
    SqlJournal(storage)
    storage.db.execute("UPDATE clew_meta SET value = '99'")

    with pytest.raises(ForeignJournal, match="layout 99, this one knows 1"):
        SqlJournal(storage)


def test_a_users_own_tables_may_stand_beside_the_journals() -> None:
    storage = ObjectStorage()
    storage.db.execute("CREATE TABLE events (mine TEXT)")

    append(SqlJournal(storage), "order/1", "a")

    assert appended(SqlJournal(storage), "order/1") == ["a"]


def test_every_journal_comes_to_the_same_digests(tmp_path: Path) -> None:
    journals: list[Journal] = [
        MemoryJournal(),
        SqlJournal(ObjectStorage()),
        SqliteJournal(tmp_path / "journal.db"),
        LmdbJournal(tmp_path / "journal"),
    ]
    for journal in journals:
        append(journal, "order/1", "a", "é" * 100_000, "b")
        append(journal, "order/2", "c")

    heads = [list(journal.streams()) for journal in journals]
    for journal in journals:
        journal.close()
    assert heads == [heads[0]] * 4
