"""The rows that the graph of an owner is folded into, and their keys.

All keys begin with a letter, the id of the owner, and go on with ids of a fixed size, so that neither long nor odd
names meet a limit of keys, and what belongs together is read in one scan:

- `o/OWNER`: the owner; `s/OWNER/SOURCE`: what a source said;
- `e/OWNER/NAME/SCOPE`: an entity; `n/OWNER/NAME/SCOPE/SEQUENCE`: each time it was named; `k/OWNER/WORDS/NAME/SCOPE`:
  the words by which it is found in a text;
- `f/OWNER/FACT`: a fact; `y/OWNER/FACT/SEQUENCE/N`: each time something was said of it;
- `a/OWNER/NAME/SCOPE/WEIGHT/FACT`: the facts that hold, at both of their ends, the heaviest first; `x/...`: those that
  are over; `p/OWNER/SCOPE/NAME/PREDICATE/a/FACT` and `.../x/FACT`: the same by subject and predicate;
- `r/OWNER/SCOPE/NAME/PREDICATE/SEQUENCE/N`: each time that a fact was said in place of all others of these.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from .names import name_id

__all__ = [
    "EdgeRow",
    "EntityRow",
    "FactRow",
    "GraphRow",
    "MentionRow",
    "OwnerRow",
    "SayingRow",
    "SourceRow",
    "Span",
    "edge_key",
    "edges_of",
    "owner_id",
    "owner_prefixes",
    "scope_id",
    "weight_key",
]


class OwnerRow(msgspec.Struct, tag_field="row", tag="owner"):
    """Whose graph it is, the last event of it that counts, and how much it holds."""

    owner: str
    sequence: int = 0
    entities: int = 0
    current: int = 0
    past: int = 0
    sources: int = 0


class SourceRow(msgspec.Struct, tag_field="row", tag="source"):
    """What a source said: in which event, of which entities and facts, and where nothing else holds."""

    source: str
    sequence: int
    at: int
    entities: list[str] = []
    facts: list[str] = []
    pairs: list[str] = []


class EntityRow(msgspec.Struct, tag_field="row", tag="entity"):
    """Somebody or something: the first spelling, other ones, what kind of thing it is, how often it was named."""

    name: str
    type: str
    scope: str | None
    mentions: int
    aliases: list[str] = []


class MentionRow(msgspec.Struct, tag_field="row", tag="mention"):
    """One time that an entity was named by a source."""

    name: str
    type: str


class Span(msgspec.Struct):
    """A time in which a fact was believed, until `ended_at`, and the time for which it was: `valid_from`, `valid_to`.

    `ended_by` is the source that ended it. A time that is None is open.
    """

    learned_at: int
    learned_from: str
    valid_from: int | None
    valid_to: int | None
    ended_at: int | None = None
    ended_by: str | None = None


class FactRow(msgspec.Struct, tag_field="row", tag="fact"):
    """What was said of a subject and an object, by the ids of their names: when it was believed, and how much."""

    subject: str
    predicate: str
    object: str
    scope: str | None
    weight: float = 0.0
    said: int = 0
    said_at: int = 0
    spans: list[Span] = []

    @property
    def holds(self) -> bool:
        """Whether it is believed."""
        return bool(self.spans) and self.spans[-1].ended_at is None


class SayingRow(msgspec.Struct, tag_field="row", tag="saying"):
    """One time that a source said a fact (`said`), its end (`ended`), or `fact` in place of others (`replaced`)."""

    kind: str
    source: str
    predicate: str
    weight: float
    valid_from: int | None
    valid_to: int | None
    at: int
    fact: str = ""


class EdgeRow(msgspec.Struct, tag_field="row", tag="edge"):
    """A fact at one of its ends: the fact, and the name at the other end."""

    fact: str
    other: str


GraphRow: TypeAlias = OwnerRow | SourceRow | EntityRow | MentionRow | FactRow | SayingRow | EdgeRow


def owner_id(owner: str) -> str:
    """Return the id of an owner in keys."""
    return name_id("owner", owner)


def owner_prefixes(owner: str) -> list[str]:
    """Return the prefixes of all keys of an owner, in their order."""
    return [f"{letter}/{owner_id(owner)}" for letter in "aefknoprsxy"]


def scope_id(scope: str | None) -> str:
    """Return the id of a scope in keys; `-` is the owner's own."""
    return "-" if scope is None else name_id("scope", scope)


def weight_key(weight: float) -> str:
    """Return a weight as a part of keys, the heaviest first."""
    return f"{1000 - round(weight * 1000):04d}"


def edge_key(letter: str, owner: str, name: str, scope: str | None, weight: float, fact: str) -> str:
    """Return the key of a fact at one of its ends; `letter` is `a` where it holds and `x` where it is over."""
    return f"{edges_of(letter, owner, name, scope)}{weight_key(weight)}/{fact}"


def edges_of(letter: str, owner: str, name: str, scope: str | None) -> str:
    """Return the prefix of the facts of a name."""
    return f"{letter}/{owner}/{name}/{scope_id(scope)}/"
