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
    StreamDeleted,
    WrongExpectedSequence,
    category_of,
    chain,
)
from clew.journal.contract.subject import CATALOG, Noted, note, text_of
from clew.journal.lmdb import LmdbJournal
from clew.journal.sql import SqliteJournal

pytestmark = pytest.mark.property

STREAMS = st.sampled_from(["order/1", "order/2", "order/" + "é" * 300, "thread/1"])
# By name, so that a counter-example can be read.
TEXT = {
    "empty": "",
    "x": "x",
    "short": "x" * 100,
    "large": "x" * 70_000,
    "other": "y" * 70_000,
    "huge": "z" * 1_200_000,
}
TEXTS = st.lists(st.sampled_from([*TEXT]), min_size=1, max_size=4)
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
    """Streams as lists of events, the heads of those that were deleted, and cells as a dict."""

    def __init__(self) -> None:
        self.log: list[tuple[str, NewEvent]] = []
        self.deleted: dict[str, Head] = {}
        self.cells: Cells = {}

    def stream(self, stream: str) -> list[NewEvent]:
        return [event for name, event in self.log if name == stream]

    def end(self, stream: str) -> int:
        return self.deleted[stream].sequence if stream in self.deleted else len(self.stream(stream))

    def append(self, stream: str, events: list[NewEvent]) -> None:
        self.deleted.pop(stream, None)
        self.log += [(stream, event) for event in events]

    def delete(self, stream: str) -> None:
        if found := self.found(stream):
            self.deleted[stream] = Head(stream, len(found), found[-1][-1], deleted=True)
            self.log = [(name, event) for name, event in self.log if name != stream]

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
        for name, head in self.deleted.items():
            assert journal.head(name) == head
            with pytest.raises(StreamDeleted):
                list(journal.read(name))
        assert [head.stream for head in journal.streams()] == sorted([*names, *self.deleted])
        assert [(e.stream, e.canonical) for e in journal.read_all()] == [(n, e.canonical) for n, e in self.log]
        # Snapshots are cells too; what is in them is not the model's.
        assert [cell for cell in journal.cells.scan(b"") if cell[0][:9] != b"snapshot/"] == sorted(self.cells.items())


