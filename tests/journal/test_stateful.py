"""Journals against a model of plain lists: whatever is done to them, they say what the lists say."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from clew.journal import (
    ANYTHING,
    GENESIS,
    AppendUnknown,
    CellConflict,
    CellWrite,
    Commit,
    Head,
    Journal,
    JournalFull,
    MemoryJournal,
    NewEvent,
    WrongExpectedSequence,
    chain,
)
from clew.journal.contract.subject import note
from clew.journal.lmdb import LmdbJournal

pytestmark = pytest.mark.property

STREAMS = st.sampled_from(["order/1", "order/2", "order/" + "é" * 300, "thread/1"])
SIZES = st.lists(st.sampled_from([0, 1, 100, 70_000]), min_size=1, max_size=4)
KEYS = st.sampled_from([b"a", b"a/1", b"a/2", b"b", b"\xff"])
VALUES = st.sampled_from([b"", b"1", b"2" * 600])
CHANGES = st.lists(
    st.builds(
        CellWrite,
        KEYS,
        st.one_of(st.none(), VALUES),
        st.one_of(st.just(ANYTHING), st.just(ANYTHING), st.none(), VALUES),
    ),
    min_size=1,
    max_size=4,
)
Cells = dict[bytes, bytes]
Found = tuple[str, int, str, bytes]


class Model:
    """Streams as lists of events, and cells as a dict."""

    def __init__(self) -> None:
        self.log: list[tuple[str, NewEvent]] = []
        self.cells: Cells = {}

    def stream(self, stream: str) -> list[NewEvent]:
        return [event for name, event in self.log if name == stream]

    def found(self, stream: str) -> list[Found]:
        digest, found = GENESIS, list[Found]()
        for sequence, event in enumerate(self.stream(stream), 1):
            digest = chain(digest, event.canonical)
            found.append((stream, sequence, event.cause, digest))
        return found

    def accepts(self, changes: list[CellWrite]) -> bool:
        return all(change.expected is ANYTHING or self.cells.get(change.key) == change.expected for change in changes)

    def change(self, changes: list[CellWrite]) -> None:
        for change in changes:
            self.cells.pop(change.key, None)
            if change.value is not None:
                self.cells[change.key] = change.value

    def check(self, journal: Journal) -> None:
        names = sorted({name for name, _ in self.log})
        for name in names:
            wanted = self.found(name)
            assert [(e.stream, e.sequence, e.cause, e.digest) for e in journal.read(name)] == wanted
            assert journal.head(name) == Head(name, len(wanted), wanted[-1][-1])
        assert [head.stream for head in journal.streams()] == names
        assert [(e.stream, e.canonical) for e in journal.read_all()] == [(n, e.canonical) for n, e in self.log]
        assert list(journal.cells.scan(b"")) == sorted(self.cells.items())


class TwoJournals(RuleBasedStateMachine):
    """The memory journal and the LMDB journal, told the same things."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.time = 0
        self.model = Model()
        self.memory = MemoryJournal(clock=self.clock)
        self.lmdb = self.open()

    def clock(self) -> int:
        return self.time

    def open(self) -> LmdbJournal:
        return LmdbJournal(self.path, clock=self.clock, map_bytes=65536, durability="relaxed")

    def teardown(self) -> None:
        self.lmdb.close()
        shutil.rmtree(self.path)

    @property
    def journals(self) -> list[Journal]:
        return [self.memory, self.lmdb]

    @rule(by=st.integers(-5, 5))
    def the_clock_moves(self, by: int) -> None:
        self.time = max(1, self.time + by)

    @rule(stream=STREAMS, sizes=SIZES, cause=st.sampled_from(["", "c", "é"]), cells=CHANGES)
    def append(self, stream: str, sizes: list[int], cause: str, cells: list[CellWrite]) -> None:
        events = [note("x" * size, cause=cause) for size in sizes]
        cells = [CellWrite(cell.key, cell.value) for cell in cells]
        expected = len(self.model.stream(stream))
        for journal in self.journals:
            commit = journal.append(stream, events, expected=expected, cells=cells)
            assert (commit.first_sequence, commit.last_sequence) == (expected + 1, expected + len(events))
            commit.wait(timeout_s=30)
        self.model.log += [(stream, event) for event in events]
        self.model.change(cells)

    @rule(stream=STREAMS, off=st.integers(-3, 3).filter(bool))
    def append_with_a_wrong_expectation(self, stream: str, off: int) -> None:
        actual = len(self.model.stream(stream))
        for journal in self.journals:
            with pytest.raises(WrongExpectedSequence) as caught:
                journal.append(stream, [note("x")], expected=actual + off)
            assert caught.value.actual == actual

    @rule(first=CHANGES, second=CHANGES)
    def change_cells_in_one_group(self, first: list[CellWrite], second: list[CellWrite]) -> None:
        outcomes = [[journal.cells.write(changes) for changes in (first, second)] for journal in self.journals]
        for number, changes in enumerate((first, second)):
            accepted = self.model.accepts(changes)
            for commits in outcomes:
                if accepted:
                    commits[number].wait(timeout_s=30)
                    continue
                with pytest.raises(CellConflict):
                    commits[number].wait(timeout_s=30)
            if accepted:
                self.model.change(changes)

    @rule(stream=STREAMS, after=st.integers(0, 12))
    def read_a_part(self, stream: str, after: int) -> None:
        found = [list(journal.read(stream, after=after)) for journal in self.journals]
        assert found[0] == found[1]
        assert len(found[0]) == max(0, len(self.model.stream(stream)) - after)

    @rule(part=st.floats(0, 1))
    def read_a_part_of_everything(self, part: float) -> None:
        for journal in self.journals:
            everything = list(journal.read_all())
            place = int(part * len(everything))
            after = everything[place - 1].position if place else 0
            assert list(journal.read_all(after=after)) == everything[place:]

    @rule(prefix=st.sampled_from([b"", b"a", b"a/", b"zz"]), after=st.one_of(st.just(b""), KEYS))
    def scan_a_part(self, prefix: bytes, after: bytes) -> None:
        wanted = [(k, v) for k, v in sorted(self.model.cells.items()) if k.startswith(prefix) and k > after]
        for journal in self.journals:
            assert list(journal.cells.scan(prefix, after=after)) == wanted

    @rule()
    def open_again(self) -> None:
        self.lmdb.close()
        self.lmdb = self.open()

    @invariant()
    def both_say_what_the_lists_say(self) -> None:
        for journal in self.journals:
            self.model.check(journal)
        times = [[event.recorded_at for event in journal.read_all()] for journal in self.journals]
        assert times[0] == times[1]
        assert self.lmdb.verify().problems == []


