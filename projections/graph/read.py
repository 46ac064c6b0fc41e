"""Reading the graph of an owner: what a text is about, what is said of a name, what was believed when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from heapq import merge, nsmallest
from itertools import chain, islice
from typing import Final, Protocol

import msgspec

from ...journal.facts.memory import FactNamed
from .names import candidates, name_id, normal
from .rows import (
    EdgeRow,
    EntityRow,
    FactRow,
    GraphRow,
    OwnerRow,
    SayingRow,
    Span,
    edges_of,
    owner_id,
    owner_prefixes,
    scope_id,
)

__all__ = ["Counts", "EntityView", "FactView", "Graph", "Saying", "Subgraph", "Triple"]

_LOOKED_AT_MAX: Final = 1000
"""Facts of one name that are looked at for those that held at a time."""


class _Read(Protocol):
    def get(self, key: str) -> GraphRow | None:
        """See `Rows.get`."""
        ...

    def scan(self, prefix: str = "", *, after: str = "") -> Iterator[tuple[str, GraphRow]]:
        """See `Rows.scan`."""
        ...


@dataclass(frozen=True)
class Triple:
    """A fact that holds, as it is shown; `since` is when it was learned, and `source` what from."""

    subject: str
    predicate: str
    object: str
    weight: float
    since: int
    source: str


@dataclass(frozen=True)
class Subgraph:
    """What is around some names: facts and names in the order in which they were come to; `truncated` if cut short."""

    triples: tuple[Triple, ...]
    nodes: tuple[str, ...]
    truncated: bool


@dataclass(frozen=True)
class Saying:
    """One time that something was said of a fact: `said`, `ended`, or `replaced` by another one."""

    kind: str
    source: str
    at: int


@dataclass(frozen=True)
class FactView:
    """A fact with all that is known of it: when it was believed, for which time, and who said so."""

    subject: str
    predicate: str
    object: str
    scope: str | None
    weight: float
    holds: bool
    spans: tuple[Span, ...]
    sayings: tuple[Saying, ...]


@dataclass(frozen=True)
class EntityView:
    """Somebody or something: the first spelling of the name, other ones, its kind, and how often it was named."""

    name: str
    type: str
    aliases: tuple[str, ...]
    mentions: int
    scope: str | None


@dataclass(frozen=True)
class Counts:
    """How much an owner's graph holds."""

    entities: int = 0
    current: int = 0
    past: int = 0
    sources: int = 0


