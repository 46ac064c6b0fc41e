"""The graphs of all owners, folded from what their memories learned."""

from __future__ import annotations

from typing import TypeAlias, cast

from ...journal import Catalog, RecordedEvent
from ...journal.facts.memory import FactsLearned, MemoryPruned, SourcesUndone
from ..rows import RowProjection, Rows
from .book import Book
from .rows import EdgeRow, EntityRow, FactRow, GraphRow, MentionRow, OwnerRow, SayingRow, SourceRow

__all__ = ["GraphEvent", "graph"]

GraphEvent: TypeAlias = FactsLearned | MemoryPruned | SourcesUndone


def _apply(rows: Rows[GraphRow], event: GraphEvent, recorded: RecordedEvent) -> None:
    book = Book(rows, recorded.stream.partition("/")[2])
    if recorded.sequence <= book.owner.sequence:
        # A stream that came back from its archive is folded again, and counts once.
        return
    match event:
        case FactsLearned():
            book.owner.sequence = recorded.sequence - 1
            book.learn(event.source, event.entities, event.relations, event.scope, event.at)
        case MemoryPruned():
            for fact in event.facts:
                book.forget(fact)
        case SourcesUndone():
            for source in event.sources:
                book.undo(source)
    book.close(recorded.sequence)


graph: RowProjection[GraphRow, GraphEvent] = RowProjection(
    name="memory-graph",
    version=1,
    catalog=Catalog(FactsLearned, MemoryPruned, SourcesUndone),
    row=cast("type[GraphRow]", OwnerRow | SourceRow | EntityRow | MentionRow | FactRow | SayingRow | EdgeRow),
    apply=_apply,
    category="memory",
)
"""Entities and what is said of them, by owner; see `Graph`."""
