"""Changes to the rows of one owner: what a source says is written down, or taken out again."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from ...journal.facts.memory import EntitySeen, FactNamed, RelationSeen
from ..rows import Rows
from .belief import believed, hear
from .names import match_key, name_id, normal, shown
from .rows import (
    EdgeRow,
    EntityRow,
    FactRow,
    GraphRow,
    MentionRow,
    OwnerRow,
    SayingRow,
    SourceRow,
    edge_key,
    edges_of,
    owner_id,
    scope_id,
)

__all__ = ["ALIASES_MAX", "Book"]

ALIASES_MAX = 8
"""How many other spellings of a name are shown."""


class Book:
    """The rows of one owner, to be changed by one event of its memory."""

    def __init__(self, rows: Rows[GraphRow], owner: str) -> None:
        self._rows = rows
        self._of = owner_id(owner)
        found = rows.get(f"o/{self._of}")
        self.owner = found if isinstance(found, OwnerRow) else OwnerRow(owner)

    def close(self, sequence: int) -> None:
        """Note that the event with this sequence counts."""
        self.owner.sequence = sequence
        self._rows.set(f"o/{self._of}", self.owner)

    def learn(
        self, source: str, entities: list[EntitySeen], relations: list[RelationSeen], scope: str | None, at: int
    ) -> None:
        """Write down all that a source says, in place of what it said before."""
        self.undo(source)
        self._source = SourceRow(source, self.owner.sequence + 1, at)
        self._number = 0
        for entity in entities:
            self._see(entity.name, entity.type, scope)
        for relation in relations:
            self._relate(relation, scope, at)
        self.owner.sources += 1
        self._rows.set(self._source_key(source), self._source)

    def undo(self, source: str) -> None:
        """Take out all that a source said; what it had ended holds again."""
        row = self._rows.get(self._source_key(source))
        if not isinstance(row, SourceRow):
            return
        for fact in row.facts:
            self._unsay(fact, row.sequence)
        for pair in row.pairs:
            self._unreplace(pair, row.sequence)
        for entity in row.entities:
            self._unsee(entity, row.sequence)
        self.owner.sources -= 1
        self._rows.delete(self._source_key(source))

    def forget(self, named: FactNamed) -> None:
        """Take out a fact and all that was said of it, and its entities where nothing else is said of them."""
        subject, object_ = name_id(normal(named.subject)), name_id(normal(named.object))
        key = self._fact_id(subject, named.predicate, object_, named.scope)
        fact = self._rows.get(f"f/{self._of}/{key}")
        if not isinstance(fact, FactRow):
            return
        self._place(key, fact, None)
        for said, _ in list(self._rows.scan(f"y/{self._of}/{key}/")):
            self._rows.delete(said)
        self._rows.delete(f"f/{self._of}/{key}")
        for name in {subject, object_}:
            if not any(True for letter in "ax" for _ in self._rows.scan(edges_of(letter, self._of, name, named.scope))):
                self._drop(f"{name}/{scope_id(named.scope)}")

    def _see(self, name: str, type_: str, scope: str | None) -> str:
        """Write down that an entity was named; return the id of its name."""
        id_ = name_id(normal(name))
        entity = f"{id_}/{scope_id(scope)}"
        mention = f"n/{self._of}/{entity}/{self._source.sequence:016d}"
        found = self._rows.get(mention)
        if isinstance(found, MentionRow):
            # Named before by this source: what kind of thing it is may be new.
            if type_ and not found.type:
                self._rows.set(mention, MentionRow(found.name, shown(type_)))
                self._describe(entity, scope)
            return id_
        self._rows.set(mention, MentionRow(shown(name), shown(type_)))
        row = self._rows.get(f"e/{self._of}/{entity}")
        if isinstance(row, EntityRow):
            row.mentions += 1
            _heard_as(row, shown(name), shown(type_))
        else:
            row = EntityRow(shown(name), shown(type_), scope, 1)
            self.owner.entities += 1
            self._rows.set(self._words_key(name, entity), EdgeRow("", entity))
        self._rows.set(f"e/{self._of}/{entity}", row)
        self._source.entities.append(entity)
        return id_

    def _unsee(self, entity: str, sequence: int) -> None:
        row = self._rows.get(f"e/{self._of}/{entity}")
        if not isinstance(row, EntityRow):
            return
        mention = f"n/{self._of}/{entity}/{sequence:016d}"
        if self._rows.get(mention) is None:
            return
        self._rows.delete(mention)
        if row.mentions == 1:
            self._drop(entity)
        else:
            self._describe(entity, row.scope)

    def _describe(self, entity: str, scope: str | None) -> None:
        """Fold an entity again from each time that it was named."""
        row: EntityRow | None = None
        for mention in self._mentions(entity):
            if row is None:
                row = EntityRow(mention.name, mention.type, scope, 1)
            else:
                row.mentions += 1
                _heard_as(row, mention.name, mention.type)
        if row is not None:
            self._rows.set(f"e/{self._of}/{entity}", row)

    def _drop(self, entity: str) -> None:
        row = self._rows.get(f"e/{self._of}/{entity}")
        if not isinstance(row, EntityRow):
            return
        for mention, _ in list(self._rows.scan(f"n/{self._of}/{entity}/")):
            self._rows.delete(mention)
        self._rows.delete(self._words_key(row.name, entity))
        self._rows.delete(f"e/{self._of}/{entity}")
        self.owner.entities -= 1

    def _relate(self, relation: RelationSeen, scope: str | None, at: int) -> None:
        subject, object_ = self._see(relation.subject, "", scope), self._see(relation.object, "", scope)
        key = self._fact_id(subject, relation.predicate, object_, scope)
        begins, ends = relation.valid_from, relation.valid_to
        fact = FactRow(subject, shown(relation.predicate), object_, scope)
        if relation.replaces and not relation.ended:
            over = at if begins is None else begins
            self._replace(_pair(fact), key, self._saying("replaced", relation, None, over, at))
        if relation.ended:
            over = next((time for time in (ends, begins) if time is not None), at)
            self._say(key, fact, self._saying("ended", relation, None, over, at))
        else:
            self._say(key, fact, self._saying("said", relation, begins, ends, at))

    def _saying(
        self, kind: str, relation: RelationSeen, valid_from: int | None, valid_to: int | None, at: int
    ) -> SayingRow:
        return SayingRow(
            kind, self._source.source, shown(relation.predicate), relation.weight, valid_from, valid_to, at
        )

    def _say(self, key: str, new: FactRow, saying: SayingRow) -> None:
        found = self._rows.get(f"f/{self._of}/{key}")
        before = found if isinstance(found, FactRow) else None
        self._rows.set(f"y/{self._of}/{key}/{self._turn()}", saying)
        self._place(key, before, hear(before or new, saying))
        if key not in self._source.facts:
            self._source.facts.append(key)

    def _replace(self, pair: str, fact: str, saying: SayingRow) -> None:
        """End all facts of a subject and a predicate but one."""
        saying.fact = fact
        self._rows.set(f"r/{self._of}/{pair}/{self._turn()}", saying)
        for key, other in self._facts_of(pair, "a"):
            if key != fact:
                self._place(key, other, hear(other, saying))
        if pair not in self._source.pairs:
            self._source.pairs.append(pair)

    def _unreplace(self, pair: str, sequence: int) -> None:
        for said, _ in list(self._rows.scan(f"r/{self._of}/{pair}/{sequence:016d}/")):
            self._rows.delete(said)
        for letter in "ax":
            for key, fact in self._facts_of(pair, letter):
                self._place(key, fact, believed(fact, self._sayings(key, fact)))

    def _turn(self) -> str:
        """Return the place of one more saying among all."""
        self._number += 1
        return f"{self._source.sequence:016d}/{self._number:04d}"

    def _unsay(self, key: str, sequence: int) -> None:
        found = self._rows.get(f"f/{self._of}/{key}")
        if not isinstance(found, FactRow):
            return
        for said, _ in list(self._rows.scan(f"y/{self._of}/{key}/{sequence:016d}/")):
            self._rows.delete(said)
        if any(True for _ in self._rows.scan(f"y/{self._of}/{key}/")):
            self._place(key, found, believed(found, self._sayings(key, found)))
        else:
            self._place(key, found, None)
            self._rows.delete(f"f/{self._of}/{key}")

    def _place(self, key: str, before: FactRow | None, after: FactRow | None) -> None:
        """Put a fact where it is found, and take it away from where it was."""
        for row, count in ((before, -1), (after, 1)):
            if row is None or not row.spans:
                continue
            letter = "a" if row.holds else "x"
            for name, other in {row.subject: row.object, row.object: row.subject}.items():
                edge = edge_key(letter, self._of, name, row.scope, row.weight, key)
                self._rows.set(edge, EdgeRow(key, other)) if count > 0 else self._rows.delete(edge)
            pair = f"p/{self._of}/{_pair(row)}/{letter}/{key}"
            self._rows.set(pair, EdgeRow(key, row.object)) if count > 0 else self._rows.delete(pair)
            if row.holds:
                self.owner.current += count
            else:
                self.owner.past += count
        if after is not None:
            self._rows.set(f"f/{self._of}/{key}", after)

    def _mentions(self, entity: str) -> Iterator[MentionRow]:
        rows = self._rows.scan(f"n/{self._of}/{entity}/")
        return (row for _, row in list(rows) if isinstance(row, MentionRow))

    def _sayings(self, key: str, fact: FactRow) -> Iterator[SayingRow]:
        """Return what was said of a fact, and in place of it, in the order in which it was said."""
        prefixes = (f"y/{self._of}/{key}/", f"r/{self._of}/{_pair(fact)}/")
        said = sorted(
            ((at[len(prefix) :], row) for prefix in prefixes for at, row in self._rows.scan(prefix)), key=itemgetter(0)
        )
        return (row for _, row in said if isinstance(row, SayingRow) and row.fact != key)

    def _facts_of(self, pair: str, letter: str) -> Iterator[tuple[str, FactRow]]:
        edges = [row for _, row in self._rows.scan(f"p/{self._of}/{pair}/{letter}/") if isinstance(row, EdgeRow)]
        for edge in edges:
            fact = self._rows.get(f"f/{self._of}/{edge.fact}")
            if isinstance(fact, FactRow):
                yield edge.fact, fact

    def _fact_id(self, subject: str, predicate: str, object_: str, scope: str | None) -> str:
        return name_id(scope_id(scope), subject, normal(predicate), object_)

    def _source_key(self, source: str) -> str:
        return f"s/{self._of}/{name_id(source)}"

    def _words_key(self, name: str, entity: str) -> str:
        return f"k/{self._of}/{name_id(match_key(name))}/{entity}"


def _pair(fact: FactRow) -> str:
    """Return what the facts with the subject and the predicate of this one have in common."""
    return f"{scope_id(fact.scope)}/{fact.subject}/{name_id(normal(fact.predicate))}"


def _heard_as(row: EntityRow, name: str, type_: str) -> None:
    """Take another spelling of an entity in; the first one is shown, and the first kind of thing it was said to be."""
    if name != row.name and name not in row.aliases and len(row.aliases) < ALIASES_MAX:
        row.aliases.append(name)
    row.type = row.type or type_
