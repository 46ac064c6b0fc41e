"""The catalog of what the journal can say happened."""

from .approval import ApprovalEvent, ApprovalNotified, ApprovalRequested, ApprovalResolved, ApprovalSettled
from .artifact import ArtifactEvent, ArtifactStored
from .child import ChildEnded, ChildEvent, ChildStarted
from .conversation import THREAD_EVENTS, ThreadEvent
from .error import NOTHING, ErrorFact
from .outbox import MessageDelivered, MessageSent, OutboxEvent
from .run import (
    RunDeadlineSet,
    RunEvent,
    RunParked,
    RunPaused,
    RunQueued,
    RunRecovered,
    RunRequested,
    RunSuspended,
    RunWoken,
)
from .schedule import (
    ScheduleCancelled,
    ScheduleEvent,
    ScheduleFired,
    SchedulePaused,
    ScheduleResumed,
    ScheduleSet,
    ScheduleSkipped,
)
from .signal import SignalAwaited, SignalEvent, SignalReceived, SignalTaken, SignalTimedOut
from .step import StepDelayed, StepDoubted, StepEvent, StepSettled, StepStarted
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

__all__ = [
    "NOTHING",
    "THREAD_EVENTS",
    "ApprovalEvent",
    "ApprovalNotified",
    "ApprovalRequested",
    "ApprovalResolved",
    "ApprovalSettled",
    "ArtifactEvent",
    "ArtifactStored",
    "ChildEnded",
    "ChildEvent",
    "ChildStarted",
    "ErrorFact",
    "MessageDelivered",
    "MessageSent",
    "OutboxEvent",
    "RunCancelled",
    "RunDeadlineSet",
    "RunEvent",
    "RunFailed",
    "RunFinished",
    "RunHalted",
    "RunParked",
    "RunPaused",
    "RunQueued",
    "RunRecovered",
    "RunRequested",
    "RunResumed",
    "RunStarted",
    "RunSuspended",
    "RunWoken",
    "ScheduleCancelled",
    "ScheduleEvent",
    "ScheduleFired",
    "SchedulePaused",
    "ScheduleResumed",
    "ScheduleSet",
    "ScheduleSkipped",
    "SignalAwaited",
    "SignalEvent",
    "SignalReceived",
    "SignalTaken",
    "SignalTimedOut",
    "StateSet",
    "StepCompleted",
    "StepDelayed",
    "StepDoubted",
    "StepEvent",
    "StepFailed",
    "StepSettled",
    "StepStarted",
    "ThreadEvent",
    "ThreadOpened",
]