class AHeldJournal(RuleBasedStateMachine):
    """A memory journal whose commits are under way until the test lets them end."""

    def __init__(self) -> None:
        super().__init__()
        self.journal = MemoryJournal(hold=True)
        self.model = Model()
        self.held: list[tuple[Commit, Callable[[], None], bool]] = []
        self.assigned: dict[str, int] = {}

    @rule(stream=STREAMS, sizes=SIZES)
    def append(self, stream: str, sizes: list[int]) -> None:
        events = [note("x" * size) for size in sizes]
        expected = self.assigned.get(stream, 0)
        commit = self.journal.append(stream, events, expected=expected)
        self.assigned[stream] = commit.last_sequence
        assert commit.last_sequence == expected + len(events)
        self.held.append((commit, lambda: self.model.log.extend((stream, event) for event in events), False))

    @rule(stream=STREAMS)
    def append_with_a_wrong_expectation(self, stream: str) -> None:
        with pytest.raises(WrongExpectedSequence) as caught:
            self.journal.append(stream, [note("x")], expected=self.assigned.get(stream, 0) + 1)
        assert caught.value.actual == self.assigned.get(stream, 0)

    @rule(changes=CHANGES)
    def change_cells(self, changes: list[CellWrite]) -> None:
        self.held.append((self.journal.cells.write(changes), lambda: self.model.change(changes), True))

    @precondition(lambda self: self.held)
    @rule()
    def everything_becomes_durable(self) -> None:
        held, self.held = self.held, []
        self.journal.flush()
        for commit, apply, may_conflict in held:
            assert commit.done
            if may_conflict and isinstance(commit.error, CellConflict):
                continue
            assert commit.error is None
            apply()

    @rule(full=st.booleans())
    def everything_fails(self, full: bool) -> None:
        error = JournalFull(path="x", reason="x") if full else AppendUnknown(streams=(), reason="x")
        held, self.held = self.held, []
        self.journal.fail(error)
        assert [commit.error for commit, _, _ in held] == [error] * len(held)
        self.assigned = {stream: len(self.model.stream(stream)) for stream in self.assigned}

    @invariant()
    def only_what_is_durable_can_be_seen(self) -> None:
        self.model.check(self.journal)
        assert not any(commit.done for commit, _, _ in self.held)


quickly = settings(max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TestTwoJournals = TwoJournals.TestCase
TestTwoJournals.settings = quickly
TestAHeldJournal = AHeldJournal.TestCase
TestAHeldJournal.settings = quickly
