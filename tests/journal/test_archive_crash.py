"""An archive that is interrupted at any step leaves the stream, or the stream and its file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.journal import Commit, MemoryJournal, read_history
from clew.journal.archive import archive, archive_file
from clew.journal.contract.subject import append


class Crash(BaseException):
    """The process died."""


class Steps:
    """Names each thing that is done to the disk or the journal, and dies at a chosen one."""

    def __init__(self) -> None:
        self.crash_at = 0
        self.names: list[str] = []

    def take(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self.crash_at:
            raise Crash

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **options: Any) -> Any:
            self.take(name)
            result = call(*args, **options)
            self.take(f"{name}, done")
            return result

        return stepped


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    found = Steps()
    for name in ("fsync", "replace", "mkdir", "chmod"):
        monkeypatch.setattr(os, name, found.around(name, getattr(os, name)))
    return found


class Dying(MemoryJournal):
    """A journal that dies with its process before or after a delete or a write of cells is durable."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._steps = steps
        append(self, "order/1", "a", "b")
        append(self, "order/2", "c")
        self.whole = {stream: list(self.read(stream)) for stream in ("order/1", "order/2")}
        self.files = {stream: archive_file(self.head(stream)) for stream in self.whole}

    def delete(self, stream: str, *, expected: int) -> Commit:
        return self._steps.around("delete", super().delete)(stream, expected=expected)

    def write_cells(self, changes: Any) -> Commit:
        return self._steps.around("cells", super().write_cells)(changes)

    def check(self, folder: Path) -> None:
        """Insist that each stream is here, or else in its file."""
        for stream, events in self.whole.items():
            if self.head(stream).deleted:
                assert [e.digest for e in read_history(folder / self.files[stream])] == [e.digest for e in events]
            else:
                assert list(self.read(stream)) == events


def archived_until_crash(steps: Steps, crash_at: int, folder: Path) -> bool:
    """Archive two streams and die at a step; check, and repeat it. Return whether it ended before that step."""
    journal = Dying(steps)
    steps.names, steps.crash_at = [], crash_at
    finished = True
    try:
        archive(journal, journal.whole, folder, take_open=True)
    except Crash:
        finished = False
    steps.crash_at = 0

    journal.check(folder)
    report = archive(journal, journal.whole, folder, take_open=True)
    assert [one.stream for one in report.archived] == ["order/1", "order/2"]
    assert all(journal.head(stream).deleted for stream in journal.whole)
    journal.check(folder)
    return finished


@pytest.mark.crash
def test_a_crash_at_any_step_leaves_the_stream_or_its_file_and_repeating_it_finishes(
    steps: Steps, tmp_path: Path
) -> None:
    crash_at = 1
    while not archived_until_crash(steps, crash_at, tmp_path / str(crash_at) / "archive"):
        crash_at += 1

    assert crash_at > 30


def test_a_file_its_name_and_its_folder_would_survive_power_loss_before_the_stream_goes(
    steps: Steps, tmp_path: Path
) -> None:
    journal = Dying(steps)
    steps.names = []

    archive(journal, ["order/1"], tmp_path / "new")

    done = [name for name in steps.names if name.endswith("done") and name != "cells, done"]
    assert done == [f"{name}, done" for name in ("mkdir", "fsync", "fsync", "chmod", "replace", "fsync", "delete")]
