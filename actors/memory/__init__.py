"""The long-term memory of an owner: an actor of its own, taught by the owner's threads, recalled by all of them."""

from .commands import MemoryCommand, ObserveRun, PruneMemory, Remember, TellEpisode, TellFacts, UndoSources
from .kind import MEMORY, MEMORY_COMMANDS, MemoryKind, memory_kind
from .learner import Learner, Lesson, Told
from .state import EPISODIC, GRAPH, MemoryLimits, MemoryState

__all__ = [
    "EPISODIC",
    "GRAPH",
    "MEMORY",
    "MEMORY_COMMANDS",
    "Learner",
    "Lesson",
    "MemoryCommand",
    "MemoryKind",
    "MemoryLimits",
    "MemoryState",
    "ObserveRun",
    "PruneMemory",
    "Remember",
    "TellEpisode",
    "TellFacts",
    "Told",
    "UndoSources",
    "memory_kind",
]
