"""Row projections for tests: a ledger that shows every event that counts, and journals to fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from clew.journal import Catalog, Cells, CellWrite, Commit, Journal, MemoryJournal, NewEvent, RecordedEvent, event
from clew.projections import DurableProjection, LiveRows, RowProjection, Rows


@event("stock.added", version=1)
class Added(msgspec.Struct, frozen=True):
    item: str
    count: int


@event("stock.removed", version=1)
class Removed(msgspec.Struct, frozen=True):
    item: str


Stocked = Added | Removed
CATALOG = Catalog(Added, Removed)


class Item(msgspec.Struct):
    """How many there are, and which events said so, each as often as it was folded."""

    count: int = 0
    seen: list[int] = msgspec.field(default_factory=list[int])


def count_stock(rows: Rows[Item], event: Stocked, recorded: RecordedEvent) -> None:
    item = rows.get(event.item) or Item()
    # Rows are read by prefix as well, so that what a batch holds back would be missed.
    alike = sum(row.count for _, row in rows.scan(event.item[:1]))
    match event:
        case Added():
            item.count += event.count
            item.seen.append(recorded.position)
            rows.set(event.item, item)
            rows.set("alike/" + event.item, Item(alike))
        case Removed():
            rows.delete(event.item)


def stock(
    apply: Callable[[Rows[Item], Stocked, RecordedEvent], None] = count_stock, **options: Any
) -> RowProjection[Item, Stocked]:
    given: dict[str, Any] = {"name": "stock", "version": 1, "category": "stock", **options}
    return RowProjection(catalog=CATALOG, row=Item, apply=apply, **given)


def add(journal: Journal, *items: str, count: int = 1, stream: str = "stock/a") -> None:
    put(journal, [Added(item, count) for item in items], stream=stream)


def put(journal: Journal, events: Sequence[Stocked], *, stream: str = "stock/a") -> None:
    new = [CATALOG.encode(event)[0] for event in events]
    journal.append(stream, new, expected=journal.head(stream).sequence).wait()


def put_unknown(journal: Journal, *, stream: str = "stock/a") -> None:
    new = NewEvent(b'{"event":"stock.counted","version":1,"data":{}}')
    journal.append(stream, [new], expected=journal.head(stream).sequence).wait()


def catch_up(journal: Journal, projection: Any = None, **options: Any) -> DurableProjection[Any, Any]:
    durable = DurableProjection(journal, projection or stock(), **options)
    durable.catch_up()
    return durable


def table(journal: Journal, projection: RowProjection[Item, Stocked] | None = None) -> dict[str, Item]:
    """What a projection has kept."""
    return dict(LiveRows(journal, projection or stock()).scan())


def keys(cells: Cells, prefix: bytes = b"projection/rows/") -> list[bytes]:
    return [key for key, _ in cells.scan(prefix)]


class Crash(BaseException):
    """The process died."""


class CrashingJournal(MemoryJournal):
    """A journal whose process dies at a chosen write of cells: before it, or as soon as it is durable."""

    def __init__(self) -> None:
        super().__init__()
        self.crash_at: int | None = None
        self.durable_first = False
        self.writes = 0
        self.largest_write = 0

    def write_cells(self, changes: Sequence[CellWrite]) -> Commit:
        self.writes += 1
        self.largest_write = max(self.largest_write, len(changes))
        dies = self.writes == self.crash_at
        if dies and not self.durable_first:
            raise Crash
        commit = super().write_cells(changes)
        if dies:
            raise Crash
        return commit
