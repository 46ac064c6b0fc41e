"""What can be asked of a conversation. Times arrive with the command, in nanoseconds since the epoch, UTC."""

from __future__ import annotations

import msgspec

from ...journal.facts import NOTHING, ErrorFact
from ..outbox import Acknowledge, Outgoing
from ..schedule import CancelSchedule, PauseSchedule, ResumeSchedule, SetSchedule

__all__ = [
    "AlarmFired",
    "AwaitSignal",
    "CancelRun",
    "ChangeSchedule",
    "CompleteStep",
    "DoubtStep",
    "EndChild",
    "FailRun",
    "FailStep",
    "FinishRun",
    "HaltRun",
    "NoteNotified",
    "PauseRun",
    "RecoverRun",
    "RequestApproval",
    "Requester",
    "ResolveApproval",
    "ResumeRun",
    "SendSignal",
    "SettleStep",
    "StartChild",
    "StartRun",
    "StartStep",
    "SuspendRun",
    "ThreadCommand",
]

HOUR = 3_600_000_000_000


class Requester(msgspec.Struct, frozen=True):
    """The step of another thread's run that asks for a run here, and is told how it ends."""

    thread: str
    run: str
    step: str


class StartRun(msgspec.Struct, frozen=True):
    """Open the thread if it is new, and start a run in it, or let it wait its turn.

    `concurrent` says what happens while another run is open: `reject`, `replace` or `queue`. `timeout` bounds the
    run, in ns from its start. `state` is what the synced state begins with in a new thread; null begins with none.
    """

    run: str
    agent: str
    prompt: msgspec.Raw
    owner: str | None
    title: str | None
    at: int
    concurrent: str = "reject"
    queue_max: int = 5
    queue_for: int = 12 * HOUR
    timeout: int | None = None
    state: msgspec.Raw = NOTHING
    requester: Requester | None = None


class CompleteStep(msgspec.Struct, frozen=True):
    """Record the result of a step, with the state and schedules it set and the messages it sent, in one append.

    `approval` is the approval that it settles, and `outcome` how. `needs` are steps that it rests on and that were not
    durable when it began.
    """

    run: str
    step: str
    request: dict[str, str]
    result: msgspec.Raw
    at: int
    tail: msgspec.Raw = NOTHING
    usage: msgspec.Raw = NOTHING
    state: msgspec.Raw | None = None
    messages: tuple[Outgoing, ...] = ()
    schedules: tuple[SetSchedule | CancelSchedule, ...] = ()
    approval: str | None = None
    outcome: str = "approved"
    needs: tuple[str, ...] = ()


class FailStep(msgspec.Struct, frozen=True):
    """Record that an attempt at a step raised; with `until`, it is tried again then."""

    run: str
    step: str
    request: dict[str, str]
    attempt: int
    final: bool
    error: ErrorFact
    at: int
    tail: msgspec.Raw = NOTHING
    until: int | None = None
    approval: str | None = None


class StartStep(msgspec.Struct, frozen=True):
    """Record that an attempt at a step is about to run: it is claimed, spends an approval or has a deadline."""

    run: str
    step: str
    attempt: int
    claimed: bool
    approval: str | None
    due: int | None
    at: int


class DoubtStep(msgspec.Struct, frozen=True):
    """Record that nobody knows what came of a step that was claimed."""

    run: str
    step: str
    at: int


class SettleStep(msgspec.Struct, frozen=True):
    """Say what came of a step in doubt: its `result`, that it may be tried again (`retry`), or its error (`fail`)."""

    run: str
    step: str
    outcome: str
    by: str | None
    owner: str | None
    at: int
    result: msgspec.Raw = NOTHING
    error: ErrorFact | None = None


class FinishRun(msgspec.Struct, frozen=True):
    """End a run with its answer."""

    run: str
    stopped: str
    output: msgspec.Raw
    usage: msgspec.Raw
    tail: msgspec.Raw
    at: int


