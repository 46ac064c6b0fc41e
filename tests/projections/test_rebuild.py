"""A rebuild folds beside the live rows, compares, and switches; wherever it stops, there is one whole table."""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.journal import CellWrite, Commit, Journal, MemoryJournal, NewEvent, RecordedEvent
from clew.projections import DurableProjection, LiveRows, Rows, projection_status, rebuild
from tests.projections.tables import (
    Added,
    Crash,
    CrashingJournal,
    Item,
    Removed,
    Stocked,
    add,
    count_stock,
    keys,
    put,
    stock,
    table,
)


def durable(journal: Journal, projection: Any = None, **options: Any) -> DurableProjection[Any, Any]:
    found = DurableProjection(journal, projection or stock(), **options)
    found.catch_up()
    return found


def test_a_rebuild_that_agrees_takes_the_place_of_the_live_rows(journal: Journal) -> None:
    add(journal, *(f"item {n}" for n in range(700)))
    live = durable(journal)
    before, old_keys = table(journal), keys(journal.cells)

    report = rebuild(live)

    assert (report.outcome, report.rows, report.digest) == ("switched", 1400, report.live_digest)
    assert (report.missing, report.added, report.changed, report.keys) == (0, 0, 0, ())
    assert table(journal) == before
    assert set(keys(journal.cells)).isdisjoint(old_keys)
    add(journal, "item 7")
    live.catch_up()
    assert table(journal)["item 7"].seen == [8, 701]


def damage(journal: Journal) -> None:
    """Change a row, remove one and add one behind the projection's back."""
    [prefix] = {key.rpartition(b"/")[0] for key in keys(journal.cells) if b"alike" not in key}
    for name, value in ((b"nut", b'["nut",{"count":99}]'), (b"bolt", None), (b"screw", b'["screw",{}]')):
        journal.cells.write([CellWrite(prefix + b"/" + name, value)]).wait()


def test_a_difference_is_reported_and_the_live_rows_stay(journal: Journal) -> None:
    add(journal, "nut", "bolt", "nut")
    live = durable(journal)
    damage(journal)
    before, old_keys = table(journal), keys(journal.cells)

    report = rebuild(live)

    assert (report.outcome, report.missing, report.added, report.changed) == ("differs", 1, 1, 1)
    assert report.keys == ("bolt", "nut", "screw")
    assert report.digest != report.live_digest
    assert table(journal) == before
    assert keys(journal.cells) == old_keys
    add(journal, "nut")
    live.catch_up()
    assert table(journal)["nut"].count == 100

    assert rebuild(live, accept=True).outcome == "switched"
    assert table(journal)["nut"] == Item(3, [1, 3, 4])
    assert "screw" not in table(journal)


def test_events_of_a_deleted_stream_are_folded_no_more_once_that_is_accepted() -> None:
    journal = MemoryJournal()
    add(journal, "nut")
    add(journal, "nut", stream="stock/b")
    live = durable(journal)
    journal.delete("stock/a", expected=1).wait()

    assert rebuild(live).outcome == "differs"
    assert table(journal)["nut"].seen == [1, 2]
    assert rebuild(live, accept=True).outcome == "switched"
    assert table(journal)["nut"].seen == [2]


def test_a_rebuild_that_meets_an_event_it_cannot_fold_leaves_the_live_rows(journal: Journal) -> None:
    add(journal, "nut", "bolt")
    durable(journal)
    before = table(journal)

    def refuse_bolts(rows: Rows[Item], event: Stocked, recorded: RecordedEvent) -> None:
        assert event.item != "bolt"
        count_stock(rows, event, recorded)

    report = rebuild(DurableProjection(journal, stock(refuse_bolts)))

    assert report.outcome == "parked"
    assert report.parked is not None
    assert (report.parked.sequence, report.parked.error) == (2, "AssertionError")
    assert table(journal) == before
    assert [s.state for s in projection_status(journal)] == ["live"]


def test_a_parked_projection_is_rebuilt_as_far_as_it_came_and_goes_on() -> None:
    journal = MemoryJournal()
    add(journal, "nut", "nut", "nut")

    def stops(rows: Rows[Item], event: Stocked, recorded: RecordedEvent) -> None:
        assert recorded.sequence < 3
        count_stock(rows, event, recorded)

    durable(journal, stock(stops))
    corrected = DurableProjection(journal, stock())

    assert rebuild(corrected).outcome == "switched"
    assert table(journal)["nut"].seen == [1, 2]
    corrected.catch_up()
    assert table(journal)["nut"].seen == [1, 2, 3]


