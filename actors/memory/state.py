"""The memory of an owner as its actor knows it: what is still to be learned, and which episodes are kept.

The graph is not here: it is folded into rows (`projections/graph`), however large it is. What is here is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from ...journal.facts.memory import RunObserved
from ..effect import Effect

__all__ = [
    "EPISODIC",
    "GRAPH",
    "MERGE",
    "EpisodeKept",
    "GardenFacts",
    "LearnEpisode",
    "LearnFacts",
    "MemoryLimits",
    "MemoryState",
    "MergeEpisodes",
    "lesson_key",
    "mark",
    "oldest",
    "open_work",
]

GRAPH, EPISODIC, MERGE = "graph", "episodic", "merge"
"""The lessons: what a run says of things and their relations, what happened in it, what many episodes come to."""


class MemoryLimits(msgspec.Struct, frozen=True):
    """How much is kept for each owner, and done at a time.

    Above `episodes_max` episodes, the `merge_window` oldest become one. Above `facts_max` facts, the least of them are
    forgotten, down to nine tenths; that is looked at each time `garden_every` relations have been learned.
    `waiting_max` lessons may wait, `at_once` are learned at the same time; what comes beyond that is not learned.
    """

    episodes_max: int = 200
    merge_window: int = 20
    facts_max: int = 100_000
    garden_every: int = 1000
    waiting_max: int = 1000
    at_once: int = 4


class EpisodeKept(msgspec.Struct, frozen=True):
    """An episode that is kept: where it came from, who may recall it, what it says and the digest of that.

    `of` are the marks of the sources that were merged into it.
    """

    source: str
    scope: str | None
    digest: str
    text: str
    of: tuple[str, ...] = ()


class LearnFacts(msgspec.Struct, frozen=True):
    """The work of learning what a run says of things and their relations."""

    observed: RunObserved


class LearnEpisode(msgspec.Struct, frozen=True):
    """The work of saying in a sentence what happened in a run."""

    observed: RunObserved


class MergeEpisodes(msgspec.Struct, frozen=True):
    """The work of saying in a sentence what happened in several episodes, the oldest first; `agent` taught last."""

    agent: str
    sources: list[str]
    texts: list[str]


class GardenFacts(msgspec.Struct, frozen=True):
    """The work of looking whether there are more facts than are kept, and of forgetting the least of them."""


class MemoryState(msgspec.Struct, frozen=True):
    """What an owner's memory has still to do, and the episodes it keeps, the oldest first.

    `lessons` are the open ones (`lesson_key`) in the order of their coming; `observed` the runs that they are about.
    `agent` is the one that taught something last. `learned` counts the relations since somebody looked whether there
    are too many.
    """

    stream: str = "memory"
    lessons: tuple[str, ...] = ()
    observed: dict[str, RunObserved] = {}
    episodes: tuple[EpisodeKept, ...] = ()
    agent: str = ""
    learned: int = 0

    @property
    def owner(self) -> str:
        """Whose memory it is."""
        return self.stream.partition("/")[2]


def mark(source: str) -> str:
    """Return a short name for a source."""
    return sha256(source.encode(errors="surrogatepass")).hexdigest()[:12]


def lesson_key(lesson: str, source: str) -> str:
    """Return under which name a lesson is open."""
    return f"{lesson}:{source}"


def oldest(state: MemoryState, limits: MemoryLimits) -> Sequence[EpisodeKept]:
    """Return the episodes that are to become one, if there are too many: the oldest that the same may recall."""
    if len(state.episodes) <= limits.episodes_max:
        return ()
    scope = state.episodes[0].scope
    return [kept for kept in state.episodes if kept.scope == scope][: limits.merge_window]


def open_work(state: MemoryState, limits: MemoryLimits) -> tuple[Effect, ...]:
    """Return what a memory has to do: some of its lessons, and looking after what it keeps."""
    work = [_lesson(state, lesson) for lesson in state.lessons[: limits.at_once]]
    if merging := oldest(state, limits):
        sources = [kept.source for kept in merging]
        key = lesson_key(MERGE, f"{sources[0]}..{sources[-1]}")
        work.append(Effect(key, MergeEpisodes(state.agent, sources, [kept.text for kept in merging])))
    if state.learned >= limits.garden_every:
        work.append(Effect("garden", GardenFacts()))
    return tuple(work)


def _lesson(state: MemoryState, key: str) -> Effect:
    lesson, _, source = key.partition(":")
    observed = state.observed[source]
    return Effect(key, LearnFacts(observed) if lesson == GRAPH else LearnEpisode(observed))
