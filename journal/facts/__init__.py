"""The catalog of what the journal can say happened."""

from .thread import (
    NOTHING,
    THREAD_EVENTS,
    ErrorFact,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunHalted,
    RunResumed,
    RunStarted,
    StateSet,
    StepCompleted,
    StepFailed,
    ThreadEvent,
    ThreadOpened,
)

__all__ = [
    "NOTHING",
    "THREAD_EVENTS",
    "ErrorFact",
    "RunCancelled",
    "RunFailed",
    "RunFinished",
    "RunHalted",
    "RunResumed",
    "RunStarted",
    "StateSet",
    "StepCompleted",
    "StepFailed",
    "ThreadEvent",
    "ThreadOpened",
]
