"""The kind of actor that the memory of an owner is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...journal.facts import ErrorFact
from ...journal.facts.memory import MEMORY_EVENTS, FactNamed, MemoryEvent
from ..clock import Clock
from ..decider import EventSourcedActor
from ..effect import Effect
from ..errors import CommandRejected
from ..ref import ActorRef
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
)
from .decide import memory_decider
from .learner import Learner
from .state import EPISODIC, GRAPH, GardenFacts, LearnEpisode, LearnFacts, MemoryLimits, MemoryState, MergeEpisodes

__all__ = ["MEMORY", "MEMORY_COMMANDS", "MemoryKind", "memory_kind"]

MEMORY = "memory"
"""The category: the memory of an owner is the stream `memory/OWNER`."""

MemoryKind = EventSourcedActor[MemoryState, MemoryCommand, MemoryEvent, MemoryState]

MEMORY_COMMANDS: dict[str, type[MemoryCommand]] = {"observe_run": ObserveRun, "remember": Remember}
"""What other actors may send to a memory, by the names that are stored."""

LeastFacts = Callable[[str, int], Sequence[FactNamed]]
"""Returns which facts of an owner go first, where there are more than a number of them."""


def memory_kind(
    learner: Learner, clock: Clock, *, least_facts: LeastFacts | None = None, limits: MemoryLimits | None = None
) -> MemoryKind:
    """Return the kind of actor that remembers for an owner.

    `learner` asks models; what it raises is recorded, and nothing is learned of that run. `least_facts` chooses what is
    forgotten when there are more facts than `limits` say; without it none are.
    """
    held = limits or MemoryLimits()

    async def perform(effect: Effect, memory: ActorRef[MemoryCommand, MemoryState]) -> None:
        owner = memory.stream.partition("/")[2]
        match effect.work:
            case LearnFacts() | LearnEpisode() as work:
                said = await _learn(learner, owner, work, clock)
            case MergeEpisodes() as work:
                said = await _merge(learner, owner, work, clock)
            case GardenFacts():
                least = [] if least_facts is None else list(least_facts(owner, held.facts_max))
                said = PruneMemory(least, [], "there were more than are kept", clock())
            case _:
                raise AssertionError(f"{memory.stream} does not know the work {effect.work!r}: a bug of Clew")
        try:
            await memory.ask(said)
        except CommandRejected as refused:
            # What was said cannot be remembered, and asking again would not make it so.
            await memory.ask(_failed(effect.work, _fact(refused), clock()))

    return EventSourcedActor(
        category=MEMORY,
        decider=memory_decider(held),
        events=MEMORY_EVENTS,
        perform=perform,
        initial_for=lambda stream: MemoryState(stream=stream),
        commands=MEMORY_COMMANDS,
        state_type=MemoryState,
    )


async def _learn(learner: Learner, owner: str, work: LearnFacts | LearnEpisode, clock: Clock) -> MemoryCommand:
    source = work.observed.source
    try:
        if isinstance(work, LearnFacts):
            lesson = await learner.extract(owner, work.observed)
            return CompleteExtraction(source, lesson.entities, lesson.relations, clock(), lesson.usage)
        told = await learner.episode(owner, work.observed)
        return CompleteEpisode(source, told.text, clock(), told.usage)
    except Exception as error:  # noqa: BLE001  (learning is best effort, whatever the learner is)
        return _failed(work, _fact(error), clock())


async def _merge(learner: Learner, owner: str, work: MergeEpisodes, clock: Clock) -> MemoryCommand:
    try:
        told = await learner.merge(owner, work.agent, work.texts)
    except Exception as error:  # noqa: BLE001  (as above)
        return _failed(work, _fact(error), clock())
    return CompleteMerge(work.sources, told.text, clock(), told.usage)


def _failed(work: object, error: ErrorFact, at: int) -> MemoryCommand:
    match work:
        case LearnFacts():
            return FailLesson(work.observed.source, GRAPH, error, at)
        case LearnEpisode():
            return FailLesson(work.observed.source, EPISODIC, error, at)
        case MergeEpisodes():
            return FailMerge(work.sources, error, at)
        case _:
            return PruneMemory([], [], error.message, at)


def _fact(error: Exception) -> ErrorFact:
    return ErrorFact(type(error).__name__, str(error)[:2000])
