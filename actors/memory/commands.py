"""What the memory of an owner can be asked. Times arrive with the command, in nanoseconds since the epoch, UTC."""

from __future__ import annotations

import msgspec

from ...journal.facts import NOTHING, ErrorFact
from ...journal.facts.memory import EntitySeen, FactNamed, RelationSeen

__all__ = [
    "CompleteEpisode",
    "CompleteExtraction",
    "CompleteMerge",
    "FailLesson",
    "FailMerge",
    "MemoryCommand",
    "ObserveRun",
    "PruneMemory",
    "Remember",
    "TellEpisode",
    "TellFacts",
    "UndoSources",
]


class ObserveRun(msgspec.Struct, frozen=True):
    """Learn from a run that was answered; `wants` are the lessons. The same source again changes nothing."""

    source: str
    thread: str
    run: str
    agent: str
    scope: str | None
    asked: str
    answered: str
    wants: list[str]
    at: int


class Remember(msgspec.Struct, frozen=True):
    """Remember a text that a tool noted; `id` is its source."""

    id: str
    text: str
    thread: str
    run: str
    at: int
    scope: str | None = None


class TellFacts(msgspec.Struct, frozen=True):
    """Learn facts that are known already; all that this source says."""

    source: str
    entities: list[EntitySeen]
    relations: list[RelationSeen]
    scope: str | None
    at: int


class TellEpisode(msgspec.Struct, frozen=True):
    """Remember that something happened."""

    source: str
    text: str
    scope: str | None
    at: int


class CompleteExtraction(msgspec.Struct, frozen=True):
    """Say what a run taught of entities and relations."""

    source: str
    entities: list[EntitySeen]
    relations: list[RelationSeen]
    at: int
    usage: msgspec.Raw = NOTHING


class CompleteEpisode(msgspec.Struct, frozen=True):
    """Say in a sentence what happened in a run."""

    source: str
    text: str
    at: int
    usage: msgspec.Raw = NOTHING


class CompleteMerge(msgspec.Struct, frozen=True):
    """Say in a sentence what happened in the episodes of these sources, which become one."""

    sources: list[str]
    text: str
    at: int
    usage: msgspec.Raw = NOTHING


class FailLesson(msgspec.Struct, frozen=True):
    """Say that nothing could be learned of a source: `lesson` is `graph` or `episodic`."""

    source: str
    lesson: str
    error: ErrorFact
    at: int
    usage: msgspec.Raw = NOTHING


class FailMerge(msgspec.Struct, frozen=True):
    """Say that the episodes of these sources could not become one; they are forgotten, so that others have room."""

    sources: list[str]
    error: ErrorFact
    at: int
    usage: msgspec.Raw = NOTHING


class PruneMemory(msgspec.Struct, frozen=True):
    """Forget facts, and episodes by their sources."""

    facts: list[FactNamed]
    episodes: list[str]
    reason: str
    at: int


class UndoSources(msgspec.Struct, frozen=True):
    """Forget all that came from these sources, and what of theirs is still to be learned."""

    sources: list[str]
    by: str | None
    reason: str
    at: int


MemoryCommand = (
    ObserveRun
    | Remember
    | TellFacts
    | TellEpisode
    | CompleteExtraction
    | CompleteEpisode
    | CompleteMerge
    | FailLesson
    | FailMerge
    | PruneMemory
    | UndoSources
)
