"""The SQLite journal among processes: one writes, others read, some are killed and some are forks."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from clew.journal import JournalLocked, ReadOnlyJournal, StreamDeleted
from clew.journal.contract.subject import append, appended, delete
from clew.journal.sql import SqliteJournal
from tests.journal.process import SCRIPT, Refused, process
from tests.journal.test_kill import Survivors, run_and_kill

KILLS = 25


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.mark.crash
@pytest.mark.scenario("JRN-08")
def test_nothing_acknowledged_is_lost_and_nothing_is_torn_by_kills_at_random_moments(path: Path) -> None:
    moments = random.Random(21)
    survivors = Survivors()

    for kill in range(KILLS):
        # The first ones hit the creation of the journal.
        acknowledged = run_and_kill(path, 0 if kill < 4 else moments.randrange(60), {})

        with SqliteJournal(path) as journal:
            survivors.check(journal, acknowledged)
            if kill % 5 == 4:
                assert journal.verify().problems == []

    assert sum(sequence for sequence, _ in survivors.ends.values()) > KILLS * 10


@pytest.mark.scenario("CON-01")
def test_a_second_writing_process_is_refused_and_told_who_writes(path: Path) -> None:
    with process() as first, process() as second:
        first.call("open", str(path), {})
        assert first.call("append", "order/1", ["a"], 0) == 1

        with pytest.raises(Refused) as caught:
            second.call("open", str(path), {})

        assert caught.value.facts["error"] == "JournalLocked"
        assert caught.value.facts["pid"] == first.popen.pid
        assert caught.value.facts["program"] == str(SCRIPT)
        assert first.call("append", "order/1", ["b"], 1) == 2
        second.call("open", str(path), {"readonly": True})
        assert second.call("texts", "order/1") == ["a", "b"]


@pytest.mark.parametrize("readonly", [False, True])
def test_a_process_opens_a_journal_once_and_a_second_try_does_not_lift_the_lock(readonly: bool, path: Path) -> None:
    with SqliteJournal(path) as journal, process() as other:
        with pytest.raises(JournalLocked, match=r"this process .* has the journal open already") as caught:
            SqliteJournal(path, readonly=readonly)
        assert caught.value.pid == os.getpid()

        # Were the lock a thing of the file handle, the failed try would have let it go.
        with pytest.raises(Refused, match="is writing to this journal"):
            other.call("open", str(path), {})
        append(journal, "order/1", "a")

    with SqliteJournal(path, readonly=readonly) as journal:
        assert appended(journal, "order/1") == ["a"]


def test_a_killed_writer_leaves_no_lock(path: Path) -> None:
    with process() as first:
        first.call("open", str(path), {})
        first.call("append", "order/1", ["a"], 0)
        first.kill()

    with SqliteJournal(path) as journal:
        append(journal, "order/1", "b", expected=1)
        assert appended(journal, "order/1") == ["a", "b"]


def test_a_reading_handle_sees_what_another_process_appends(path: Path) -> None:
    with process() as writer:
        writer.call("open", str(path), {})
        writer.call("append", "order/1", ["a"], 0)

        with SqliteJournal(path, readonly=True) as journal:
            as_of_the_call = journal.read_all()
            writer.call("append", "order/1", ["b", "x" * 300_000], 1)
            writer.call("append", "order/2", ["c"], 0)

            assert appended(journal, "order/1") == ["a", "b", "x" * 300_000]
            assert [head.stream for head in journal.streams()] == ["order/1", "order/2"]
            assert len(list(as_of_the_call)) == 1
            assert journal.verify().problems == []
            assert journal.stats().events == 4
            with pytest.raises(ReadOnlyJournal):
                append(journal, "order/1", "d", expected=3)
            with pytest.raises(ReadOnlyJournal):
                journal.delete("order/1", expected=3)
            with pytest.raises(ReadOnlyJournal):
                journal.cells.write([])


def test_a_journal_that_a_killed_process_left_can_be_read(path: Path) -> None:
    with process() as writer:
        writer.call("open", str(path), {})
        writer.call("append", "order/1", ["a"], 0)
        writer.kill()

    with SqliteJournal(path, readonly=True) as journal:
        assert appended(journal, "order/1") == ["a"]


def test_a_reading_handle_tells_its_watches_of_another_process(path: Path) -> None:
    with process() as writer:
        writer.call("open", str(path), {})
        writer.call("append", "order/1", ["a"], 0)
        writer.call("append", "order/3", ["a"], 0)
        journal = SqliteJournal(path, readonly=True, poll_s=0.01)
        grown, deleted, others, closed = (threading.Event() for _ in range(4))
        watched = {"order/2": grown, "order/3": deleted, "order/1": others}
        stops = [journal.watch(told.set, stream=stream) for stream, told in watched.items()]

        writer.call("append", "order/2", ["b"], 0)
        assert grown.wait(30)
        writer.call("delete", "order/3", 1)
        assert deleted.wait(30)

        assert not others.is_set()
        with pytest.raises(StreamDeleted):
            journal.read("order/3")
        for stop in stops:
            stop()
        journal.watch(closed.set)
        journal.close()
        assert closed.wait(30)


@pytest.mark.scenario("JRN-05")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize("readonly", [False, True])
def test_a_fork_is_refused_everything_and_its_parent_is_unharmed(readonly: bool, path: Path) -> None:
    with SqliteJournal(path) as journal:
        append(journal, "order/1", "a")

    with process() as parent, process() as other:
        parent.call("open", str(path), {"readonly": readonly})

        outcomes = parent.call("fork")

        assert outcomes.pop("exit") == 0
        assert outcomes.pop("close") == "done"
        assert set(outcomes.values()) == {"JournalForked"}
        assert parent.call("texts", "order/1") == ["a"]
        if readonly:
            return
        assert parent.call("append", "order/1", ["b"], 1) == 2
        assert parent.call("problems") == []
        with pytest.raises(Refused, match="is writing to this journal"):
            other.call("open", str(path), {})


def test_a_process_may_end_with_its_journal_open(path: Path) -> None:
    with process() as leaving:
        leaving.call("open", str(path), {})
        leaving.send("leave_open")
        assert leaving.answer() == 1
        assert leaving.popen.wait(timeout=30) == 7

    with SqliteJournal(path) as journal:
        assert appended(journal, "order/1") == ["the last that is acknowledged"]
        assert journal.verify().problems == []


def test_the_end_of_a_reading_process_does_not_disturb_the_writer(path: Path) -> None:
    with SqliteJournal(path) as journal, process() as reader:
        append(journal, "order/1", "a")
        reader.call("open", str(path), {"readonly": True})
        reader.call("close")
        append(journal, "order/1", "b")
        reader.kill()
        append(journal, "order/1", "c")
        delete(journal, "order/1", 3)

    with SqliteJournal(path) as journal:
        assert journal.head("order/1").deleted