def test_a_rebuild_under_a_new_version_has_nothing_to_compare() -> None:
    journal = MemoryJournal()
    add(journal, "nut")
    durable(journal)

    report = rebuild(DurableProjection(journal, stock(version=2)))

    assert report.outcome == "switched"
    assert [(s.version, s.state) for s in projection_status(journal)] == [(2, "live")]


class Moving(MemoryJournal):
    """A journal where another runner folds an event just before some of the writes of cells, by their number."""

    moves: Container[int] = ()
    writes = 0
    furthest = 0

    def write_cells(self, changes: Any) -> Commit:
        self.writes += 1
        if self.writes in self.moves:
            moves, self.moves = self.moves, ()
            add(self, "nut")
            durable(self)
            self.furthest = LiveRows(self, stock()).position
            self.moves = moves
        return super().write_cells(changes)


@pytest.mark.parametrize("moves", [[1], [2], [3], [4], [2, 5], [3, 6, 9], range(10**9)])
def test_a_rebuild_beside_another_runner_switches_to_rows_that_have_caught_up_or_not_at_all(
    moves: Container[int],
) -> None:
    journal = Moving()
    add(journal, "nut", "bolt")
    live = durable(journal)
    journal.writes, journal.moves = 0, moves

    report = rebuild(live)
    journal.moves = ()

    assert report.outcome == ("busy" if isinstance(moves, range) else "switched")
    # Who looks at the rows never sees them go back.
    assert LiveRows(journal, stock()).position >= journal.furthest > 2
    durable(journal)
    count = len(list(journal.read_all()))
    assert table(journal)["nut"].seen == [1, *range(3, count + 1)]
    assert len(keys(journal.cells, b"projection/at/")) == 1


def test_of_two_rebuilds_the_later_one_wins() -> None:
    journal = MemoryJournal()
    add(journal, "nut")
    live, reports = durable(journal), list[str]()

    def interrupted(rows: Rows[Item], event: Stocked, recorded: RecordedEvent) -> None:
        if not reports:
            reports.append("begun")
            reports.append(rebuild(live).outcome)
        count_stock(rows, event, recorded)

    assert rebuild(DurableProjection(journal, stock(interrupted))).outcome == "busy"
    assert reports == ["begun", "switched"]
    assert table(journal)["nut"].seen == [1]


EVENTS = st.lists(
    st.one_of(
        st.builds(Added, st.sampled_from(["nut", "bolt", "nail", "x" * 400]), st.integers(1, 3)),
        st.builds(Removed, st.sampled_from(["nut", "bolt"])),
    ),
    min_size=1,
    max_size=6,
)
DOES: dict[str, Callable[[DurableProjection[Any, Any]], object]] = {
    "catch up": lambda durable: durable.catch_up(),
    "advance": lambda durable: durable.advance(),
    "rebuild": rebuild,
    "accept": lambda durable: rebuild(durable, accept=True),
}


@pytest.mark.property
@pytest.mark.crash
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_rebuild_equals_the_live_rows_whatever_crashed_and_however_large_the_batches_were(
    data: st.DataObject,
) -> None:
    journal, version = CrashingJournal(), 1
    for _ in range(data.draw(st.integers(1, 8), "rounds")):
        stream = data.draw(st.sampled_from(["stock/a", "stock/b", "other/a"]), "stream")
        put(journal, data.draw(EVENTS, "events"), stream=stream)
        version += data.draw(st.sampled_from([0, 0, 0, 1]), "version")
        projection = DurableProjection(
            journal,
            stock(version=version),
            batch_events_max=data.draw(st.integers(1, 7), "batch"),
            batch_bytes_max=data.draw(st.sampled_from([1, 200, 10_000]), "bytes"),
        )
        journal.crash_at = journal.writes + data.draw(st.integers(1, 12), "crash at")
        journal.durable_first = data.draw(st.booleans(), "durable first")
        with suppress(Crash):
            DOES[data.draw(st.sampled_from(sorted(DOES)), "do")](projection)
        journal.crash_at = None

    last = stock(version=version)
    live = durable(journal, last)
    fresh = MemoryJournal()
    for event in journal.read_all():
        fresh.append(event.stream, [NewEvent(event.canonical)], expected=event.sequence - 1).wait()
    durable(fresh, last, batch_events_max=1)

    assert table(journal, last) == table(fresh, last)
    assert rebuild(live).outcome == "switched"
    assert table(journal, last) == table(fresh, last)
    # Nothing is left of all that was begun in between but one build.
    assert len({key.split(b"/")[4] for key in keys(journal.cells)}) <= 1
    assert len(keys(journal.cells, b"projection/at/")) == 1
