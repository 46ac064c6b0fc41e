"""What the contract says of cells."""

from __future__ import annotations

from functools import partial

from ..errors import CellConflict, InvalidName
from ..journal import CELL_KEY_BYTES_MAX, Cells, CellWrite
from .subject import WAIT_S_MAX, Clause, Opener, append, appended, in_threads, note, opened, refusal, same

__all__ = ["CLAUSES"]


def a_cell_holds_what_was_written_last(open_journal: Opener) -> None:
    """A value of any bytes is kept until it is overwritten or deleted."""
    with opened(open_journal) as journal:
        cells = journal.cells
        same(cells.get(b"key"), None, "a cell that was never written")
        for value in (b"one", b"", b"\0" * 100, b"x" * 3_000_000):
            _write(cells, CellWrite(b"key", value))
            same(cells.get(b"key"), value, "the cell")
        _write(cells, CellWrite(b"key", None), CellWrite(b"never there", None))
        same(cells.get(b"key"), None, "the cell that was deleted")


def later_changes_of_one_write_win(open_journal: Opener) -> None:
    """The changes of a write are made in their order."""
    with opened(open_journal) as journal:
        _write(
            journal.cells, CellWrite(b"a", b"1"), CellWrite(b"a", b"2"), CellWrite(b"b", b"1"), CellWrite(b"b", None)
        )
        same(list(journal.cells.scan(b"")), [(b"a", b"2")], "the cells")


def a_change_with_a_condition_is_made_only_if_it_holds(open_journal: Opener) -> None:
    """`expected` is the value a cell must hold, None that there must be no such cell."""
    with opened(open_journal) as journal:
        cells = journal.cells
        _write(cells, CellWrite(b"key", b"1", None))
        _write(cells, CellWrite(b"key", b"2", b"1"))

        for expected in (None, b"1", b"", b"22"):
            error = refusal(CellConflict, partial(_write, cells, CellWrite(b"key", b"3", expected)))
            same(error.key, b"key", "the key that the conflict names")
            same(cells.get(b"key"), b"2", "the cell after a conflict")
        refusal(CellConflict, lambda: _write(cells, CellWrite(b"other", b"3", b"")))
        _write(cells, CellWrite(b"key", None, b"2"))
        same(cells.get(b"key"), None, "the cell that was deleted under a condition")


def a_conflict_undoes_its_own_write_and_no_other(open_journal: Opener) -> None:
    """Of a write that conflicts nothing is there; those beside it are."""
    with opened(open_journal) as journal:
        cells = journal.cells
        _write(cells, CellWrite(b"taken", b"1"))

        before = cells.write([CellWrite(b"before", b"1")])
        torn = cells.write([CellWrite(b"x", b"1"), CellWrite(b"taken", b"2", None), CellWrite(b"y", b"1")])
        append = journal.append("order/1", [note("a")], expected=0)
        behind = cells.write([CellWrite(b"behind", b"1")])

        for commit in (before, append, behind):
            commit.wait(timeout_s=WAIT_S_MAX)
        refusal(CellConflict, lambda: torn.wait(timeout_s=WAIT_S_MAX))
        same([key for key, _ in cells.scan(b"")], [b"before", b"behind", b"taken"], "the cells")
        same(appended(journal, "order/1"), ["a"], "the stream")


def of_many_who_compare_and_set_each_wins_once(open_journal: Opener) -> None:
    """A counter that is read, compared and set by many threads counts each of them."""
    with opened(open_journal) as journal:
        cells = journal.cells

        def count() -> None:
            for _ in range(10):
                while not _count_one(cells):
                    pass

        in_threads([count] * 4)
        same(cells.get(b"counter"), b"40", "the counter")


def _count_one(cells: Cells) -> bool:
    now = cells.get(b"counter")
    try:
        _write(cells, CellWrite(b"counter", b"%d" % (int(now or b"0") + 1), now))
    except CellConflict:
        return False
    return True


