"""Snapshots are found where they fit, passed over where they do not, and never in the way of anything."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.journal import (
    CHUNK_BYTES_MAX,
    GENESIS,
    CellWrite,
    InvalidName,
    Journal,
    MemoryJournal,
    NewEvent,
    PayloadTooLarge,
)
from clew.journal.lmdb import LmdbJournal
from clew.journal.snapshot import Snapshot, SnapshotPolicy, Snapshots, Tip, forget
from clew.journal.sql import SqliteJournal

STREAM = "order/1"


@pytest.fixture(params=["memory", "lmdb", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    opened: Journal = MemoryJournal()
    if request.param == "lmdb":
        opened = LmdbJournal(tmp_path)
    elif request.param == "sqlite":
        opened = SqliteJournal(tmp_path / "journal.db")
    yield opened
    opened.close()


def happened(number: int) -> NewEvent:
    return NewEvent(b'{"event":"order.noted","version":1,"data":{"n":%d}}' % number)


def grow(journal: Journal, until: int, stream: str = STREAM) -> None:
    """Let a stream have so many events."""
    there = journal.head(stream).sequence
    if until > there:
        journal.append(stream, [happened(n) for n in range(there, until)], expected=there).wait()


def snapshots(*, name: str = "orders", version: int = 1, schema: bytes = b"", keep: int = 2) -> Snapshots:
    return Snapshots(name, version=version, schema=schema, policy=SnapshotPolicy(every=1, keep=keep))


class Fold:
    """Takes snapshots of one stream, each going on from the last."""

    def __init__(self, journal: Journal, kind: Snapshots, stream: str = STREAM) -> None:
        self.journal = journal
        self.kind = kind
        self.stream = stream
        self.tip = Tip()

    def save(self, sequence: int, state: bytes, added: bytes = b"") -> None:
        """Let the stream have this many events, and keep the state there."""
        grow(self.journal, sequence, self.stream)
        digest = self.journal.head(self.stream).digest
        commit, self.tip = self.kind.save(
            self.journal.cells,
            self.stream,
            sequence=sequence,
            digest=digest,
            taken_at=7,
            state=state,
            added=added,
            after=self.tip,
        )
        commit.wait()

    @property
    def found(self) -> Snapshot | None:
        return self.kind.find(self.journal, self.stream)

    @property
    def state(self) -> bytes | None:
        """The state that is found, if one is."""
        return self.found.state if self.found else None


def cells(journal: Journal) -> dict[bytes, bytes]:
    return dict(journal.cells.scan(b"snapshot/"))


def test_the_newest_snapshot_is_found_with_its_place_its_state_and_all_of_the_log(journal: Journal) -> None:
    fold = Fold(journal, snapshots())
    assert fold.found is None

    fold.save(3, b"three", b"abc")
    fold.save(5, b"five", b"de")
    grow(journal, 9)

    digest = [event.digest for event in journal.read(STREAM)][4]
    assert fold.found == Snapshot(5, digest, 7, b"five", b"abcde", fold.tip)


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_so_many_are_kept_as_the_policy_says_and_the_log_is_written_once(journal: Journal, keep: int) -> None:
    fold = Fold(journal, snapshots(keep=keep))

    for number in range(1, 6):
        fold.save(number, b"s%d" % number, b"l%d" % number)

    kept = [value for value in cells(journal).values() if value.startswith(b"s")]
    assert kept == [b"s%d" % number for number in range(6 - keep, 6)]
    assert sorted(value for value in cells(journal).values() if value.startswith(b"l")) == [
        b"l%d" % number for number in range(1, 6)
    ]


@pytest.mark.scenario("JRN-14")
@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES_MAX, CHUNK_BYTES_MAX + 1, 7 * CHUNK_BYTES_MAX + 5])
def test_a_state_of_any_size_comes_back_and_no_cell_is_larger_than_a_chunk(journal: Journal, size: int) -> None:
    state, log = random.Random(1).randbytes(size), random.Random(2).randbytes(size)
    fold = Fold(journal, snapshots())

    fold.save(1, state, log)

    assert fold.found is not None
    assert (fold.found.state, fold.found.log) == (state, log)
    assert max(len(value) for value in cells(journal).values()) <= CHUNK_BYTES_MAX


def test_a_smaller_state_leaves_nothing_behind_of_a_larger_one(journal: Journal) -> None:
    fold = Fold(journal, snapshots(keep=1))

    fold.save(1, b"x" * (3 * CHUNK_BYTES_MAX))
    fold.save(2, b"small")

    assert fold.state == b"small"
    assert len(cells(journal)) == 2


def test_a_state_over_the_limit_is_refused_and_the_last_one_stays() -> None:
    kind = Snapshots("orders", version=1, schema=b"", policy=SnapshotPolicy(size_bytes_max=10))
    fold = Fold(MemoryJournal(), kind)
    fold.save(1, b"x" * 10)

    with pytest.raises(PayloadTooLarge, match=r"order/1, its state for a snapshot: 11 bytes, and 10 are the most"):
        fold.save(2, b"x" * 11)

    assert fold.state == b"x" * 10


@pytest.mark.parametrize(
    "other",
    [snapshots(version=2), snapshots(schema=b"other"), snapshots(name="others")],
    ids=["version", "schema", "name"],
)
def test_a_snapshot_of_other_code_is_passed_over(journal: Journal, other: Snapshots) -> None:
    fold = Fold(journal, snapshots())
    fold.save(3, b"three")

    assert other.find(journal, STREAM) is None
    assert fold.state == b"three"


def test_a_fold_that_begins_anew_replaces_what_other_code_left(journal: Journal) -> None:
    Fold(journal, snapshots(version=1)).save(3, b"old", b"old log")
    fold = Fold(journal, snapshots(version=2))

    fold.save(4, b"new", b"new log")

    assert fold.found is not None
    assert (fold.found.state, fold.found.log) == (b"new", b"new log")
    assert snapshots(version=1).find(journal, STREAM) is None
    assert len(cells(journal)) == 3


def test_two_folds_of_one_stream_and_streams_whose_names_begin_alike_do_not_meet(journal: Journal) -> None:
    streams = ["order/1", "order/11", "order/1/1", "order/" + "é" * 900, "order/" + "é" * 901]
    folds = [Fold(journal, snapshots(name=name), stream) for stream in streams for name in ("a", "ab")]

    for number, fold in enumerate(folds):
        fold.save(1, b"%d" % number)

    assert [fold.state for fold in folds] == [b"%d" % number for number in range(len(folds))]
    for stream in streams:
        forget(journal.cells, stream).wait()
        assert [fold.state is None for fold in folds if fold.stream == stream] == [True, True]
        folds = [fold for fold in folds if fold.stream != stream]
        assert all(fold.state is not None for fold in folds)
    assert cells(journal) == {}


def test_whatever_cell_is_damaged_or_gone_the_older_snapshot_is_found_or_none(journal: Journal) -> None:
    fold = Fold(journal, snapshots())
    fold.save(3, b"three", b"abc")
    fold.save(5, b"five", b"de")
    whole = cells(journal)
    assert len(whole) == 6

    for key, value in whole.items():
        for damage in (None, b"", b"\xff", value[:-1] + bytes([value[-1] ^ 1]), value + b"x"):
            journal.cells.write([CellWrite(key, damage)]).wait()
            found = fold.found
            assert found is None or (found.sequence, found.state, found.log) in [
                (3, b"three", b"abc"),
                (5, b"five", b"abcde"),
            ]
            if value == b"five":
                assert found is not None
                assert found.sequence == 3
            if value == b"abc":
                assert found is None
        journal.cells.write([CellWrite(key, value)]).wait()
    assert fold.state == b"five"


def test_a_snapshot_of_another_history_is_passed_over() -> None:
    one, other = MemoryJournal(), MemoryJournal()
    fold = Fold(one, snapshots())
    fold.save(3, b"three")
    other.cells.write([CellWrite(key, value) for key, value in cells(one).items()])

    assert snapshots().find(other, STREAM) is None
    for number in range(6):
        other.append(STREAM, [happened(number + 100)], expected=number)
        assert snapshots().find(other, STREAM) is None


def test_a_log_that_two_wrote_is_passed_over_and_begun_anew(journal: Journal) -> None:
    one, other = Fold(journal, snapshots()), Fold(journal, snapshots())
    one.save(1, b"1", b"one")
    other.save(2, b"2", b"other")
    one.save(3, b"3", b"one more")
    assert one.found is None

    one.tip = Tip()
    one.save(4, b"4", b"all")

    assert one.found is not None
    assert (one.found.state, one.found.log) == (b"4", b"all")


def test_what_another_writer_put_behind_the_end_of_the_log_is_no_part_of_it(journal: Journal) -> None:
    one, other = Fold(journal, snapshots()), Fold(journal, snapshots())
    one.save(1, b"1", b"one")
    other.tip = one.tip
    other.save(2, b"2", b"lost")

    one.save(3, b"3", b"won")

    assert one.found is not None
    assert one.found.log == b"onewon"


def test_snapshots_do_not_touch_the_stream_and_begin_at_its_beginning(journal: Journal) -> None:
    grow(journal, 2)
    before = journal.head(STREAM)

    Fold(journal, snapshots()).save(2, b"two")

    assert journal.head(STREAM) == before
    assert Tip() == (0, GENESIS)


@pytest.mark.parametrize("wrong", [{"every": 0}, {"keep": 0}, {"every": -1}, {"size_bytes_max": 0}])
def test_a_policy_that_would_keep_nothing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="is at least 1"):
        SnapshotPolicy(**wrong)


@pytest.mark.parametrize("name", ["x" * 129, "a\0b", "a\nb"])
def test_a_name_that_cannot_be_part_of_a_key_is_refused(name: str) -> None:
    with pytest.raises(InvalidName, match="a fold's name"):
        snapshots(name=name)


def test_large_states_are_kept_less_often() -> None:
    policy = SnapshotPolicy(every=100)

    assert [policy.spacing(size) for size in (0, 25_600, 256_000)] == [100, 100, 1000]
    assert [SnapshotPolicy(every=every).worth for every in (1, 10, 500)] == [1, 1, 50]
