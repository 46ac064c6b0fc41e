"""What a fact changes about the memory of an owner, as its actor knows it."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from ...journal.facts.memory import (
    EpisodeRepeated,
    EpisodesMerged,
    EpisodeTold,
    FactsLearned,
    LessonFailed,
    MemoryEvent,
    MemoryNoted,
    MemoryPruned,
    RunObserved,
    SourcesUndone,
)
from .checks import digest_of_text
from .state import EPISODIC, GRAPH, MERGE, EpisodeKept, MemoryState, lesson_key, mark

__all__ = ["evolve"]


def evolve(state: MemoryState, event: MemoryEvent) -> MemoryState:
    """Return the memory after a fact."""
    match event:
        case RunObserved():
            wanted = tuple(lesson_key(want, event.source) for want in event.wants)
            observed = {**state.observed, event.source: event} if wanted else state.observed
            return replace(state, lessons=(*state.lessons, *wanted), observed=observed, agent=event.agent)
        case MemoryNoted():
            return _keep(state, event.source, event.text, event.scope)
        case FactsLearned():
            learned = state.learned + len(event.relations)
            return replace(_over(state, GRAPH, event.source), learned=learned)
        case EpisodeTold():
            return _keep(_over(state, EPISODIC, event.source), event.source, event.text, event.scope)
        case EpisodeRepeated():
            # What happened again is the newest again.
            again = tuple(kept for kept in state.episodes if kept.source == event.of)
            others = tuple(kept for kept in state.episodes if kept.source != event.of)
            return replace(_over(state, EPISODIC, event.source), episodes=(*others, *again))
        case EpisodesMerged():
            first = next((at for at, kept in enumerate(state.episodes) if kept.source in event.merged), 0)
            of = [
                name for kept in state.episodes if kept.source in event.merged for name in (*kept.of, mark(kept.source))
            ]
            merged = EpisodeKept(event.source, event.scope, digest_of_text(event.text), event.text, tuple(of))
            before = tuple(kept for kept in state.episodes[:first] if kept.source not in event.merged)
            behind = tuple(kept for kept in state.episodes[first:] if kept.source not in event.merged)
            return replace(state, episodes=(*before, merged, *behind))
        case LessonFailed():
            return state if event.lesson == MERGE else _over(state, event.lesson, event.source)
        case MemoryPruned():
            # Only who looked after the facts has counted them anew.
            return replace(_without(state, event.episodes), learned=state.learned if event.episodes else 0)
        case SourcesUndone():
            return _undone(state, event.sources)


def _over(state: MemoryState, lesson: str, source: str) -> MemoryState:
    """Return the memory in which a lesson is not open any more; its run is forgotten with the last of them."""
    key = lesson_key(lesson, source)
    if key not in state.lessons:
        return state
    lessons = tuple(one for one in state.lessons if one != key)
    still = any(lesson_key(other, source) in lessons for other in (GRAPH, EPISODIC))
    observed = state.observed if still else {of: run for of, run in state.observed.items() if of != source}
    return replace(state, lessons=lessons, observed=observed)


def _keep(state: MemoryState, source: str, text: str, scope: str | None) -> MemoryState:
    kept = EpisodeKept(source, scope, digest_of_text(text), text)
    others = tuple(one for one in state.episodes if one.source != source)
    return replace(state, episodes=(*others, kept))


def _without(state: MemoryState, sources: Collection[str]) -> MemoryState:
    return replace(state, episodes=tuple(kept for kept in state.episodes if kept.source not in sources))


def _undone(state: MemoryState, sources: Collection[str]) -> MemoryState:
    # What was merged from several cannot be told apart any more: it goes with any of them.
    marks = {mark(source) for source in sources}
    left = tuple(kept for kept in state.episodes if kept.source not in sources and marks.isdisjoint(kept.of))
    state = replace(state, episodes=left)
    for source in sources:
        for lesson in (GRAPH, EPISODIC):
            state = _over(state, lesson, source)
    return state
