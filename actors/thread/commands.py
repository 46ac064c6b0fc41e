"""What can be asked of a conversation. Times arrive with the command, in nanoseconds since the epoch, UTC."""

from __future__ import annotations

import msgspec

from ...journal.facts import NOTHING, ErrorFact
from ..outbox import Acknowledge
from ..schedule import CancelSchedule, PauseSchedule, ResumeSchedule, SetSchedule
from .progress import Progress
from .spent import Limits

__all__ = [
    "AlarmFired",
    "CancelRun",
    "ChangeSchedule",
    "EndChild",
    "NoteNotified",
    "PauseRun",
    "Requester",
    "ResolveApproval",
    "ResumeRun",
    "SendSignal",
    "SettleStep",
    "StartRun",
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
    With `limits` it is refused in a thread that has used as much.
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
    limits: Limits | None = None


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


class ResumeRun(msgspec.Struct, frozen=True):
    """Drive a halted, parked or paused run again."""

    run: str
    owner: str | None
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
    | SettleStep
    | CancelRun
    | PauseRun
    | ResumeRun
    | ResolveApproval
    | NoteNotified
    | SendSignal
    | EndChild
    | Acknowledge
    | ChangeSchedule
    | AlarmFired
    | Progress
)
