"""The LMDB journal among processes: one writes, others read, some are killed and some are forks."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from clew.journal import JournalError, JournalLocked, ReadOnlyJournal
from clew.journal.contract.subject import append, appended, noise
from clew.journal.lmdb import LmdbJournal
from tests.journal.process import SCRIPT, Refused, process


@pytest.mark.scenario("CON-01")
def test_a_second_writing_process_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    with process() as first, process() as second:
        first.call("open", str(tmp_path), {})
        assert first.call("append", "order/1", ["a"], 0) == 1

        with pytest.raises(Refused) as caught:
            second.call("open", str(tmp_path), {})

        assert caught.value.facts["error"] == "JournalLocked"
        assert caught.value.facts["pid"] == first.popen.pid
        assert caught.value.facts["program"] == str(SCRIPT)
        assert f"process {first.popen.pid} ({SCRIPT}) is writing" in str(caught.value)
        assert first.call("append", "order/1", ["b"], 1) == 2
        second.call("open", str(tmp_path), {"readonly": True})
        assert second.call("texts", "order/1") == ["a", "b"]


def test_a_killed_writer_leaves_no_lock(tmp_path: Path) -> None:
    with process() as first:
        first.call("open", str(tmp_path), {})
        first.call("append", "order/1", ["a"], 0)
        first.kill()

    with LmdbJournal(tmp_path) as journal:
        append(journal, "order/1", "b", expected=1)
        assert appended(journal, "order/1") == ["a", "b"]


@pytest.mark.parametrize("readonly", [False, True])
def test_a_process_opens_a_journal_once_and_a_second_try_does_not_lift_the_lock(readonly: bool, tmp_path: Path) -> None:
    with LmdbJournal(tmp_path) as journal, process() as other:
        with pytest.raises(JournalLocked, match=r"this process .* has the journal open already") as caught:
            LmdbJournal(tmp_path, readonly=readonly)
        assert caught.value.pid == os.getpid()

        # Were the lock a thing of the file handle, the failed try would have let it go.
        with pytest.raises(Refused, match="is writing to this journal"):
            other.call("open", str(tmp_path), {})
        append(journal, "order/1", "a")

    with LmdbJournal(tmp_path, readonly=readonly) as journal:
        assert appended(journal, "order/1") == ["a"]


def test_the_same_directory_by_another_name_is_the_same_journal(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "journal")

    with LmdbJournal(tmp_path / "journal"), pytest.raises(JournalLocked):
        LmdbJournal(tmp_path / "link")


@pytest.mark.scenario("JRN-04")
def test_a_reading_process_follows_a_map_that_another_has_grown(tmp_path: Path) -> None:
    with process() as writer:
        writer.call("open", str(tmp_path), {"map_bytes": 1024 * 1024})
        writer.call("append", "order/1", ["a"] * 600, 0)

        with LmdbJournal(tmp_path, readonly=True, map_bytes=1024 * 1024) as journal:
            small = journal.stats().map_bytes
            reading = journal.read("order/1")
            next(reading)

            for n in range(3):
                writer.call("append", "order/2", [noise(1024 * 1024, n)], n)

            assert sum(1 for _ in reading) == 599
            assert len(appended(journal, "order/2")) == writer.call("count", "order/2") == 3
            assert journal.head("order/2").sequence == 3
            assert journal.stats().map_bytes > small
            assert journal.verify().problems == []


def test_a_reading_handle_sees_what_another_process_appends(tmp_path: Path) -> None:
    with process() as writer:
        writer.call("open", str(tmp_path), {})
        writer.call("append", "order/1", ["a"], 0)
        with LmdbJournal(tmp_path, readonly=True) as journal:
            assert appended(journal, "order/1") == ["a"]
            as_of_the_call = journal.read_all()

            writer.call("append", "order/1", ["b"], 1)
            writer.call("append", "order/2", ["c"], 0)

            assert appended(journal, "order/1") == ["a", "b"]
            assert [head.stream for head in journal.streams()] == ["order/1", "order/2"]
            assert len(list(as_of_the_call)) == 1
            with pytest.raises(ReadOnlyJournal):
                append(journal, "order/1", "c")
            with pytest.raises(ReadOnlyJournal):
                journal.cells.write([])


def test_a_reading_handle_tells_its_watches_of_another_process(tmp_path: Path) -> None:
    with process() as writer:
        writer.call("open", str(tmp_path), {})
        writer.call("append", "order/1", ["a"], 0)
        journal = LmdbJournal(tmp_path, readonly=True, poll_s=0.01)
        grown, others, closed = threading.Event(), threading.Event(), threading.Event()
        stops = [journal.watch(grown.set, stream="order/2"), journal.watch(others.set, stream="order/1")]
        # A read that comes first must not swallow the news.
        assert appended(journal, "order/2") == []

        writer.call("append", "order/2", ["b"], 0)
        list(journal.read_all())

        assert grown.wait(30)
        assert not others.is_set()
        for stop in stops:
            stop()
        journal.watch(closed.set)
        journal.close()
        assert closed.wait(30)


@pytest.mark.scenario("JRN-02")
def test_slots_of_killed_readers_are_cleared_when_a_journal_is_opened(tmp_path: Path) -> None:
    LmdbJournal(tmp_path, max_readers=8).close()

    # Where nobody else has the journal open, LMDB begins a new table; so somebody has.
    with process() as living:
        assert living.call("hold_readers", str(tmp_path), 1) == 1
        for readonly in (False, True):
            with process() as dying:
                assert dying.call("hold_readers", str(tmp_path), 5) == 5
                dying.kill()
                assert dying.popen.pid in living.call("processes_with_slots")

            with LmdbJournal(tmp_path, readonly=readonly) as journal:
                assert dying.popen.pid not in living.call("processes_with_slots")
                assert appended(journal, "order/1") == []


@pytest.mark.scenario("JRN-02")
def test_whoever_writes_clears_slots_for_those_who_cannot_even_open_the_journal(tmp_path: Path) -> None:
    with process() as writer, process() as dying:
        writer.call("open", str(tmp_path), {"max_readers": 8})
        assert 4 < dying.call("hold_readers", str(tmp_path), 20) < 20
        dying.kill()

        with LmdbJournal(tmp_path, readonly=True) as journal:
            assert appended(journal, "order/1") == []


def test_too_many_living_readers_are_named_as_the_reason(tmp_path: Path) -> None:
    LmdbJournal(tmp_path, max_readers=8).close()

    with process() as living:
        assert living.call("hold_readers", str(tmp_path), 20) == 8
        with pytest.raises(JournalError, match="all reader slots are taken by other processes"):
            LmdbJournal(tmp_path, max_readers=8)


@pytest.mark.scenario("JRN-02")
def test_slots_of_killed_readers_are_cleared_when_the_table_is_full(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path, max_readers=8, map_bytes=65536) as journal, process() as one, process() as two:
        append(journal, "order/1", "a")
        one.call("hold_readers", str(tmp_path), 20)
        # The journal keeps a slot for its next read, and gives it up when it moves its map: then somebody takes it.
        append(journal, "order/1", noise(200_000))
        two.call("hold_readers", str(tmp_path), 20)
        one.kill()
        two.kill()

        assert [len(text) for text in appended(journal, "order/1")] == [1, 200_000]


@pytest.mark.scenario("JRN-05")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_is_refused_everything_and_its_parent_is_unharmed(tmp_path: Path) -> None:
    with process() as parent, process() as other:
        parent.call("open", str(tmp_path), {})
        parent.call("append", "order/1", ["a"], 0)

        outcomes = parent.call("fork")

        assert outcomes.pop("exit") == 0
        assert outcomes.pop("close") == "done"
        assert set(outcomes.values()) == {"JournalForked"}
        assert parent.call("append", "order/1", ["b"], 1) == 2
        assert parent.call("texts", "order/1") == ["a", "b"]
        with pytest.raises(Refused, match="is writing to this journal"):
            other.call("open", str(tmp_path), {})


def test_a_process_may_end_with_its_journal_open(tmp_path: Path) -> None:
    with process() as leaving:
        leaving.call("open", str(tmp_path), {})
        leaving.send("leave_open")
        assert leaving.answer() == 1
        assert leaving.popen.wait(timeout=30) == 7

    with LmdbJournal(tmp_path) as journal:
        assert appended(journal, "order/1") == ["the last that is acknowledged"]
        assert journal.verify().problems == []


def test_the_lock_file_names_its_holder_for_those_who_look(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path):
        held = (tmp_path / "writer.lock").read_text()

    assert f'"pid":{os.getpid()}' in held
    assert sys.argv[0] in held
