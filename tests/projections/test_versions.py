"""A new version is folded beside the old rows, which are then removed a few at a time."""

from __future__ import annotations

from clew.journal import MemoryJournal
from clew.projections import DurableProjection, projection_status
from tests.projections.tables import CrashingJournal, Item, add, catch_up, keys, stock, table


def test_a_new_version_is_folded_beside_the_live_rows_and_then_takes_their_place() -> None:
    journal = CrashingJournal()
    add(journal, *["nut"] * 1200, "bolt")
    old, new = stock(), stock(version=2)
    catch_up(journal, old)
    before = keys(journal.cells)
    durable = DurableProjection(journal, new, batch_events_max=400)
    states: list[list[tuple[int, str]]] = []

    while durable.advance() == "more":
        states.append([(s.version, s.state) for s in durable.status()])
        assert (table(journal, old) == {}) == ((2, "live") in states[-1])

    assert states[0] == [(1, "live"), (2, "building")]
    assert states[-1] == [(2, "live")]
    assert table(journal, new)["nut"] == Item(1200, list(range(1, 1201)))
    assert set(keys(journal.cells)).isdisjoint(before)
    assert len(keys(journal.cells, b"projection/at/")) == 1


def test_old_rows_are_removed_in_writes_of_a_bounded_size() -> None:
    journal = CrashingJournal()
    add(journal, *(f"item {n}" for n in range(1500)))
    catch_up(journal)
    many = len(keys(journal.cells))
    journal.largest_write = 0

    catch_up(journal, stock(version=2, apply=lambda rows, event, recorded: None))

    assert keys(journal.cells) == []
    assert many > 2000
    assert journal.largest_write <= 500


def test_a_new_version_continues_where_the_old_one_was_parked() -> None:
    journal = MemoryJournal()
    add(journal, "nut", "nut")

    catch_up(journal, stock(lambda rows, event, recorded: 1 / 0))  # type: ignore[arg-type,return-value]
    catch_up(journal, stock(version=2))

    assert [(s.version, s.state) for s in projection_status(journal)] == [(2, "live")]
    assert table(journal, stock(version=2))["nut"].seen == [1, 2]
