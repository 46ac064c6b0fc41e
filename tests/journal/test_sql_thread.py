"""The SQLite journal in one process: its thread, its readers and its end."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest

from clew.journal import AppendUnknown, Commit, JournalClosed, WrongExpectedSequence
from clew.journal.contract.subject import append, appended, in_threads, note
from clew.journal.sql import SqliteJournal, commits

MEBIBYTE = 1024 * 1024


def test_a_callback_may_append_and_close(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "journal.db") as journal:
        behind: list[Commit] = []

        def go_on(_: Commit) -> None:
            behind.append(journal.append("order/1", [note("b")], expected=1))
            journal.close()

        first = journal.append("order/1", [note("a")], expected=0)
        first.add_done_callback(go_on)
        first.wait()
        journal.close()

        assert behind[0].done
        assert behind[0].error is None

    with SqliteJournal(tmp_path / "journal.db") as journal:
        assert appended(journal, "order/1") == ["a", "b"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_signal_in_the_writer_closes_the_journal_and_strands_nobody(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "journal.db") as journal:
        closed, everything_waits = threading.Event(), threading.Event()
        journal.watch(closed.set, stream="order/9")

        def stand_still() -> None:
            everything_waits.wait(60)

        def leave() -> None:
            raise SystemExit

        journal.watch(stand_still, stream="order/0")
        stop = journal.watch(leave, stream="order/1")
        append(journal, "order/0", "the writer stands still behind this one")
        commits = [journal.append("order/1", [note("x" * MEBIBYTE)], expected=n) for n in range(20)]
        everything_waits.set()

        # The first transaction takes seven of them, and then the signal comes.
        for commit in commits[:7]:
            commit.wait(timeout_s=30)
        for commit in commits[7:]:
            with pytest.raises(AppendUnknown):
                commit.wait(timeout_s=30)
        stop()
        assert closed.wait(30)
        with pytest.raises(JournalClosed, match="stopped by a callback"):
            journal.append("order/1", [note("x")], expected=7)

    with SqliteJournal(tmp_path / "journal.db") as journal:
        assert journal.head("order/1").sequence == 7


def test_a_journal_that_nobody_holds_is_closed(tmp_path: Path) -> None:
    commit = SqliteJournal(tmp_path / "journal.db").append("order/1", [note("a")], expected=0)
    gc.collect()

    with SqliteJournal(tmp_path / "journal.db") as journal:
        assert commit.error is None
        assert appended(journal, "order/1") == ["a"]


def test_what_is_still_being_read_keeps_its_journal_open(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "journal.db") as journal:
        append(journal, "order/1", *(str(n) for n in range(1000)))
    del journal

    reading = SqliteJournal(tmp_path / "journal.db").read("order/1")
    gc.collect()

    assert sum(1 for _ in reading) == 1000
    del reading
    gc.collect()
    cells = SqliteJournal(tmp_path / "journal.db").cells
    gc.collect()
    assert cells.get(b"cell") is None


def test_an_iterator_begun_before_the_end_says_that_the_journal_is_closed(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "journal.db") as journal:
        append(journal, "order/1", *(str(n) for n in range(1000)))
        append(journal, "order/2", "x" * 100_000)
        readings = [journal.read("order/1"), journal.read_all()]
        large = next(journal.read("order/2"))
        for reading in readings:
            next(reading)

    for reading in readings:
        with pytest.raises(JournalClosed):
            list(reading)
    with pytest.raises(JournalClosed):
        _ = large.canonical


def test_readers_do_not_wait_for_the_writer(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "journal.db") as journal:
        append(journal, "order/1", "a")
        read = threading.Event()

        def stand_still() -> None:
            read.wait(60)

        journal.watch(stand_still, stream="order/2")
        commit = journal.append("order/2", [note("the writer stands still behind this one")], expected=0)
        commit.wait(timeout_s=60)
        behind = journal.append("order/1", [note("b")], expected=1)

        found: list[list[str]] = []
        in_threads([lambda: found.append(appended(journal, "order/1")) for _ in range(20)])
        assert found == [["a"]] * 20
        assert not behind.done
        read.set()
        behind.wait(timeout_s=60)


def test_streams_that_were_forgotten_are_looked_up_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(commits, "STREAMS_MAX", 10)
    with SqliteJournal(tmp_path / "journal.db") as journal:

        def work(n: int) -> None:
            for k in range(60):
                append(journal, f"order/{n}-{k % 20}", f"{k // 20}", expected=k // 20)

        in_threads([lambda n=n: work(n) for n in range(4)])

        assert len(list(journal.streams())) == 80
        assert all(appended(journal, head.stream) == ["0", "1", "2"] for head in journal.streams())
        with pytest.raises(WrongExpectedSequence):
            append(journal, "order/0-0", "x", expected=2)
