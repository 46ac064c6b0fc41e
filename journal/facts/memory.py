"""What can happen to the long-term memory of an owner.

Where something came from is its `source`: a run of a thread (`thread/KEY/RUN`), a note that a tool made (the step's
idempotency key, and a number), or a name that whoever told it chose. What a source taught can be undone as a whole.
`scope` is the agent that may recall it, or None for all agents of the owner. Names, versions and fields are stored for
ever. Times are nanoseconds since the epoch, UTC.
"""

from __future__ import annotations

import msgspec

from ..event import event
from .error import ErrorFact

__all__ = [
    "MEMORY_EVENTS",
    "EntitySeen",
    "EpisodeRepeated",
    "EpisodeTold",
    "EpisodesMerged",
    "FactNamed",
    "FactsLearned",
    "LessonFailed",
    "MemoryEvent",
    "MemoryNoted",
    "MemoryPruned",
    "RelationSeen",
    "RunObserved",
    "SourcesUndone",
]


class EntitySeen(msgspec.Struct, frozen=True):
    """Somebody or something, as it was spelled, and what kind of thing it is."""

    name: str
    type: str = ""


class RelationSeen(msgspec.Struct, frozen=True):
    """What was said of two entities, as they were spelled.

    It holds from `valid_from` (None: from when it was learned) to `valid_to` (None: until something ends it). With
    `replaces`, what else was said of `subject` and `predicate` is over from then on; with `ended`, this itself is.
    """

    subject: str
    predicate: str
    object: str
    weight: float = 1.0
    valid_from: int | None = None
    valid_to: int | None = None
    replaces: bool = False
    ended: bool = False


class FactNamed(msgspec.Struct, frozen=True):
    """A fact by what it says, spelled in any way."""

    subject: str
    predicate: str
    object: str
    scope: str | None = None


@event("memory.run_observed", version=1)
class RunObserved(msgspec.Struct, frozen=True):
    """A run of a thread was answered, and is to be learned from; `wants` are the lessons: `graph`, `episodic`."""

    source: str
    thread: str
    run: str
    agent: str
    scope: str | None
    asked: str
    answered: str
    wants: list[str]
    at: int


@event("memory.noted", version=1)
class MemoryNoted(msgspec.Struct, frozen=True):
    """A tool had a text remembered."""

    source: str
    text: str
    thread: str
    run: str
    scope: str | None
    at: int


@event("memory.facts_learned", version=1)
class FactsLearned(msgspec.Struct, frozen=True):
    """What a source says of entities and their relations: all of it, so hearing it again changes nothing."""

    source: str
    entities: list[EntitySeen]
    relations: list[RelationSeen]
    scope: str | None
    usage: msgspec.Raw
    at: int


@event("memory.episode_told", version=1)
class EpisodeTold(msgspec.Struct, frozen=True):
    """What happened in a run, in a sentence."""

    source: str
    text: str
    scope: str | None
    usage: msgspec.Raw
    at: int


@event("memory.episode_repeated", version=1)
class EpisodeRepeated(msgspec.Struct, frozen=True):
    """A source told, or noted, just what the source `of` had; it is counted there."""

    source: str
    of: str
    usage: msgspec.Raw
    at: int


@event("memory.episodes_merged", version=1)
class EpisodesMerged(msgspec.Struct, frozen=True):
    """Old episodes became one, which takes their place."""

    source: str
    merged: list[str]
    text: str
    scope: str | None
    usage: msgspec.Raw
    at: int


@event("memory.lesson_failed", version=1)
class LessonFailed(msgspec.Struct, frozen=True):
    """Nothing was learned of a source: `lesson` is `graph`, `episodic` or `merge`. It is not tried again."""

    source: str
    lesson: str
    error: ErrorFact
    usage: msgspec.Raw
    at: int


@event("memory.pruned", version=1)
class MemoryPruned(msgspec.Struct, frozen=True):
    """Facts, and episodes by their sources, were forgotten; none of them where only looking was needed."""

    facts: list[FactNamed]
    episodes: list[str]
    reason: str
    at: int


@event("memory.sources_undone", version=1)
class SourcesUndone(msgspec.Struct, frozen=True):
    """All that came from these sources is as if it had never been said; what it had ended holds again."""

    sources: list[str]
    by: str | None
    reason: str
    at: int


MemoryEvent = (
    RunObserved
    | MemoryNoted
    | FactsLearned
    | EpisodeTold
    | EpisodeRepeated
    | EpisodesMerged
    | LessonFailed
    | MemoryPruned
    | SourcesUndone
)

MEMORY_EVENTS = (
    RunObserved,
    MemoryNoted,
    FactsLearned,
    EpisodeTold,
    EpisodeRepeated,
    EpisodesMerged,
    LessonFailed,
    MemoryPruned,
    SourcesUndone,
)