class AllJournals(RuleBasedStateMachine):
    """Journals of every kind, told the same things."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.time = 0
        self.model = Model()
        self.memory = MemoryJournal(clock=self.clock)
        self.sqlite = self.open_sqlite()
        self.lmdb = self.open_lmdb()

    def clock(self) -> int:
        return self.time

    def open_sqlite(self) -> SqliteJournal:
        return SqliteJournal(self.path / "journal.db", clock=self.clock)

    def open_lmdb(self) -> LmdbJournal:
        return LmdbJournal(self.path / "journal", clock=self.clock, map_bytes=65536, durability="relaxed")

    def teardown(self) -> None:
        for journal in self.on_disk:
            journal.close()
        shutil.rmtree(self.path)

    @property
    def on_disk(self) -> list[SqliteJournal | LmdbJournal]:
        return [self.sqlite, self.lmdb]

    @property
    def journals(self) -> list[Journal]:
        return [self.memory, *self.on_disk]

    @rule(by=st.integers(-5, 5))
    def the_clock_moves(self, by: int) -> None:
        self.time = max(1, self.time + by)

    @rule(stream=STREAMS, texts=TEXTS, cause=st.sampled_from(["", "c", "é"]), cells=CHANGES, revive=st.booleans())
    def append(self, stream: str, texts: list[str], cause: str, cells: list[CellWrite], revive: bool) -> None:
        events = [note(TEXT[text], cause=cause) for text in texts]
        cells = [CellWrite(cell.key, cell.value) for cell in cells]
        expected = len(self.model.stream(stream))
        if stream in self.model.deleted and not revive:
            for journal in self.journals:
                with pytest.raises(StreamDeleted):
                    journal.append(stream, events, expected=expected, cells=cells)
            return
        for journal in self.journals:
            commit = journal.append(stream, events, expected=expected, cells=cells, revive=revive)
            assert (commit.first_sequence, commit.last_sequence) == (expected + 1, expected + len(events))
            commit.wait(timeout_s=30)
        self.model.append(stream, events)
        self.model.change(cells)

    @rule(stream=STREAMS, off=st.integers(-3, 3).filter(bool))
    def append_with_a_wrong_expectation(self, stream: str, off: int) -> None:
        actual = len(self.model.stream(stream))
        refused = StreamDeleted if stream in self.model.deleted else WrongExpectedSequence
        for journal in self.journals:
            with pytest.raises(refused):
                journal.append(stream, [note("x")], expected=actual + off, revive=True)

    @rule(stream=STREAMS, texts=st.one_of(st.none(), TEXTS))
    def delete(self, stream: str, texts: list[str] | None) -> None:
        end = self.model.end(stream)
        for journal in self.journals:
            with pytest.raises(WrongExpectedSequence):
                journal.delete(stream, expected=end + 1)
            commits = [journal.delete(stream, expected=end)]
            if texts is not None and end:
                # A new beginning behind it, in the same group.
                commits.append(journal.append(stream, [note(TEXT[text]) for text in texts], expected=0, revive=True))
            for commit in commits:
                commit.wait(timeout_s=30)
        self.model.delete(stream)
        if texts is not None and end:
            self.model.append(stream, [note(TEXT[text]) for text in texts])

    @rule(stream=STREAMS, after=st.integers(0, 12))
    def fold_a_part(self, stream: str, after: int) -> None:
        wanted = [Noted(text_of(event.canonical)) for event in self.model.stream(stream)[after:]]
        for journal in self.journals:
            if stream in self.model.deleted:
                with pytest.raises(StreamDeleted):
                    list(journal.pages(stream, CATALOG, after=after))
            else:
                pages = list(journal.pages(stream, CATALOG, after=after))
                assert [event for page in pages for event in page.events] == wanted

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
        if stream in self.model.deleted:
            return
        found = [
            [(e.sequence, e.recorded_at, e.cause, e.digest, e.canonical) for e in journal.read(stream, after=after)]
            for journal in self.journals
        ]
        assert all(other == found[0] for other in found)
        assert len(found[0]) == max(0, len(self.model.stream(stream)) - after)

    @rule(part=st.floats(0, 1))
    def read_a_part_of_everything(self, part: float) -> None:
        for journal in self.journals:
            everything = list(journal.read_all())
            place = int(part * len(everything))
            after = everything[place - 1].position if place else 0
            assert list(journal.read_all(after=after)) == everything[place:]
            for category in ("order", "thread"):
                wanted = [event for event in everything[place:] if category_of(event.stream) == category]
                assert list(journal.read_all(after=after, category=category)) == wanted

    @rule(prefix=st.sampled_from([b"", b"a", b"a/", b"zz"]), after=st.one_of(st.just(b""), KEYS))
    def scan_a_part(self, prefix: bytes, after: bytes) -> None:
        wanted = [(k, v) for k, v in sorted(self.model.cells.items()) if k.startswith(prefix) and k > after]
        for journal in self.journals:
            assert [cell for cell in journal.cells.scan(prefix, after=after) if cell[0][:9] != b"snapshot/"] == wanted

    @rule()
    def open_again(self) -> None:
        for journal in self.on_disk:
            journal.close()
        self.sqlite = self.open_sqlite()
        self.lmdb = self.open_lmdb()

    @invariant()
    def they_say_what_the_lists_say(self) -> None:
        for journal in self.journals:
            self.model.check(journal)
            positions = [event.position for event in journal.read_all()]
            assert positions == sorted(set(positions))
        times = [[event.recorded_at for event in journal.read_all()] for journal in self.journals]
        assert all(other == times[0] for other in times)
        for journal in self.on_disk:
            assert journal.verify().problems == []


class AHeldJournal(RuleBasedStateMachine):
    """A memory journal whose commits are under way until the test lets them end."""

    def __init__(self) -> None:
        super().__init__()
        self.journal = MemoryJournal(hold=True)
        self.model = Model()
        self.held: list[tuple[Commit, Callable[[], None], bool]] = []
        # What will be when all that is under way has become durable.
        self.assigned = Model()

    @rule(stream=STREAMS, texts=TEXTS, revive=st.booleans())
    def append(self, stream: str, texts: list[str], revive: bool) -> None:
        events = [note(TEXT[text]) for text in texts]
        expected = len(self.assigned.stream(stream))
        if stream in self.assigned.deleted and not revive:
            with pytest.raises(StreamDeleted):
                self.journal.append(stream, events, expected=expected)
            return
        commit = self.journal.append(stream, events, expected=expected, revive=revive)
        assert commit.last_sequence == expected + len(events)
        self.assigned.append(stream, events)
        self.held.append((commit, lambda: self.model.append(stream, events), False))

    @rule(stream=STREAMS)
    def append_with_a_wrong_expectation(self, stream: str) -> None:
        end = self.assigned.end(stream)
        with pytest.raises(StreamDeleted if stream in self.assigned.deleted else WrongExpectedSequence):
            self.journal.append(stream, [note("x")], expected=end + 1)
        with pytest.raises(WrongExpectedSequence) as caught:
            self.journal.delete(stream, expected=end + 1)
        assert caught.value.actual == end

    @rule(stream=STREAMS)
    def delete(self, stream: str) -> None:
        commit = self.journal.delete(stream, expected=self.assigned.end(stream))
        self.assigned.delete(stream)
        self.held.append((commit, lambda: self.model.delete(stream), False))

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
        self.assigned.log, self.assigned.deleted = list(self.model.log), dict(self.model.deleted)

    @invariant()
    def only_what_is_durable_can_be_seen(self) -> None:
        self.model.check(self.journal)
        assert not any(commit.done for commit, _, _ in self.held)


quickly = settings(max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TestAllJournals = AllJournals.TestCase
TestAllJournals.settings = quickly
TestAHeldJournal = AHeldJournal.TestCase
TestAHeldJournal.settings = quickly
