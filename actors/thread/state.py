"""A conversation folded from its events: who owns it, which runs there were, which one is open, what it waits for."""

from __future__ import annotations

from enum import Enum

import msgspec

from ...journal.facts import NOTHING
from ..effect import Effect
from ..outbox import Outbox, deliveries
from ..schedule import Schedules
from ..schedule import due as schedules_due
from .commands import Requester
from .spent import Spent

__all__ = [
    "COMPLETED",
    "Approval",
    "Child",
    "DriveRun",
    "NotifySettled",
    "QueuedRun",
    "RunState",
    "RunStatus",
    "Signal",
    "ThreadState",
    "Wait",
    "approval_key",
    "due",
    "effects",
    "is_within",
    "retries_due",
    "wait_key",
]

COMPLETED = 0
"""In `RunState.steps`: the step has its result."""

PAUSE = "pause"
"""What a paused run says that it waits for."""


class RunStatus(Enum):
    """Where a run is."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    PARKED = "parked"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    HALTED = "halted"

    @property
    def ended(self) -> bool:
        """Whether the run will never go on; a halted or parked one may."""
        return self in (RunStatus.DONE, RunStatus.FAILED, RunStatus.CANCELLED)


class Wait(msgspec.Struct, frozen=True):
    """A step that waits: for an `approval`, a `signal`, a `child`, a `retry`, or somebody to settle a `doubt`."""

    kind: str
    step: str
    due: int | None
    settled: bool = False

    def holds(self, at: int) -> bool:
        """Whether the step still waits; for a retry, time is all it waits for."""
        return not (self.settled or (self.kind == "retry" and self.due is not None and self.due <= at))


class RunState(msgspec.Struct, frozen=True):
    """One run: its agent, where it is, its steps and what they wait for.

    `steps` holds `COMPLETED` or the number of the last failed attempt, by name; `claimed` the attempts at steps that
    may run once at the most and have no result. `waits` are named by `wait_key`; `waiting` are the steps that it was
    suspended for, while it is.
    """

    agent: str
    status: RunStatus
    started_at: int
    steps: dict[str, int] = {}
    deadline: int | None = None
    waits: dict[str, Wait] = {}
    waiting: tuple[str, ...] = ()
    claimed: dict[str, int] = {}
    pausing: bool = False
    recoveries: int = 0


class QueuedRun(msgspec.Struct, frozen=True):
    """A run that waits until the thread is free."""

    run: str
    agent: str
    prompt: msgspec.Raw
    expires_at: int
    timeout: int | None


class Approval(msgspec.Struct, frozen=True):
    """A question for people, its final decision, and what became of it."""

    run: str
    step: str
    call: str
    fingerprint: str
    arguments: msgspec.Raw
    expires_at: int
    notify: bool
    decision: str | None = None
    by: str | None = None
    reason: str = ""
    edited: bool = False
    spent: bool = False
    outcome: str | None = None
    notified: bool = False

    @property
    def within(self) -> bool:
        """Whether the call asks in the middle of it, rather than before it may begin."""
        return self.step.startswith(f"{self.call}/")


class Signal(msgspec.Struct, frozen=True):
    """A signal that nobody has taken yet."""

    id: str
    name: str


class SignalWait(msgspec.Struct, frozen=True):
    """A step that waits for a signal."""

    run: str
    step: str
    name: str


class Child(msgspec.Struct, frozen=True):
    """A run of another thread that a step waits for."""

    run: str
    step: str
    thread: str
    child_run: str


class ThreadState(msgspec.Struct, frozen=True):
    """A conversation. Never changed in place. `state` is null until a step sets it.

    `signals_taken` are the ids of the signals taken last.
    """

    stream: str = "thread"
    opened: bool = False
    owner: str | None = None
    title: str | None = None
    runs: dict[str, RunState] = {}
    open_run: str | None = None
    state: msgspec.Raw = NOTHING
    queue: tuple[QueuedRun, ...] = ()
    requesters: dict[str, Requester] = {}
    approvals: dict[str, Approval] = {}
    signals: tuple[Signal, ...] = ()
    signals_taken: tuple[str, ...] = ()
    signal_waits: tuple[SignalWait, ...] = ()
    children: dict[str, Child] = {}
    outbox: Outbox = Outbox()
    schedules: Schedules = Schedules()
    spent: Spent = Spent()


class DriveRun(msgspec.Struct, frozen=True):
    """The work of an open run: drive its agent until it ends."""

    run: str
    agent: str


class NotifySettled(msgspec.Struct, frozen=True):
    """The work of a settled approval: tell who was to be told."""

    run: str
    step: str
    agent: str


def approval_key(run: str, step: str) -> str:
    """Return the name of an approval within its thread."""
    return f"{run}/{step}"


def wait_key(kind: str, step: str) -> str:
    """Return the name of a wait within its run: a step may wait for one thing after another."""
    return f"{kind} {step}"


def is_within(step: str, of: str) -> bool:
    """Whether a step is `of`, or a step of what runs inside it."""
    return step == of or step.startswith(f"{of}/")


def retries_due(run: RunState) -> list[int]:
    """Return when the steps that a run was suspended for are tried again; one that is paused is not woken for them."""
    if run.pausing or not run.waiting:
        return []
    retries = [run.waits.get(wait_key("retry", step)) for step in run.waiting]
    return [wait.due for wait in retries if wait is not None and wait.due is not None and not wait.settled]


def effects(thread: ThreadState) -> tuple[Effect, ...]:
    """Return the open work of a conversation: its run, unless that waits; messages to deliver; people to tell."""
    work: tuple[Effect, ...] = ()
    if thread.open_run is not None:
        run = thread.runs[thread.open_run]
        if run.status is RunStatus.RUNNING:
            work = (Effect(f"run:{thread.open_run}", DriveRun(thread.open_run, run.agent)),)
    if thread.outbox.waiting:
        work += deliveries(thread.outbox)
    if thread.approvals:
        work += tuple(
            Effect(f"notify:{key}", NotifySettled(asked.run, asked.step, thread.runs[asked.run].agent))
            for key, asked in thread.approvals.items()
            if asked.notify and asked.outcome is not None and not asked.notified
        )
    return work


def due(thread: ThreadState) -> int | None:
    """Return when the conversation wants to be woken next."""
    times = [queued.expires_at for queued in thread.queue]
    if thread.schedules.active and (next_due := schedules_due(thread.schedules)) is not None:
        times.append(next_due)
    if thread.open_run is not None:
        run = thread.runs[thread.open_run]
        if run.deadline is not None:
            times.append(run.deadline)
        times += [
            wait.due
            for wait in run.waits.values()
            if wait.due is not None and not wait.settled and wait.kind != "retry"
        ]
        times += retries_due(run)
    return min(times, default=None)
