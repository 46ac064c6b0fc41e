"""Projections kept up in the background: woken by the writer, each alone with its failures."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from clew.journal import CellWrite, Commit, Journal, JournalFull, MemoryJournal, RecordedEvent
from clew.projections import LiveRows, ProjectionRunner, Rows, projection_status
from tests.projections.notes import WAIT_S
from tests.projections.tables import Item, Stocked, add, count_stock, stock, table


def test_what_is_appended_counts_without_asking(journal: Journal) -> None:
    counted = threading.Event()

    def tell(rows: Rows[Item], event: Stocked, recorded: RecordedEvent) -> None:
        count_stock(rows, event, recorded)
        if recorded.sequence == 3:
            counted.set()

    with ProjectionRunner(journal, [stock(tell)]):
        for _ in range(3):
            add(journal, "nut")
        assert counted.wait(WAIT_S)

    assert table(journal)["nut"].seen == [1, 2, 3]


def test_settling_waits_until_what_is_durable_counts_everywhere(journal: Journal) -> None:
    projections = [stock(), stock(name="other", category="other"), stock(name="everything", category=None)]
    with ProjectionRunner(journal, projections, batch_events_max=2) as runner:
        for n in range(1, 5):
            add(journal, *["nut"] * 5)
            add(journal, "nut", stream="other/a")
            runner.settle(timeout_s=WAIT_S)
            assert [s.events for s in runner.status()] == [5 * n, n, 6 * n]


def test_a_runner_goes_on_where_the_last_one_stopped(journal: Journal) -> None:
    for n in range(3):
        with ProjectionRunner(journal, [stock()]) as runner:
            add(journal, "nut")
            runner.settle(timeout_s=WAIT_S)
        assert table(journal)["nut"].seen == list(range(1, n + 2))


class Poison:
    """A projection that fails at an event until it is corrected."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.tries = 0

    def apply(self, rows: Rows[Item], event: Stocked, recorded: RecordedEvent) -> None:
        if recorded.position == self.at:
            self.tries += 1
            raise ZeroDivisionError
        count_stock(rows, event, recorded)


@pytest.mark.scenario("STR-07")
def test_one_projection_that_fails_is_tried_again_parked_and_listed_and_the_others_go_on(journal: Journal) -> None:
    poison = Poison(at=5)
    with ProjectionRunner(
        journal, [stock(poison.apply, name="poisoned"), stock(name="fine")], attempts=3, backoff_s=0.001
    ) as runner:
        for _ in range(10):
            add(journal, "nut")
        runner.settle(timeout_s=WAIT_S)

        poisoned, fine = runner.status()
        assert poisoned.parked is not None
        assert (poisoned.state, poisoned.parked.position, poisoned.parked.error) == ("parked", 5, "ZeroDivisionError")
        assert poison.tries == 3
        assert (fine.state, fine.position) == ("live", 10)
        assert "stock/a, sequence 5" in poisoned.advice
        assert len(list(journal.read_all())) == 10

        poison.at = 0
        assert runner.retry("poisoned")
        runner.settle(timeout_s=WAIT_S)

        assert [(s.state, s.position, s.events) for s in runner.status()] == [("live", 10, 10)] * 2
        assert runner.stopped == {}


def test_a_projection_is_rebuilt_while_its_runner_keeps_the_rows_up(journal: Journal) -> None:
    with ProjectionRunner(journal, [stock()]) as runner:
        add(journal, *["nut"] * 20)
        assert runner.rebuild("stock").outcome == "switched"
        add(journal, "nut")
        runner.settle(timeout_s=WAIT_S)

        assert LiveRows(journal, stock()).get("nut") == Item(21, list(range(1, 22)))


class FullAtFirst(MemoryJournal):
    """A journal on a disk that is full, for some writes of cells."""

    full = 3

    def write_cells(self, changes: Any) -> Commit:
        if self.full:
            self.full -= 1
            raise JournalFull(path="disk", reason="no space")
        return super().write_cells(changes)


def test_a_full_disk_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    journal = FullAtFirst()
    add(journal, "nut")

    with ProjectionRunner(journal, [stock()], backoff_s=0.001) as runner:
        runner.settle(timeout_s=WAIT_S)

    assert table(journal)["nut"].seen == [1]
    assert caplog.text.count("waits for room") == 3


def test_a_projection_whose_place_cannot_be_read_stops_alone_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    journal = MemoryJournal()
    journal.cells.write([CellWrite(b"projection/builds/stock", b"[1]")]).wait()
    add(journal, "nut")

    with ProjectionRunner(journal, [stock(), stock(name="fine")]) as runner:
        runner.settle(timeout_s=WAIT_S)

        assert list(runner.stopped) == ["stock"]
        assert "its checkpoint" in str(runner.stopped["stock"])
    assert [s.events for s in projection_status_of(journal, "fine")] == [1]


def projection_status_of(journal: Journal, name: str) -> list[Any]:
    journal.cells.write([CellWrite(b"projection/builds/stock", None)]).wait()
    return [status for status in projection_status(journal) if status.name == name]


def test_a_runner_ends_with_its_journal(journal: Journal) -> None:
    before = threading.active_count()
    with ProjectionRunner(journal, [stock(), stock(name="other")]) as runner:
        add(journal, "nut")
        journal.close()
        runner.settle(timeout_s=WAIT_S)

        assert runner.stopped == {}
    assert threading.active_count() <= before


def test_projections_of_one_runner_have_names_of_their_own() -> None:
    with pytest.raises(ValueError, match="two projections are named 'stock'"):
        ProjectionRunner(MemoryJournal(), [stock(), stock(version=2)])


def test_settling_outside_of_the_block_is_refused() -> None:
    with pytest.raises(RuntimeError, match="settle inside the block"):
        ProjectionRunner(MemoryJournal(), [stock()]).settle()


def test_a_projection_that_is_not_there_yet_after_the_time_is_named() -> None:
    going = threading.Event()

    def wait(rows: Rows[Item], event: Stocked, recorded: RecordedEvent) -> None:
        assert going.wait(WAIT_S)

    journal = MemoryJournal()
    add(journal, "nut")
    with ProjectionRunner(journal, [stock(wait)]) as runner:
        with pytest.raises(TimeoutError, match="projection 'stock' has not caught up"):
            runner.settle(timeout_s=0)
        going.set()
        runner.settle(timeout_s=WAIT_S)
