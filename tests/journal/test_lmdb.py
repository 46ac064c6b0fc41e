"""The LMDB journal in one process: its map, its batches, its thread and its end."""

from __future__ import annotations

import asyncio
import gc
import threading
from functools import partial
from itertools import chain, count
from pathlib import Path

import lmdb
import pytest

from clew.journal import AppendUnknown, CellWrite, Commit, JournalClosed, RecordedEvent
from clew.journal.contract.subject import append, appended, in_threads, noise, note
from clew.journal.lmdb import LmdbJournal

MEBIBYTE = 1024 * 1024


@pytest.mark.scenario("JRN-01")
def test_the_map_grows_under_readers_that_are_not_disturbed(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path, map_bytes=256 * 1024) as journal:
        small = journal.stats().map_bytes
        done = threading.Event()

        def read_for_ever() -> None:
            while not done.is_set():
                events = [event.sequence for event in journal.read("order/1")]
                assert events == list(range(1, len(events) + 1))
                everything = [event.position for event in journal.read_all()]
                assert everything == sorted(set(everything))
                list(journal.cells.scan(b""))

        def write() -> None:
            try:
                cells = [CellWrite(b"cell", b"y" * 100_000)]
                commits = [
                    journal.append("order/1", [note("x" * 2000)], expected=n, cells=cells[n % 500 :])
                    for n in range(2000)
                ]
                for commit in commits:
                    commit.wait(timeout_s=60)
            finally:
                done.set()

        in_threads([write, read_for_ever, read_for_ever, read_for_ever])

        assert [event.sequence for event in journal.read("order/1")] == list(range(1, 2001))
        assert journal.verify().problems == []
        assert journal.stats().map_bytes > small


def test_a_read_that_was_begun_goes_on_over_a_growing_map(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path, map_bytes=65536) as journal:
        append(journal, "order/1", *(str(n) for n in range(1000)))
        reading = journal.read("order/1")
        first = next(reading)

        append(journal, "order/2", noise(5 * MEBIBYTE))

        assert journal.stats().map_bytes > 5 * MEBIBYTE
        assert [event.sequence for event in (first, *reading)] == list(range(1, 1001))


def test_a_reader_that_stands_still_does_not_hold_up_the_writer(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path, map_bytes=65536) as journal:
        append(journal, "order/1", *(str(n) for n in range(1000)))
        standing = [journal.read("order/1"), journal.read_all()]
        cells = journal.cells.scan(b"")
        for reading in standing:
            next(reading)

        append(journal, "order/2", noise(5 * MEBIBYTE))

        assert [sum(1 for _ in reading) for reading in standing] == [999, 999]
        assert list(cells) == []


def test_a_thread_that_reads_without_a_pause_keeps_nobody_from_appending(tmp_path: Path) -> None:
    # It gives up the interpreter's lock so often, and for so short a time, that nobody else would ever get it.
    with LmdbJournal(tmp_path) as journal:
        append(journal, "order/1", *(str(n) for n in range(1000)))
        done, laps = threading.Event(), list[int]()

        def read() -> None:
            while not done.is_set():
                laps.append(sum(1 for _ in journal.read("order/1")))

        reading = threading.Thread(target=read)
        reading.start()
        for n in range(30):
            append(journal, "order/2", "x", expected=n)
        done.set()
        reading.join(60)

        assert set(laps) == {1000}