def a_scan_has_the_keys_of_its_prefix_in_byte_order(open_journal: Opener) -> None:
    """Keys are bytes; `after` is the last key that is not wanted, whether it exists or not."""
    keys = [b"a", b"a\0", b"a/", b"a/1", b"a/10", b"a/2", b"a\xff", b"b", b"\xff", b"\xff\xff", b"\0"]
    with opened(open_journal) as journal:
        cells = journal.cells
        _write(cells, *(CellWrite(key, b"of " + key) for key in reversed(keys)))

        same(list(cells.scan(b"")), [(key, b"of " + key) for key in sorted(keys)], "all cells")
        for prefix in (b"a", b"a/", b"a/1", b"\xff", b"nothing"):
            wanted = sorted(key for key in keys if key.startswith(prefix))
            same([key for key, _ in cells.scan(prefix)], wanted, f"the keys of {prefix!r}")
            for after in (b"a/1", b"a/15", b"a\xff", b"\0", b"\xff"):
                rest = [key for key in wanted if key > after]
                same(
                    [key for key, _ in cells.scan(prefix, after=after)], rest, f"the keys of {prefix!r} after {after!r}"
                )


def a_long_scan_has_every_cell_once(open_journal: Opener) -> None:
    """However many cells there are, and however large they are."""
    with opened(open_journal) as journal:
        cells = journal.cells
        _write(cells, *(CellWrite(b"n/%05d" % n, b"%d" % n) for n in range(1000)))
        _write(cells, *(CellWrite(b"big/%d" % n, b"x" * 700_000) for n in range(5)))

        same([value for _, value in cells.scan(b"n/")], [b"%d" % n for n in range(1000)], "the cells")
        same([len(value) for _, value in cells.scan(b"big/")], [700_000] * 5, "the sizes of the large cells")


def cells_of_an_append_are_written_with_its_events(open_journal: Opener) -> None:
    """They are in the same transaction: who sees the events sees the cells, and a refused append has none."""
    with opened(open_journal) as journal:
        cells = journal.cells
        _write(cells, CellWrite(b"gone", b"1"))
        changes = [CellWrite(b"cell", b"1"), CellWrite(b"gone", None)]
        journal.append("order/1", [note("a")], expected=0, cells=changes).wait(timeout_s=WAIT_S_MAX)

        same((cells.get(b"cell"), cells.get(b"gone")), (b"1", None), "the cells")


def cells_of_an_append_have_no_conditions(open_journal: Opener) -> None:
    """An append is refused by its expected sequence alone, so a condition there is a mistake."""
    with opened(open_journal) as journal:
        for expected in (None, b"1"):
            cells = [CellWrite(b"cell", b"2", expected)]
            refusal(ValueError, partial(journal.append, "order/1", [note("a")], expected=0, cells=cells))
        same(appended(journal, "order/1"), [], "the stream")
        append(journal, "order/1", "a", expected=0)


def keys_have_a_first_byte_and_a_last(open_journal: Opener) -> None:
    """A key has 1 to `CELL_KEY_BYTES_MAX` bytes, in a write as beside an append."""
    longest = b"k" * CELL_KEY_BYTES_MAX
    with opened(open_journal) as journal:
        for key in (b"", longest + b"k"):
            changes = [CellWrite(b"fine", b"1"), CellWrite(key, b"1")]
            refusal(InvalidName, partial(journal.cells.write, changes))
            refusal(InvalidName, partial(journal.append, "order/1", [note("a")], expected=0, cells=changes))
        _write(journal.cells, CellWrite(longest, b"1"))
        same(list(journal.cells.scan(b"")), [(longest, b"1")], "the cells")
        same(list(journal.cells.scan(b"kk", after=longest)), [], "the cells after the longest key")


def _write(cells: Cells, *changes: CellWrite) -> None:
    cells.write(changes).wait(timeout_s=WAIT_S_MAX)


CLAUSES: tuple[Clause, ...] = (
    a_cell_holds_what_was_written_last,
    later_changes_of_one_write_win,
    a_change_with_a_condition_is_made_only_if_it_holds,
    a_conflict_undoes_its_own_write_and_no_other,
    of_many_who_compare_and_set_each_wins_once,
    a_scan_has_the_keys_of_its_prefix_in_byte_order,
    a_long_scan_has_every_cell_once,
    cells_of_an_append_are_written_with_its_events,
    cells_of_an_append_have_no_conditions,
    keys_have_a_first_byte_and_a_last,
)
