"""Rows for those who look: those that are kept, or folded up to now in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from clew.journal import Cells, Journal, MemoryJournal, ProjectionFailed
from clew.projections import LiveRows, fold_rows
from tests.projections.tables import Added, CrashingJournal, Item, add, catch_up, put, stock, table


def test_rows_are_folded_in_memory_from_the_checkpoint_where_nothing_can_be_written() -> None:
    journal = CrashingJournal()
    add(journal, "nut", "bolt")
    catch_up(journal)
    add(journal, "nut")
    put(journal, [Added("nut", 5)])
    writes = journal.writes

    rows = fold_rows(journal, stock())

    assert rows.get("nut") == Item(7, [1, 3, 4])
    assert [key for key, _ in rows.scan()] == ["alike/bolt", "alike/nut", "bolt", "nut"]
    assert dict(rows.scan()) == dict(fold_rows(journal, stock(name="never-kept")).scan())
    assert (journal.writes, table(journal)["nut"].seen) == (writes, [1])


def test_a_fold_in_memory_is_of_one_moment_also_while_a_runner_writes() -> None:
    class Busy(MemoryJournal):
        """A journal where somebody folds a batch in the middle of each of the first scans."""

        busy = 0

        @property
        def cells(self) -> Any:
            return BusyCells(super().cells) if self.busy else super().cells

    class BusyCells:
        def __init__(self, cells: Cells) -> None:
            self._cells = cells
            self.get = cells.get

        def scan(self, prefix: bytes, *, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
            for place, cell in enumerate(self._cells.scan(prefix, after=after)):
                if place == 1 and journal.busy:
                    left, journal.busy = journal.busy - 1, 0
                    add(journal, "nut")
                    catch_up(journal)
                    journal.busy = left
                yield cell

    journal = Busy()
    add(journal, "bolt", *["nut"] * 4)
    catch_up(journal)
    journal.busy = 3

    rows = fold_rows(journal, stock())

    assert rows.get("nut") == Item(7, list(range(2, 9)))


def test_an_event_that_cannot_be_folded_in_memory_is_named() -> None:
    journal = MemoryJournal()
    add(journal, "nut")

    with pytest.raises(ProjectionFailed, match="projection 'stock', stock/a, sequence 1: ZeroDivisionError"):
        fold_rows(journal, stock(lambda rows, event, recorded: 1 / 0))  # type: ignore[arg-type,return-value]


def test_rows_can_be_read_one_by_one_and_say_how_far_they_are(journal: Journal) -> None:
    rows = LiveRows(journal, stock())
    assert (rows.get("nut"), list(rows.scan()), rows.position) == (None, [], 0)

    add(journal, "nut", "bolt")
    catch_up(journal)

    assert (rows.get("nut"), rows.get("screw"), rows.position) == (Item(1, [1]), None, 2)
    assert [key for key, _ in rows.scan("alike/", after="alike/bolt")] == ["alike/nut"]
