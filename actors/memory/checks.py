"""What may be remembered: sizes, characters, names. What does not fit is refused by name, never cut silently."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from ...journal.facts.memory import EntitySeen, RelationSeen
from ..errors import CommandRejected

__all__ = [
    "ENTITIES_MAX",
    "NAME_LENGTH_MAX",
    "RELATIONS_MAX",
    "SOURCE_LENGTH_MAX",
    "TEXT_LENGTH_MAX",
    "check_facts",
    "check_source",
    "check_text",
    "digest_of_text",
    "is_plain",
]

NAME_LENGTH_MAX: Final = 200
"""Characters of the name of an entity or a relation."""

TEXT_LENGTH_MAX: Final = 2000
"""Characters of an episode or a note."""

SOURCE_LENGTH_MAX: Final = 1000
"""Characters of a source."""

ENTITIES_MAX: Final = 200
RELATIONS_MAX: Final = 200
"""What one source may say."""


def is_plain(text: str) -> bool:
    """Whether a text holds no control characters but tabs and line ends, and nothing that turns the writing around."""
    return all(c in "\t\n\r" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co") or c == "‍" for c in text)


def check_source(stream: str, source: str) -> None:
    """Refuse a source that names nothing."""
    if not 0 < len(source) <= SOURCE_LENGTH_MAX or not source.isprintable():
        raise CommandRejected(
            f"{stream}: {source!r} is not a source: it is printable text, at most {SOURCE_LENGTH_MAX} characters."
        )


def check_text(stream: str, text: str) -> None:
    """Refuse what is too long to be remembered, empty, or no text."""
    if not text.strip() or len(text) > TEXT_LENGTH_MAX:
        raise CommandRejected(
            f"{stream}: what is remembered is text of 1 to {TEXT_LENGTH_MAX} characters, not {len(text)}. Shorten it."
        )
    if not is_plain(text):
        raise CommandRejected(f"{stream}: what is remembered holds control characters. Take them out.")


def check_facts(stream: str, entities: Sequence[EntitySeen], relations: Sequence[RelationSeen]) -> None:
    """Refuse names that are empty, too long or no text, weights out of 0 to 1, spans of time that end first."""
    if len(entities) > ENTITIES_MAX or len(relations) > RELATIONS_MAX:
        raise CommandRejected(
            f"{stream}: a source says at most {ENTITIES_MAX} entities and {RELATIONS_MAX} relations, not "
            f"{len(entities)} and {len(relations)}. Tell them in several sources."
        )
    for entity in entities:
        _check_names(stream, (entity.name,), (entity.type,))
    for relation in relations:
        _check_names(stream, (relation.subject, relation.predicate, relation.object), ())
        if not 0.0 <= relation.weight <= 1.0:
            raise CommandRejected(f"{stream}: the weight of a fact is 0 to 1, not {relation.weight!r}.")
        begins, ends = relation.valid_from, relation.valid_to
        if begins is not None and ends is not None and ends < begins:
            raise CommandRejected(f"{stream}: {relation.subject!r}: a fact ends after it begins, not before.")


def digest_of_text(text: str) -> str:
    """Return what two texts have in common that say the same but for white space and case."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return sha256(plain.encode(errors="surrogatepass")).hexdigest()[:32]


def _check_names(stream: str, needed: Iterable[str], optional: Iterable[str]) -> None:
    for name in needed:
        if not name.strip():
            raise CommandRejected(f"{stream}: a fact names a subject, a predicate and an object; one is empty.")
    for name in (*needed, *optional):
        if len(name) > NAME_LENGTH_MAX or not is_plain(name):
            raise CommandRejected(
                f"{stream}: {name[:50]!r} is not a name: it is text of at most {NAME_LENGTH_MAX} characters without "
                "control characters."
            )
