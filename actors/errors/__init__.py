"""Everything an actor can refuse, and what to do about each.

```
ActorError
├─ CommandRejected         decide said no: nothing was written
│  ├─ RunConflict          the thread is busy with another run
│  ├─ BudgetExceeded       the thread or its owner has used all that it may
│  ├─ UnknownRun           no such run in this thread
│  ├─ UnknownApproval      no such question in this thread
│  ├─ AlreadyDecided       the decision is final, and another one than this
│  ├─ InvalidDecision      neither an approval nor a rejection: nothing runs
│  ├─ InvalidArguments     edited arguments that the tool does not take: nothing runs
│  ├─ RunEnded             the run is over: late results of it are refused
│  ├─ InvalidMessage       what another actor sent is no command of this one
│  ├─ InvalidSchedule      it is malformed, or can never be due
│  ├─ UnknownSchedule      no such schedule in this actor
│  └─ TooManySchedules     the actor has as many as it takes
├─ UnknownArtifact         no such long result in this thread
├─ UnknownFunction         no function of the application is registered under this name
├─ InvalidInput            arguments that a function of the application does not take
├─ UnknownThread           no such thread, or not yours: the two look the same
├─ UnknownKind             no actor or agent is registered under this name
├─ MailboxFull             the actor is behind: retry later or shed load
├─ ActivationFailed        the actor could not be rebuilt from its stream
│  └─ ActorQuarantined     that happened several times in a row: it is not tried again
├─ SystemClosed            the system is shutting down
├─ BlockingAsk             a blocking wait where it could stop the whole system
├─ StepFailed              a step raised, as recorded
├─ NoMemory                nothing here remembers for this owner
├─ SignalTimedOut          the signal that was waited for did not come in time
├─ PauseSwallowed          a tool went on in spite of the cancel that lets go of its wait
├─ InvalidState            a value that the thread's synced state may not have
├─ ForeignToken            a place to go on from that is none in this thread
├─ DeltasLost              a listener was too slow for what the model says
├─ ReplayDivergence        replay asked for something the journal does not have
└─ RunNotFinished          the answer of a run that ended without one
   ├─ RunFailed
   ├─ RunCancelled
   └─ RunHalted
```
"""

from .base import ActorError, CommandRejected
from .host import ActivationFailed, ActorQuarantined, BlockingAsk, MailboxFull, NoMemory, SystemClosed, UnknownKind
from .refused import (
    AlreadyDecided,
    BudgetExceeded,
    InvalidArguments,
    InvalidDecision,
    InvalidMessage,
    InvalidSchedule,
    RunConflict,
    RunEnded,
    TooManySchedules,
    UnknownApproval,
    UnknownRun,
    UnknownSchedule,
)
from .thread import (
    DeltasLost,
    ForeignToken,
    InvalidInput,
    InvalidState,
    PauseSwallowed,
    ReplayDivergence,
    RunCancelled,
    RunFailed,
    RunHalted,
    RunNotFinished,
    SignalTimedOut,
    StepFailed,
    UnknownArtifact,
    UnknownFunction,
    UnknownThread,
)

__all__ = [
    "ActivationFailed",
    "ActorError",
    "ActorQuarantined",
    "AlreadyDecided",
    "BlockingAsk",
    "BudgetExceeded",
    "CommandRejected",
    "DeltasLost",
    "ForeignToken",
    "InvalidArguments",
    "InvalidDecision",
    "InvalidInput",
    "InvalidMessage",
    "InvalidSchedule",
    "InvalidState",
    "MailboxFull",
    "NoMemory",
    "PauseSwallowed",
    "ReplayDivergence",
    "RunCancelled",
    "RunConflict",
    "RunEnded",
    "RunFailed",
    "RunHalted",
    "RunNotFinished",
    "SignalTimedOut",
    "StepFailed",
    "SystemClosed",
    "TooManySchedules",
    "UnknownApproval",
    "UnknownArtifact",
    "UnknownFunction",
    "UnknownKind",
    "UnknownRun",
    "UnknownSchedule",
    "UnknownThread",
]