def test_what_waits_is_written_in_transactions_of_bounded_size(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path) as journal:
        everything_waits = threading.Event()

        def stand_still() -> None:
            everything_waits.wait(60)

        journal.watch(stand_still, stream="order/0")
        append(journal, "order/0", "the writer stands still behind this one")
        commits = [journal.append("order/1", [note("x" * 60_000)], expected=n) for n in range(300)]
        commits.append(journal.append("order/2", [note("y" * 60_000)] * 200, expected=0))
        commits.append(journal.append("order/3", [note("small")], expected=0))
        everything_waits.set()
        for commit in commits:
            commit.wait(timeout_s=60)
        assert journal.stats().events == 502

    counts = [len(value) // 60_000 for value in log_values(tmp_path)]
    # One append is never torn, and keeps its transaction to itself.
    assert counts == [0, 139, 139, 22, 200, 0]


def test_an_event_costs_at_most_48_bytes_over_its_own_and_its_cause(tmp_path: Path) -> None:
    event = note("x", cause="command-1")
    with LmdbJournal(tmp_path) as journal:
        journal.append("order/" + "é" * 900, [event] * 100, expected=0).wait()

    (value,) = log_values(tmp_path)
    assert len(value) <= 8 + 100 * (48 + len(event.cause) + len(event.canonical))


def log_values(path: Path) -> list[bytes]:
    """What the log of a closed journal holds."""
    with lmdb.open(str(path), readonly=True, max_dbs=9, lib_version=0) as env:
        log = env.open_db(b"log", create=False)
        with env.begin(db=log) as txn:
            return [value for _, value in txn.cursor()]


def test_a_commit_resolves_only_when_its_events_can_be_read(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    with LmdbJournal(tmp_path) as journal:
        commit = journal.append("order/1", [note("a")], expected=0)
        commit.add_done_callback(lambda _: seen.append(appended(journal, "order/1")))
        commit.wait()

        append(journal, "order/1", "b")

    assert seen == [["a"]]


def test_a_callback_may_append_and_close(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path) as journal:
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

    with LmdbJournal(tmp_path) as journal:
        assert appended(journal, "order/1") == ["a", "b"]


def test_a_callback_may_close_a_journal_that_is_being_sealed(tmp_path: Path) -> None:
    for _ in range(20):
        with LmdbJournal(tmp_path, seal_after=1) as journal:
            closed = threading.Event()
            journal.watch(lambda journal=journal, closed=closed: closed.set() if journal.closed else None)
            end = journal.head("order/1").sequence
            commits = [journal.append("order/1", [note("x")] * 50, expected=end + 50 * n) for n in range(10)]
            commits[-1].add_done_callback(lambda _, journal=journal: journal.close())
            assert closed.wait(60)
    with LmdbJournal(tmp_path) as journal:
        assert journal.head("order/1").sequence == 20 * 500
        assert journal.verify().problems == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_signal_in_the_writer_closes_the_journal_and_strands_nobody(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path) as journal:
        closed, everything_waits = threading.Event(), threading.Event()
        journal.watch(closed.set, stream="order/9")

        def stand_still() -> None:
            everything_waits.wait(60)

        def leave() -> None:
            raise SystemExit

        journal.watch(stand_still, stream="order/0")
        stop = journal.watch(leave, stream="order/1")
        append(journal, "order/0", "the writer stands still behind this one")
        commits = [journal.append("order/1", [note("x" * 60_000)], expected=n) for n in range(300)]
        everything_waits.set()

        # The first transaction takes so many of them, and then the signal comes.
        for commit in commits[:139]:
            commit.wait(timeout_s=30)
        for commit in commits[139:]:
            with pytest.raises(AppendUnknown):
                commit.wait(timeout_s=30)
        stop()
        assert closed.wait(30)
        with pytest.raises(JournalClosed, match="stopped by a callback"):
            journal.append("order/1", [note("x")], expected=139)

    with LmdbJournal(tmp_path) as journal:
        assert journal.head("order/1").sequence == 139


async def test_many_tasks_that_wait_are_all_woken(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path) as journal:

        async def work(n: int) -> None:
            for k in range(20):
                await journal.append(f"order/{n}", [note("x")], expected=k)

        await asyncio.gather(*(work(n) for n in range(50)))

        assert journal.stats() == journal.stats()._replace(events=1000, streams=50)


def test_a_journal_that_nobody_holds_is_closed(tmp_path: Path) -> None:
    commit = LmdbJournal(tmp_path).append("order/1", [note("a")], expected=0)
    gc.collect()

    with LmdbJournal(tmp_path) as journal:
        assert commit.error is None
        assert appended(journal, "order/1") == ["a"]


def test_what_is_still_being_read_keeps_its_journal_open(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path) as journal:
        append(journal, "order/1", *(str(n) for n in range(1000)))
    del journal

    reading, cells = LmdbJournal(tmp_path).read("order/1"), None
    gc.collect()

    assert sum(1 for _ in reading) == 1000
    del reading
    gc.collect()
    cells = LmdbJournal(tmp_path).cells
    gc.collect()
    assert cells.get(b"cell") is None


def test_an_iterator_begun_before_the_end_says_that_the_journal_is_closed(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path) as journal:
        append(journal, "order/1", *(str(n) for n in range(1000)))
        reading = journal.read("order/1")
        next(reading)

    with pytest.raises(JournalClosed):
        list(reading)


def test_two_readers_of_a_closing_journal_are_let_out(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path) as journal:
        append(journal, "order/1", *(str(n) for n in range(1000)))
        begun = threading.Barrier(3)

        def read_until_closed() -> None:
            begun.wait(30)
            with pytest.raises(JournalClosed):
                list(chain.from_iterable(journal.read("order/1") for _ in count()))

        def close() -> None:
            begun.wait(30)
            journal.close()

        in_threads([read_until_closed, read_until_closed, close])


def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'commit' or 'relaxed'"):
        LmdbJournal(tmp_path / "journal", durability="none")  # pyright: ignore[reportArgumentType]

    assert not (tmp_path / "journal").exists()


def test_relaxed_and_full_durability_write_the_same_journal(tmp_path: Path) -> None:
    found: list[list[RecordedEvent]] = []
    for durability in ("commit", "relaxed"):
        opener = partial(LmdbJournal, tmp_path / durability, clock=lambda: 1, durability=durability)
        with opener() as journal:
            for n in range(50):
                append(journal, f"order/{n % 3}", str(n))
        with opener() as journal:
            found.append(list(journal.read_all()))
            assert journal.verify().problems == []

    assert found[0] == found[1]
    assert len(found[0]) == 50
