"""A durable projection goes on where it was, counts each event once, and parks what it cannot fold."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from clew.journal import CellWrite, Journal, MemoryJournal, ProjectionFailed, RecordedEvent
from clew.journal.contract.subject import in_threads
from clew.projections import DurableProjection, Rows, projection_status
from tests.projections.tables import (
    CrashingJournal,
    Item,
    Removed,
    Stocked,
    add,
    catch_up,
    count_stock,
    keys,
    put,
    put_unknown,
    stock,
    table,
)


def test_rows_are_kept_and_gone_on_with_by_another_process(journal: Journal) -> None:
    add(journal, "nut", "bolt", "nut")
    catch_up(journal)
    assert table(journal)["nut"] == Item(2, [1, 3])

    add(journal, "bolt")
    put(journal, [Removed("nut")])
    catch_up(journal)

    assert {key: item.seen for key, item in table(journal).items() if item.seen} == {"bolt": [2, 4]}
    assert [(s.state, s.position, s.events) for s in projection_status(journal)] == [("live", 5, 5)]


def test_a_batch_is_one_write_and_as_large_as_was_asked_for() -> None:
    journal = CrashingJournal()
    add(journal, *(f"item {n}" for n in range(20)))
    durable = DurableProjection(journal, stock(), batch_events_max=5)
    durable.advance()
    begun = journal.writes

    durable.catch_up()
    assert journal.writes - begun == 4

    catch_up(journal, stock(name="small", category=None), batch_bytes_max=1)
    assert journal.writes - begun - 4 == 1 + 20


def test_what_is_for_others_is_passed_and_not_counted(journal: Journal) -> None:
    add(journal, "nut")
    add(journal, "nut", stream="other/a")
    put_unknown(journal)
    add(journal, "nut")

    catch_up(journal)
    catch_up(journal, stock(name="everything", category=None))

    assert table(journal)["nut"].seen == [1, 4]
    assert table(journal, stock(name="everything", category=None))["nut"].seen == [1, 2, 4]
    assert [(s.name, s.events) for s in projection_status(journal)] == [("everything", 3), ("stock", 2)]


def test_passing_over_what_is_for_others_writes_nothing_and_reads_it_once() -> None:
    class Counting(CrashingJournal):
        read_events = 0

        def read_all(self, *, after: int = 0, category: str | None = None) -> Any:
            for event in super().read_all(after=after, category=category):
                self.read_events += 1
                yield event

    journal = Counting()
    durable = catch_up(journal)
    writes = journal.writes

    for _ in range(20):
        add(journal, "nut", stream="other/a")
        durable.catch_up()
    assert (journal.writes, journal.read_events) == (writes, 20)

    add(journal, *["nut"] * 5000, stream="other/a")
    durable.catch_up()
    assert journal.writes == writes + 1
    assert durable.status()[0].position > 4000


def test_a_second_runner_finds_that_the_first_has_counted() -> None:
    journal = MemoryJournal()
    add(journal, *["nut"] * 300)
    runners = [DurableProjection(journal, stock(), batch_events_max=3) for _ in range(3)]

    def fold(runner: DurableProjection[Any, Any]) -> None:
        runner.catch_up()

    in_threads([partial(fold, runner) for runner in runners])

    assert table(journal)["nut"] == Item(300, list(range(1, 301)))
    assert projection_status(journal)[0].events == 300


def test_of_two_runners_in_the_middle_of_one_batch_one_writes() -> None:
    journal = MemoryJournal()
    add(journal, "nut")
    late = DurableProjection(journal, stock())
    late.advance()

    def overtaken(rows: Rows[Item], event: Stocked, recorded: RecordedEvent) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise AssertionError
        if not first:
            first.append(catch_up(journal))
        count_stock(rows, event, recorded)

    first: list[object] = []
    catch_up(journal, stock(overtaken))

    assert table(journal)["nut"] == Item(1, [1])
    assert projection_status(journal)[0].events == 1


@pytest.mark.scenario("STR-07")
def test_an_event_that_fails_parks_its_projection_with_its_place_and_reason(journal: Journal) -> None:
    tried: list[int] = []

    def fails_at_5(rows: Rows[Item], event: Stocked, recorded: RecordedEvent) -> None:
        count_stock(rows, event, recorded)
        if recorded.position == 5:
            tried.append(5)
            raise ZeroDivisionError("division by zero")

    add(journal, *["nut"] * 10)
    parked = catch_up(journal, stock(fails_at_5), attempts=4)

    [status] = parked.status()
    assert status.parked is not None
    assert (status.state, status.parked.position, status.parked.error) == ("parked", 5, "ZeroDivisionError")
    assert (status.parked.stream, status.parked.sequence, status.position) == ("stock/a", 5, 4)
    assert len(tried) == 4
    assert status.advice == (
        "projection 'stock', version 1, is parked at position 5 (stock/a, sequence 5): ZeroDivisionError: "
        "division by zero. Correct its code and retry it, or give it a higher version to fold everything again."
    )
    # What came before it counts, and nothing of the event itself; a restart alone changes nothing.
    assert table(journal)["nut"].seen == [1, 2, 3, 4]
    corrected = catch_up(journal)
    assert corrected.status() == [status] == projection_status(journal)

    assert corrected.retry()
    corrected.catch_up()

    assert table(journal)["nut"].seen == list(range(1, 11))
    assert [(s.state, s.position, s.events) for s in corrected.status()] == [("live", 10, 10)]
    assert not corrected.retry()


def test_an_event_that_fails_only_at_first_parks_nobody() -> None:
    journal, tries = MemoryJournal(), list[int]()

    def fails_twice(rows: Rows[Item], event: Stocked, recorded: RecordedEvent) -> None:
        if recorded.position == 2 and len(tries) < 2:
            tries.append(2)
            raise OSError("for now")
        count_stock(rows, event, recorded)

    add(journal, "nut", "nut", "nut")

    assert [s.state for s in catch_up(journal, stock(fails_twice)).status()] == ["live"]
    assert table(journal)["nut"].seen == [1, 2, 3]


def test_an_unknown_event_parks_a_projection_that_wants_to_know_them_all(journal: Journal) -> None:
    add(journal, "nut")
    put_unknown(journal)
    strict = stock(name="strict", unknown="error")

    catch_up(journal, strict)
    catch_up(journal)

    assert [(s.name, s.state) for s in projection_status(journal)] == [("stock", "live"), ("strict", "parked")]
    advice = projection_status(journal)[1].advice
    assert "stock/a, sequence 2" in advice
    assert "'stock.counted' version 1" in advice


def test_events_of_a_deleted_stream_stay_folded(journal: Journal) -> None:
    memory = MemoryJournal()
    add(memory, "nut")
    add(memory, "nut", stream="stock/b")
    catch_up(memory)

    memory.delete("stock/a", expected=1).wait()
    add(memory, "nut", stream="stock/b")
    catch_up(memory)

    assert table(memory)["nut"].seen == [1, 2, 3]


@pytest.mark.parametrize("lost", [b"projection/at/", b"projection/builds/", b"projection/"])
def test_losing_cells_loses_time_and_never_counts_twice(lost: bytes) -> None:
    journal = MemoryJournal()
    add(journal, "nut", "nut")
    catch_up(journal)

    journal.cells.write([CellWrite(key, None) for key in keys(journal.cells, lost)]).wait()
    if lost == b"projection/builds/":
        journal.cells.write([CellWrite(key, None) for key in keys(journal.cells)]).wait()
    catch_up(journal)

    assert table(journal)["nut"].seen == [1, 2]


def test_a_checkpoint_that_cannot_be_read_is_an_error_and_starts_nothing_over() -> None:
    journal = MemoryJournal()
    journal.cells.write([CellWrite(b"projection/builds/stock", b"[1]")]).wait()

    with pytest.raises(ProjectionFailed, match="projection 'stock', its checkpoint"):
        catch_up(journal)


@pytest.mark.parametrize("wrong", [{"batch_events_max": 0}, {"batch_bytes_max": 0}, {"attempts": 0}])
def test_a_limit_below_one_is_refused_at_the_call(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="is at least 1, not 0"):
        DurableProjection(MemoryJournal(), stock(), **wrong)
