"""Who decides, and what they do about it: deciders, activations and the system that hosts them on this machine."""

from importlib import import_module
from typing import TYPE_CHECKING

from ..journal.snapshot import SnapshotPolicy
from .activation import Activation, Handled
from .clock import Clock, system_clock
from .decider import Decider, EventSourcedActor, Performer, fold
from .effect import Effect
from .errors import (
    ActivationFailed,
    ActorError,
    ActorQuarantined,
    AlreadyDecided,
    BlockingAsk,
    BudgetExceeded,
    CommandRejected,
    DeltasLost,
    ForeignToken,
    InvalidArguments,
    InvalidDecision,
    InvalidInput,
    InvalidState,
    MailboxFull,
    NoMemory,
    PauseSwallowed,
    ReplayDivergence,
    RunCancelled,
    RunConflict,
    RunEnded,
    RunFailed,
    RunHalted,
    RunNotFinished,
    SignalTimedOut,
    StepFailed,
    SystemClosed,
    UnknownApproval,
    UnknownArtifact,
    UnknownFunction,
    UnknownKind,
    UnknownRun,
    UnknownThread,
)
from .failure import Failure
from .quarantine import Quarantined

if TYPE_CHECKING:
    from .ref import ActorRef
    from .reply import Reply
    from .system import ActorSystem

__all__ = [
    "Activation",
    "ActivationFailed",
    "ActorError",
    "ActorQuarantined",
    "ActorRef",
    "ActorSystem",
    "AlreadyDecided",
    "BlockingAsk",
    "BudgetExceeded",
    "Clock",
    "CommandRejected",
    "Decider",
    "DeltasLost",
    "Effect",
    "EventSourcedActor",
    "Failure",
    "ForeignToken",
    "Handled",
    "InvalidArguments",
    "InvalidDecision",
    "InvalidInput",
    "InvalidState",
    "MailboxFull",
    "NoMemory",
    "PauseSwallowed",
    "Performer",
    "Quarantined",
    "ReplayDivergence",
    "Reply",
    "RunCancelled",
    "RunConflict",
    "RunEnded",
    "RunFailed",
    "RunHalted",
    "RunNotFinished",
    "SignalTimedOut",
    "SnapshotPolicy",
    "StepFailed",
    "SystemClosed",
    "UnknownApproval",
    "UnknownArtifact",
    "UnknownFunction",
    "UnknownKind",
    "UnknownRun",
    "UnknownThread",
    "fold",
    "system_clock",
]

_LOCAL = {"ActorRef": ".ref", "ActorSystem": ".system", "Reply": ".reply"}


def __getattr__(name: str) -> object:
    """Import the local host on first use: a Durable Object has the deciding half and no threads."""
    if name not in _LOCAL:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LOCAL[name], __name__), name)