class FailRun(msgspec.Struct, frozen=True):
    """End a run with an error."""

    run: str
    error: ErrorFact
    at: int


class CancelRun(msgspec.Struct, frozen=True):
    """Stop a run, wherever it is; without a name, the open one and all that wait.

    `owner` is who is acting: to anyone else the run does not exist.
    """

    run: str | None
    owner: str | None
    reason: str
    at: int


class PauseRun(msgspec.Struct, frozen=True):
    """Stop a run before its next step, until it is resumed."""

    run: str
    owner: str | None
    reason: str
    at: int


class HaltRun(msgspec.Struct, frozen=True):
    """Stop driving a run because the loop asked for something else than was recorded."""

    run: str
    step: str
    sequence: int
    field: str
    expected: str
    actual: str
    at: int


class ResumeRun(msgspec.Struct, frozen=True):
    """Drive a halted, parked or paused run again."""

    run: str
    owner: str | None
    at: int


class SuspendRun(msgspec.Struct, frozen=True):
    """Stop driving a run that cannot go on before one of the steps it waits in is settled."""

    run: str
    waiting: tuple[str, ...]
    at: int


class RecoverRun(msgspec.Struct, frozen=True):
    """Say that a run was found open after a crash; it is left alone after `recoveries_max` times in the same place."""

    run: str
    recoveries_max: int
    at: int


class RequestApproval(msgspec.Struct, frozen=True):
    """Ask people whether a tool may be called."""

    run: str
    step: str
    tool: str
    call: str
    arguments: msgspec.Raw
    fingerprint: str
    principal: str
    policy: str
    notify: bool
    expires_at: int
    at: int


class ResolveApproval(msgspec.Struct, frozen=True):
    """Decide a pending approval: `approved` or `rejected`; `arguments` and `fingerprint` if they were edited."""

    run: str
    step: str
    decision: str
    by: str | None
    reason: str
    at: int
    arguments: msgspec.Raw = NOTHING
    fingerprint: str | None = None


class NoteNotified(msgspec.Struct, frozen=True):
    """Say that who was to be told of a settled approval has been told."""

    run: str
    step: str
    at: int


class SendSignal(msgspec.Struct, frozen=True):
    """Give the thread a signal; whoever waits for its name first gets it."""

    id: str
    name: str
    payload: msgspec.Raw
    owner: str | None
    at: int


class AwaitSignal(msgspec.Struct, frozen=True):
    """Wait in a step for the next signal of a name."""

    run: str
    step: str
    name: str
    due: int | None
    at: int


class StartChild(msgspec.Struct, frozen=True):
    """Ask another thread for a run, for a step that waits for its end; `state` is as for `StartRun`."""

    run: str
    step: str
    agent: str
    thread: str
    child_run: str
    prompt: msgspec.Raw
    due: int
    at: int
    state: msgspec.Raw = NOTHING


class EndChild(msgspec.Struct, frozen=True):
    """Say how a child ended."""

    run: str
    step: str
    status: str
    output: msgspec.Raw
    error: ErrorFact | None
    usage: msgspec.Raw
    at: int


class ChangeSchedule(msgspec.Struct, frozen=True):
    """Set, pause, resume or end a schedule of the thread; `title` is that of a thread which is new."""

    change: SetSchedule | PauseSchedule | ResumeSchedule | CancelSchedule
    owner: str | None
    title: str | None = None


class AlarmFired(msgspec.Struct, frozen=True):
    """Say that it is this late."""

    at: int


ThreadCommand = (
    StartRun
    | CompleteStep
    | FailStep
    | StartStep
    | DoubtStep
    | SettleStep
    | FinishRun
    | FailRun
    | CancelRun
    | PauseRun
    | HaltRun
    | ResumeRun
    | SuspendRun
    | RecoverRun
    | RequestApproval
    | ResolveApproval
    | NoteNotified
    | SendSignal
    | AwaitSignal
    | StartChild
    | EndChild
    | Acknowledge
    | ChangeSchedule
    | AlarmFired
)
