"""Rows: a batch's changes are seen by what comes after them in it, and taken back with the event that failed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.journal import CellWrite, InvalidName, MemoryJournal, ProjectionFailed
from clew.projections import RowProjection
from clew.projections.buffer import NO_CELLS, RowBuffer, RowCodec
from tests.projections.tables import CATALOG, Item, count_stock, stock

CODEC = RowCodec(Item, prefix=b"rows/", projection="stock")


def buffer(*kept: tuple[str, int]) -> tuple[RowBuffer[Item], MemoryJournal]:
    """A buffer in front of these rows."""
    journal = MemoryJournal()
    journal.cells.write([CellWrite(CODEC.key(key), CODEC.encode(key, Item(n))) for key, n in kept]).wait()
    return RowBuffer(journal.cells, CODEC), journal


def counts(rows: RowBuffer[Item], prefix: str = "", *, after: str = "") -> list[tuple[str, int]]:
    return [(key, item.count) for key, item in rows.scan(prefix, after=after)]


def test_what_was_set_is_got_and_scanned_before_it_is_written() -> None:
    rows, journal = buffer(("b", 1), ("c", 2), ("d", 3))
    rows.set("a", Item(9))
    rows.set("c", Item(8))
    rows.delete("d")

    assert (rows.get("a"), rows.get("b"), rows.get("c"), rows.get("d")) == (Item(9), Item(1), Item(8), None)
    assert counts(rows) == [("a", 9), ("b", 1), ("c", 8)]
    assert counts(rows, after="a") == [("b", 1), ("c", 8)]

    journal.cells.write(rows.writes()).wait()
    assert counts(RowBuffer(journal.cells, CODEC)) == [("a", 9), ("b", 1), ("c", 8)]


def test_a_row_is_kept_as_it_was_when_it_was_set() -> None:
    rows, _ = buffer(("a", 1))
    row = rows.get("a")
    assert row is not None
    row.count = 5
    assert rows.get("a") == Item(1)

    rows.set("a", row)
    row.count = 7

    assert rows.get("a") == Item(5)


def test_what_a_failed_event_changed_is_taken_back_and_no_more() -> None:
    rows, _ = buffer(("a", 1), ("b", 2))
    rows.set("a", Item(5))
    rows.set("new", Item(6))
    rows.keep()
    before, size_bytes = counts(rows), rows.size_bytes
    for key in ("a", "new", "newer"):
        rows.set(key, Item(7))
        rows.set(key, Item(8))
    rows.delete("b")

    rows.drop()

    assert counts(rows) == before == [("a", 5), ("b", 2), ("new", 6)]
    assert rows.size_bytes == size_bytes
    assert sorted(change.key for change in rows.writes()) == [b"rows/a", b"rows/new"]


def test_a_scan_is_as_of_the_call() -> None:
    rows, _ = buffer(("a", 1), ("c", 2))
    rows.set("b", Item(3))
    scan = rows.scan()

    rows.set("b", Item(9))
    rows.set("d", Item(9))
    rows.delete("c")

    assert [(key, item.count) for key, item in scan] == [("a", 1), ("b", 3), ("c", 2)]


KEYS = st.one_of(
    st.text(st.sampled_from("ab/é\0"), min_size=1, max_size=3),
    # Longer than a cell's key may be, and alike in front.
    st.builds("".join, st.tuples(st.sampled_from(["é" * 200, "x" * 300, "x" * 299]), st.text("ab", max_size=2))),
)


@pytest.mark.property
@given(
    kept=st.dictionaries(KEYS, st.integers(0, 9), max_size=8),
    changes=st.lists(st.tuples(KEYS, st.none() | st.integers(0, 9), st.booleans()), max_size=12),
    prefix=st.just("") | KEYS,
)
def test_a_buffer_is_a_dict_in_front_of_cells(
    kept: dict[str, int], changes: list[tuple[str, int | None, bool]], prefix: str
) -> None:
    rows, journal = buffer(*kept.items())
    model = dict(kept)
    for key, count, stays in changes:
        if count is None:
            rows.delete(key)
        else:
            rows.set(key, Item(count))
        if not stays:
            rows.drop()
            continue
        rows.keep()
        if count is None:
            model.pop(key, None)
        else:
            model[key] = count

    wanted = {key: count for key, count in model.items() if key.startswith(prefix)}
    found = counts(rows, prefix)
    assert len(found) == len(wanted)
    assert dict(found) == wanted
    assert all((item.count if (item := rows.get(key)) else None) == model.get(key) for key in {*kept, *model})
    for place, (key, _) in enumerate(found):
        assert counts(rows, prefix, after=key) == found[place + 1 :]
    journal.cells.write(rows.writes()).wait()
    assert counts(RowBuffer(journal.cells, CODEC), prefix) == found


def test_short_keys_are_ordered_by_their_bytes() -> None:
    rows = RowBuffer(NO_CELLS, CODEC)
    names = ["b", "é", "a/b", "a", "道", "a\0", "Z"]
    for name in names:
        rows.set(name, Item())

    assert [key for key, _ in rows.scan()] == sorted(names, key=str.encode)


def test_equal_rows_are_equal_bytes_however_they_were_filled() -> None:
    class Bag(msgspec.Struct):
        names: set[str]
        counts: dict[str, int]

    codec = RowCodec(Bag, prefix=b"", projection="bags")

    assert codec.encode("k", Bag({"a", "b", "c"}, {"x": 1, "y": 2})) == codec.encode(
        "k", Bag({"c", "b", "a"}, {"y": 2, "x": 1})
    )


def test_a_row_that_does_not_fit_its_type_is_an_error_that_says_so() -> None:
    rows, journal = buffer()
    journal.cells.write([CellWrite(b"rows/a", b'["a",{"count":"many"}]')]).wait()

    with pytest.raises(ProjectionFailed, match=r"projection 'stock', a row: .*does not fit its type") as caught:
        rows.get("a")

    assert caught.value.projection == "stock"


def test_a_row_has_a_key() -> None:
    rows, _ = buffer()

    with pytest.raises(ValueError, match="a row needs a key"):
        rows.set("", Item())


@pytest.mark.parametrize("name", ["", "Stock", "a/b", "a" * 65, "1a"])
def test_a_projection_has_a_name_that_fits_in_a_cell(name: str) -> None:
    with pytest.raises(InvalidName, match="a projection is named"):
        stock(name=name)


@pytest.mark.parametrize("wrong", [{"version": 0}, {"unknown": "ignore"}])
def test_a_wrong_version_or_policy_is_refused_at_the_call(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="projection 'stock'"):
        stock(**wrong)


def test_a_projection_is_plain_code_that_can_be_tried_without_a_journal() -> None:
    projection = RowProjection(name="stock", version=1, catalog=CATALOG, row=Item, apply=count_stock)

    assert (projection.unknown, projection.category) == ("skip", None)
