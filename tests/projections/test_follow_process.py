"""Followers in a process of their own see what another one writes, and rows that it has kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.journal.lmdb import LmdbJournal
from clew.projections import DurableProjection, Follow, LiveRows, fold_rows
from tests.journal.process import process
from tests.projections.folding import NOTES, append
from tests.projections.notes import Reader


@pytest.mark.parametrize("options", [{"stream": "note/a"}, {"category": "note"}, {}])
def test_a_follower_in_another_process_sees_what_is_appended(options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with process() as writer:
        writer.call("open", str(path), {})
        writer.call("append", "note/a", ["1", "2"], 0)
        with LmdbJournal(path, readonly=True, poll_s=0.01) as journal:
            reader = Reader(Follow(journal, **options))
            assert reader.next(2) == [1, 2]
            for sequence in range(3, 6):
                writer.call("append", "note/a", ["more"], sequence - 1)
                assert reader.next() == [sequence]

            writer.call("close")
            journal.close()
            assert reader.next() == ["ended"]
            reader.join()


def test_a_process_that_only_reads_folds_what_the_writer_has_not_kept_yet(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with LmdbJournal(path) as journal:
        append(journal, "note/a", 3)
        DurableProjection(journal, NOTES).catch_up()
        append(journal, "note/b", 2)

    with process() as writer:
        writer.call("open", str(path), {})
        with LmdbJournal(path, readonly=True) as reader:
            writer.call("append", "note/a", ["more"], 3)

            assert dict(fold_rows(reader, NOTES).scan()) == {"note/a": 4, "note/b": 2}


@pytest.mark.crash
def test_a_process_that_is_killed_while_it_folds_has_counted_each_event_once(tmp_path: Path) -> None:
    path, kept = tmp_path / "journal", 0
    for batches in (3, 7, 20):
        folding = subprocess.Popen(
            [sys.executable, "-m", "tests.projections.folding", str(path)], stdout=subprocess.PIPE, text=True
        )
        assert folding.stdout
        lines = [folding.stdout.readline() for _ in range(batches)]
        folding.kill()
        folding.wait()
        folding.stdout.close()

        assert lines == ["kept\n"] * batches
        with LmdbJournal(path) as journal:
            events = {head.stream: head.sequence for head in journal.streams()}
            durable = DurableProjection(journal, NOTES)
            assert durable.status()[0].events > kept
            assert dict(fold_rows(journal, NOTES).scan()) == events
            kept = durable.catch_up()[0].events
            assert dict(LiveRows(journal, NOTES).scan()) == events
            assert kept == sum(events.values())