class Graph:
    """The graph of one owner. `rows` are `LiveRows(journal, graph)`, or `fold_rows(journal, graph)` for all up to now.

    With a `scope`, an agent's own facts are seen beside the owner's; without one, the owner's alone. With `at`, what
    was believed at that time, in nanoseconds since the epoch, UTC.
    """

    def __init__(self, rows: _Read, owner: str, *, scope: str | None = None, at: int | None = None) -> None:
        self._rows = rows
        self._owner = owner
        self._of = owner_id(owner)
        self._scopes = (None,) if scope is None else (None, scope)
        self._at = at

    def traverse(
        self, text: str, *, depth: int = 2, seeds_max: int = 4, fan_out: int = 8, nodes_max: int = 32
    ) -> Subgraph:
        """Return what is around the names that a text holds, nearest first; the longest names are looked for first.

        It takes no more than `nodes_max` names and `fan_out` facts of each, the heaviest first, whatever there is.
        """
        seeds = list(islice(self._named_in(text), seeds_max + 1))
        found, shown, far = dict.fromkeys(seeds[:seeds_max], 0), dict[str, Triple](), len(seeds) > seeds_max
        waiting = list(found)
        for name in waiting:
            if found[name] >= depth:
                continue
            edges = list(islice(self._edges(name), fan_out + 1))
            far = far or len(edges) > fan_out
            for edge, fact, span in edges[:fan_out]:
                if edge.other not in found:
                    if len(found) >= nodes_max:
                        far = True
                        continue
                    found[edge.other] = found[name] + 1
                    waiting.append(edge.other)
                if edge.fact not in shown:
                    shown[edge.fact] = self._triple(fact, span)
        return Subgraph(tuple(shown.values()), tuple(self._name(name) for name in found), far)

    def find(self, name: str) -> EntityView | None:
        """Return an entity by any spelling of its name."""
        id_ = name_id(normal(name))
        for scope in self._scopes:
            row = self._rows.get(f"e/{self._of}/{id_}/{scope_id(scope)}")
            if isinstance(row, EntityRow):
                return _entity(row)
        return None

    def entities(self, *, limit: int = 1000) -> list[EntityView]:
        """Return entities, at most `limit`."""
        rows = (row for _, row in self._rows.scan(f"e/{self._of}/"))
        seen = (row for row in rows if isinstance(row, EntityRow) and row.scope in self._scopes)
        return [_entity(row) for row in islice(seen, limit)]

    def facts(self, name: str | None = None, *, limit: int = 1000) -> list[FactView]:
        """Return what is, or was, said of a name, or of all; those that hold first, the heaviest first."""
        return [self._view(key, fact) for key, fact in islice(self._facts(name), limit)]

    def counts(self) -> Counts:
        """Return how much there is, in all scopes."""
        row = self._rows.get(f"o/{self._of}")
        if not isinstance(row, OwnerRow):
            return Counts()
        return Counts(row.entities, row.current, row.past, row.sources)

    def least(self, count: int) -> list[FactNamed]:
        """Return the facts to be forgotten first: what is over, then what weighs least and was said longest ago."""
        rows = ((key, row) for key, row in self._rows.scan(f"f/{self._of}/") if isinstance(row, FactRow))
        least = nsmallest(count, rows, key=lambda item: (item[1].holds, item[1].weight, item[1].said_at, item[0]))
        return [
            FactNamed(self._name(row.subject, row), row.predicate, self._name(row.object, row), row.scope)
            for _, row in least
        ]

    def digest(self) -> str:
        """Return a digest of all that is kept of the owner: the same after a rebuild from nothing."""
        hashed = sha256()
        for prefix in owner_prefixes(self._owner):
            for key, row in self._rows.scan(prefix):
                hashed.update(key.encode() + b"\0" + msgspec.json.encode(row, order="deterministic") + b"\n")
        return hashed.hexdigest()[:32]

    def _named_in(self, text: str) -> Iterator[str]:
        """Yield the ids of the names that a text holds."""
        seen: set[str] = set()
        for words in candidates(text):
            for _, row in self._rows.scan(f"k/{self._of}/{name_id(words)}/"):
                name, _, scope = row.other.partition("/") if isinstance(row, EdgeRow) else ("", "", "")
                if name and name not in seen and scope in map(scope_id, self._scopes):
                    seen.add(name)
                    yield name

    def _edges(self, name: str) -> Iterator[tuple[EdgeRow, FactRow, Span]]:
        """Yield the facts of a name that are, or were, believed, the heaviest first."""
        letters = "a" if self._at is None else "ax"
        prefixes = [edges_of(letter, self._of, name, scope) for letter in letters for scope in self._scopes]
        # Only the end of a key tells in which order facts of one weight come.
        scans = [((key[len(prefix) :], row) for key, row in self._rows.scan(prefix)) for prefix in prefixes]
        for _, edge in islice(merge(*scans, key=lambda item: item[0]), _LOOKED_AT_MAX):
            fact = self._rows.get(f"f/{self._of}/{edge.fact}") if isinstance(edge, EdgeRow) else None
            if isinstance(edge, EdgeRow) and isinstance(fact, FactRow) and (span := self._span(fact)) is not None:
                yield edge, fact, span

    def _span(self, fact: FactRow) -> Span | None:
        """Return the time in which a fact is, or was, believed."""
        if self._at is None:
            return fact.spans[-1] if fact.holds else None
        for span in fact.spans:
            if span.learned_at <= self._at and (span.ended_at is None or self._at < span.ended_at):
                return span
        return None

    def _facts(self, name: str | None) -> Iterator[tuple[str, FactRow]]:
        if name is None:
            prefix = f"f/{self._of}/"
            rows = ((key[len(prefix) :], row) for key, row in self._rows.scan(prefix))
        else:
            id_ = name_id(normal(name))
            scans = [
                self._rows.scan(edges_of(letter, self._of, id_, scope)) for letter in "ax" for scope in self._scopes
            ]
            edges = (row for _, row in chain(*scans) if isinstance(row, EdgeRow))
            rows = ((edge.fact, self._rows.get(f"f/{self._of}/{edge.fact}")) for edge in edges)
        for key, row in rows:
            if not isinstance(row, FactRow) or not row.spans or row.scope not in self._scopes:
                continue
            if self._at is None or self._span(row) is not None:
                yield key, row

    def _view(self, key: str, fact: FactRow) -> FactView:
        sayings = [row for _, row in self._rows.scan(f"y/{self._of}/{key}/") if isinstance(row, SayingRow)]
        return FactView(
            self._name(fact.subject, fact),
            fact.predicate,
            self._name(fact.object, fact),
            fact.scope,
            fact.weight,
            self._span(fact) is not None,
            tuple(fact.spans),
            tuple(Saying(said.kind, said.source, said.at) for said in sayings),
        )

    def _triple(self, fact: FactRow, span: Span) -> Triple:
        subject, object_ = self._name(fact.subject, fact), self._name(fact.object, fact)
        return Triple(subject, fact.predicate, object_, fact.weight, span.learned_at, span.learned_from)

    def _name(self, name: str, fact: FactRow | None = None) -> str:
        """Return a name as it is shown."""
        scopes: Sequence[str | None] = self._scopes if fact is None else (fact.scope, *self._scopes)
        for scope in scopes:
            row = self._rows.get(f"e/{self._of}/{name}/{scope_id(scope)}")
            if isinstance(row, EntityRow):
                return row.name
        return name


def _entity(row: EntityRow) -> EntityView:
    return EntityView(row.name, row.type, tuple(row.aliases), row.mentions, row.scope)
