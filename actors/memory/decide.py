"""What the memory of an owner decides. Pure: hearing the same twice changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ...journal.facts import NOTHING, ErrorFact
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
from ..decider import Decider
from ..errors import CommandRejected
from .checks import check_facts, check_source, check_text, digest_of_text
from .commands import (
    CompleteEpisode,
    CompleteExtraction,
    CompleteMerge,
    FailLesson,
    FailMerge,
    MemoryCommand,
    ObserveRun,
    PruneMemory,
    Remember,
    TellEpisode,
    TellFacts,
    UndoSources,
)
from .evolve import evolve
from .state import EPISODIC, GRAPH, MERGE, EpisodeKept, MemoryLimits, MemoryState, lesson_key, open_work

__all__ = ["MemoryDecider", "memory_decider"]

MemoryDecider = Decider[MemoryState, MemoryCommand, MemoryEvent, MemoryState]


def memory_decider(limits: MemoryLimits) -> MemoryDecider:
    """Return the pure half of a memory with these limits; it answers every command with its state."""

    def decide(state: MemoryState, command: MemoryCommand) -> Sequence[MemoryEvent]:
        return _decide(state, command, limits)

    return MemoryDecider(
        initial=MemoryState(),
        decide=decide,
        evolve=evolve,
        answer=lambda state, _: state,
        effects=lambda state: open_work(state, limits),
    )


def _decide(  # noqa: C901, PLR0912  (one case a command)
    state: MemoryState, command: MemoryCommand, limits: MemoryLimits
) -> Sequence[MemoryEvent]:
    match command:
        case ObserveRun():
            return _observe(state, command, limits)
        case Remember():
            return _remember(state, command)
        case TellFacts():
            check_source(state.stream, command.source)
            check_facts(state.stream, command.entities, command.relations)
            said = (command.source, command.entities, command.relations, command.scope)
            return (FactsLearned(*said, NOTHING, command.at),)
        case TellEpisode():
            check_source(state.stream, command.source)
            return _told(state, EpisodeTold(command.source, command.text, command.scope, NOTHING, command.at))
        case CompleteExtraction():
            return _extracted(state, command)
        case CompleteEpisode():
            observed = _observed(state, EPISODIC, command.source)
            if observed is None:
                return ()
            return _told(state, EpisodeTold(command.source, command.text, observed.scope, command.usage, command.at))
        case CompleteMerge():
            return _merged(state, command)
        case FailLesson():
            if _observed(state, command.lesson, command.source) is None:
                return ()
            return (LessonFailed(command.source, command.lesson, command.error, command.usage, command.at),)
        case FailMerge():
            return _merge_failed(state, command)
        case PruneMemory():
            return (MemoryPruned(command.facts, command.episodes, command.reason, command.at),)
        case UndoSources():
            for source in command.sources:
                check_source(state.stream, source)
            return (SourcesUndone(command.sources, command.by, command.reason, command.at),)


def _observe(state: MemoryState, command: ObserveRun, limits: MemoryLimits) -> Sequence[MemoryEvent]:
    """Take in a run to learn from, or say that there are too many of them already."""
    check_source(state.stream, command.source)
    if unknown := [want for want in command.wants if want not in (GRAPH, EPISODIC)]:
        raise CommandRejected(f"{state.stream}: a run teaches {GRAPH} or {EPISODIC}, not {', '.join(unknown)}.")
    if command.source in state.observed:
        return ()
    observed = RunObserved(
        command.source,
        command.thread,
        command.run,
        command.agent,
        command.scope,
        command.asked,
        command.answered,
        command.wants,
        command.at,
    )
    if len(state.lessons) + len(command.wants) <= limits.waiting_max:
        return (observed,)
    error = ErrorFact("TooManyLessons", f"{len(state.lessons)} lessons wait to be learned, the most there may be")
    return observed, *(LessonFailed(command.source, want, error, NOTHING, command.at) for want in command.wants)


def _remember(state: MemoryState, command: Remember) -> Sequence[MemoryEvent]:
    check_source(state.stream, command.id)
    check_text(state.stream, command.text)
    if (same := _same(state, command.text, command.scope)) is not None:
        return () if same.source == command.id else (EpisodeRepeated(command.id, same.source, NOTHING, command.at),)
    return (MemoryNoted(command.id, command.text, command.thread, command.run, command.scope, command.at),)


def _told(state: MemoryState, told: EpisodeTold) -> Sequence[MemoryEvent]:
    """Keep an episode, or count it where the same was told before."""
    check_text(state.stream, told.text)
    if (same := _same(state, told.text, told.scope)) is not None:
        return (EpisodeRepeated(told.source, same.source, told.usage, told.at),)
    return (told,)


def _extracted(state: MemoryState, command: CompleteExtraction) -> Sequence[MemoryEvent]:
    observed = _observed(state, GRAPH, command.source)
    if observed is None:
        return ()
    check_facts(state.stream, command.entities, command.relations)
    said = (command.source, command.entities, command.relations, observed.scope)
    return (FactsLearned(*said, command.usage, command.at),)


def _merged(state: MemoryState, command: CompleteMerge) -> Sequence[MemoryEvent]:
    kept = _kept(state, command.sources)
    if len(kept) != len(command.sources) or not kept:
        # One of them was undone meanwhile.
        return ()
    check_text(state.stream, command.text)
    source = f"{MERGE}:{kept[0].source}..{kept[-1].source}"[:900]
    return (EpisodesMerged(source, command.sources, command.text, kept[0].scope, command.usage, command.at),)


def _merge_failed(state: MemoryState, command: FailMerge) -> Sequence[MemoryEvent]:
    kept = [episode.source for episode in _kept(state, command.sources)]
    if not kept:
        return ()
    failed = LessonFailed(kept[0], MERGE, command.error, command.usage, command.at)
    return failed, MemoryPruned([], kept, "there were too many, and they could not become one", command.at)


def _observed(state: MemoryState, lesson: str, source: str) -> RunObserved | None:
    """Return the run that an open lesson is about."""
    return state.observed.get(source) if lesson_key(lesson, source) in state.lessons else None


def _same(state: MemoryState, text: str, scope: str | None) -> EpisodeKept | None:
    digest = digest_of_text(text)
    return next((kept for kept in state.episodes if (kept.digest, kept.scope) == (digest, scope)), None)


def _kept(state: MemoryState, sources: Sequence[str]) -> list[EpisodeKept]:
    return [kept for kept in state.episodes if kept.source in sources]
