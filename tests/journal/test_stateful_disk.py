"""The journals of `test_stateful` and their files: sealed, compacted, copied as by a kill, backed up, followed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from threading import Event

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import rule

from clew.journal.contract.subject import CATALOG
from clew.journal.lmdb import LmdbJournal
from clew.journal.snapshot import SnapshotPolicy, Snapshots, Tip
from clew.journal.sql import SqliteJournal
from tests.journal.test_stateful import STREAMS, TEXTS, AllJournals, Model

pytestmark = [pytest.mark.property, pytest.mark.timeout(3600)]

EXAMPLES = int(os.environ.get("CLEW_STATEFUL_EXAMPLES", "12"))
WAIT_S_MAX = 30


class JournalsOnDisk(AllJournals):
    """What can be done with journals that have files, between all the rest."""

    def __init__(self) -> None:
        self.copies = 0
        super().__init__()
        self.fold = Snapshots("fold", version=1, schema=b"", policy=SnapshotPolicy(every=1, keep=2))

    def open_lmdb(self) -> LmdbJournal:
        """Open it so that it seals all the time."""
        path = self.path / "journal"
        return LmdbJournal(path, clock=self.clock, map_bytes=65536, durability="relaxed", seal_after=2)

    @rule()
    def compact(self) -> None:
        self.lmdb.compact()
        stats = self.lmdb.stats()
        assert (stats.events, stats.streams) == (len(self.model.log), len({name for name, _ in self.model.log}))
        assert stats.sealed_events >= stats.events

    @rule()
    def be_killed(self) -> None:
        """Open copies of the files as they are between two transactions."""
        for journal in self.on_disk:
            copy = self.copy_of(journal)
            with opened(copy) as revived:
                assert revived.verify().problems == []
                self.model.check(revived)
            remove(copy)

    def copy_of(self, journal: LmdbJournal | SqliteJournal) -> Path:
        self.copies += 1
        suffix = ".db" if isinstance(journal, SqliteJournal) else ""
        copy = self.path / f"copy-{self.copies}{suffix}"
        copied = Event()

        def make(_: object) -> None:
            # On the thread that writes, so nothing is written meanwhile.
            copy_files(journal.path, copy)
            copied.set()

        journal.cells.write([]).add_done_callback(make)
        assert copied.wait(WAIT_S_MAX)
        return copy

    @rule()
    def back_up(self) -> None:
        copy = self.path / "backup"
        self.lmdb.backup(copy)
        with opened(copy) as restored:
            assert restored.verify().problems == []
            self.model.check(restored)
        remove(copy)

    @rule(stream=STREAMS, texts=TEXTS)
    def follow(self, stream: str, texts: list[str]) -> None:
        """Be told of what comes, and of nothing else."""
        told = [(Event(), Event(), Event()) for _ in self.journals]
        positions = [max([0, *(event.position for event in journal.read_all())]) for journal in self.journals]
        stops: list[Callable[[], None]] = []
        for journal, (mine, all_of_them, another) in zip(self.journals, told, strict=True):
            stops += [
                journal.watch(mine.set, stream=stream),
                journal.watch(all_of_them.set),
                journal.watch(another.set, stream="order/another"),
            ]
        self.append(stream, texts, "followed", [], revive=True)

        count = len(texts)
        for journal, position, (mine, all_of_them, another) in zip(self.journals, positions, told, strict=True):
            assert mine.wait(WAIT_S_MAX)
            assert all_of_them.wait(WAIT_S_MAX)
            assert not another.is_set()
            new = list(journal.read_all(after=position))
            assert [event.stream for event in new] == [stream] * count
            assert new == list(journal.read(stream))[-count:]
        for stop in stops:
            stop()

    @rule(stream=STREAMS)
    def take_a_snapshot(self, stream: str) -> None:
        found = self.model.found(stream)
        for journal in self.journals:
            before = self.fold.find(journal, stream)
            tip = before.tip if before else Tip()
            if not found or (before and before.sequence == len(found)):
                continue
            state, added = state_of(self.model, stream, len(found))
            _, log = (b"", b"") if not before else state_of(self.model, stream, before.sequence)
            commit, _ = self.fold.save(
                journal.cells,
                stream,
                sequence=len(found),
                digest=found[-1][-1],
                taken_at=self.time,
                state=state,
                added=added[len(log) :],
                after=tip,
            )
            commit.wait(timeout_s=WAIT_S_MAX)

    @rule(stream=STREAMS)
    def use_a_snapshot(self, stream: str) -> None:
        found = [self.fold.find(journal, stream) for journal in self.journals]

        assert all(other == found[0] for other in found)
        if found[0] is not None:
            sequence = found[0].sequence
            assert (found[0].state, found[0].log) == state_of(self.model, stream, sequence)
            assert found[0].digest == self.model.found(stream)[sequence - 1][-1]
            for journal in self.journals:
                rest = [event for page in journal.pages(stream, CATALOG, after=sequence) for event in page.events]
                assert len(rest) == len(self.model.stream(stream)) - sequence


def state_of(model: Model, stream: str, sequence: int) -> tuple[bytes, bytes]:
    """Return what a fold of a stream has reached: a digest of it all, and a log that only grows."""
    events = [event.canonical for event in model.stream(stream)[:sequence]]
    return sha256(b"".join(events)).digest() * 3, b"".join(sha256(event).digest() for event in events)


def opened(path: Path) -> LmdbJournal | SqliteJournal:
    return SqliteJournal(path) if path.suffix == ".db" else LmdbJournal(path)


def files_of(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files that hold a SQLite journal, and what is added to their name."""
    for suffix in ("", "-wal"):
        if (file := path.with_name(path.name + suffix)).exists():
            yield file, suffix


def copy_files(path: Path, copy: Path) -> None:
    if path.is_dir():
        copy.mkdir()
        shutil.copyfile(path / "data.mdb", copy / "data.mdb")
        return
    for file, suffix in files_of(path):
        shutil.copyfile(file, copy.with_name(copy.name + suffix))


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()


TestJournalsOnDisk = JournalsOnDisk.TestCase
TestJournalsOnDisk.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=30,
    deadline=None,
    derandomize=EXAMPLES < 20,
    suppress_health_check=[HealthCheck.too_slow],
)
