"""All that can happen in a conversation, from the facts of its parts."""

from __future__ import annotations

from .approval import APPROVAL_EVENTS, ApprovalEvent
from .artifact import ARTIFACT_EVENTS, ArtifactEvent
from .child import CHILD_EVENTS, ChildEvent
from .outbox import OUTBOX_EVENTS, OutboxEvent
from .run import RUN_EVENTS, RunEvent
from .schedule import SCHEDULE_EVENTS, ScheduleEvent
from .signal import SIGNAL_EVENTS, SignalEvent
from .step import STEP_EVENTS, StepEvent
from .thread import (
    RunCancelled,
    RunFailed,
    RunFinished,
    RunHalted,
    RunResumed,
    RunStarted,
    StateSet,
    StepCompleted,
    StepFailed,
    ThreadOpened,
)

__all__ = ["THREAD_EVENTS", "ThreadEvent"]

ThreadEvent = (
    ThreadOpened
    | RunStarted
    | StepCompleted
    | StepFailed
    | StateSet
    | RunFinished
    | RunFailed
    | RunCancelled
    | RunHalted
    | RunResumed
    | RunEvent
    | StepEvent
    | ApprovalEvent
    | ArtifactEvent
    | SignalEvent
    | ChildEvent
    | OutboxEvent
    | ScheduleEvent
)

THREAD_EVENTS = (
    ThreadOpened,
    RunStarted,
    StepCompleted,
    StepFailed,
    StateSet,
    RunFinished,
    RunFailed,
    RunCancelled,
    RunHalted,
    RunResumed,
    *RUN_EVENTS,
    *STEP_EVENTS,
    *APPROVAL_EVENTS,
    *ARTIFACT_EVENTS,
    *SIGNAL_EVENTS,
    *CHILD_EVENTS,
    *OUTBOX_EVENTS,
    *SCHEDULE_EVENTS,
)
