"""Memories to fold: what sources said, one event after the other."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from clew.journal import Catalog, Journal, MemoryJournal
from clew.journal.facts import NOTHING
from clew.journal.facts.memory import (
    MEMORY_EVENTS,
    EntitySeen,
    FactsLearned,
    MemoryEvent,
    RelationSeen,
    SourcesUndone,
)
from clew.projections import fold_rows
from clew.projections.episodes import Episodes, episodes
from clew.projections.graph import Graph, graph

CATALOG = Catalog(*MEMORY_EVENTS)


def tell(journal: Journal, *events: MemoryEvent, owner: str = "ann") -> None:
    """Record what happened to the memory of an owner."""
    stream = f"memory/{owner}"
    head = journal.head(stream)
    journal.append(stream, [CATALOG.encode(event)[0] for event in events], expected=head.sequence).wait()


def journal_of(*events: MemoryEvent, owner: str = "ann") -> MemoryJournal:
    """Return a journal in which just this happened."""
    journal = MemoryJournal()
    tell(journal, *events, owner=owner)
    return journal


def graph_of(journal: Journal, owner: str = "ann", *, scope: str | None = None, at: int | None = None) -> Graph:
    return Graph(fold_rows(journal, graph), owner, scope=scope, at=at)


def episodes_of(journal: Journal, owner: str = "ann", *, scope: str | None = None, at: int | None = None) -> Episodes:
    return Episodes(fold_rows(journal, episodes), owner, scope=scope, at=at)


def says(
    source: str, *relations: tuple[str, str, str] | RelationSeen, at: int = 1, scope: str | None = None
) -> FactsLearned:
    """What a source says of things."""
    seen = [one if isinstance(one, RelationSeen) else RelationSeen(*one) for one in relations]
    return FactsLearned(source, [], seen, scope, NOTHING, at)


def names(source: str, *entities: tuple[str, str], at: int = 1) -> FactsLearned:
    return FactsLearned(source, [EntitySeen(*entity) for entity in entities], [], None, NOTHING, at)


def undo(*sources: str, at: int = 9) -> SourcesUndone:
    return SourcesUndone(list(sources), None, "not so", at)


def triples(found: Graph, text: str, **limits: int) -> list[str]:
    """What is around the names in a text, as people write it."""
    return [f"{one.subject} {one.predicate} {one.object}" for one in found.traverse(text, **limits).triples]


def held(found: Graph) -> list[str]:
    """All that holds, in an order of its own."""
    facts: Iterable[object] = (f"{f.subject} {f.predicate} {f.object}" for f in found.facts(limit=100_000) if f.holds)
    return sorted(map(str, facts))


def as_json(value: object) -> bytes:
    return msgspec.json.encode(value)
