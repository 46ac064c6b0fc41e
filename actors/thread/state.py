"""A conversation folded from its events: who owns it, which runs there were, which one is open."""

from __future__ import annotations

from enum import Enum

import msgspec
from msgspec.structs import replace

from ...journal.facts import (
    NOTHING,
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
from ..effect import Effect

__all__ = ["COMPLETED", "DriveRun", "RunState", "RunStatus", "ThreadState", "effects", "evolve"]

COMPLETED = 0
"""In `RunState.steps`: the step has its result."""


class RunStatus(Enum):
    """Where a run is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    HALTED = "halted"

    @property
    def ended(self) -> bool:
        """Whether the run will never go on; a halted one may."""
        return self in (RunStatus.DONE, RunStatus.FAILED, RunStatus.CANCELLED)


class RunState(msgspec.Struct, frozen=True):
    """One run: its agent, where it is, and its steps by name: `COMPLETED`, or the number of the last failed attempt."""

    agent: str
    status: RunStatus
    started_at: int
    steps: dict[str, int] = {}


class ThreadState(msgspec.Struct, frozen=True):
    """A conversation. Never changed in place. `state` is null until a step sets it."""

    stream: str = "thread"
    opened: bool = False
    owner: str | None = None
    title: str | None = None
    runs: dict[str, RunState] = {}
    open_run: str | None = None
    state: msgspec.Raw = NOTHING


class DriveRun(msgspec.Struct, frozen=True):
    """The work of an open run: drive its agent until it ends."""

    run: str
    agent: str


def effects(thread: ThreadState) -> tuple[Effect, ...]:
    """Return the open work of a conversation: driving its open run, unless that is halted."""
    if thread.open_run is None:
        return ()
    run = thread.runs[thread.open_run]
    if run.status is not RunStatus.RUNNING:
        return ()
    return (Effect(f"run:{thread.open_run}", DriveRun(thread.open_run, run.agent)),)


def evolve(thread: ThreadState, event: ThreadEvent) -> ThreadState:  # noqa: C901  (one case an event)
    """Return the conversation after a fact."""
    match event:
        case ThreadOpened():
            return replace(thread, opened=True, owner=event.owner, title=event.title)
        case RunStarted():
            run = RunState(agent=event.agent, status=RunStatus.RUNNING, started_at=event.at)
            return replace(thread, runs={**thread.runs, event.run: run}, open_run=event.run)
        case StepCompleted():
            return _with_step(thread, event.run, event.step, COMPLETED)
        case StepFailed():
            return _with_step(thread, event.run, event.step, event.attempt)
        case StateSet():
            return replace(thread, state=event.value)
        case RunFinished():
            return _ended(thread, event.run, RunStatus.DONE)
        case RunFailed():
            return _ended(thread, event.run, RunStatus.FAILED)
        case RunCancelled():
            return _ended(thread, event.run, RunStatus.CANCELLED)
        case RunHalted():
            return _with_run(thread, event.run, replace(thread.runs[event.run], status=RunStatus.HALTED))
        case RunResumed():
            return _with_run(thread, event.run, replace(thread.runs[event.run], status=RunStatus.RUNNING))


def _with_run(thread: ThreadState, name: str, run: RunState) -> ThreadState:
    return replace(thread, runs={**thread.runs, name: run})


def _with_step(thread: ThreadState, name: str, step: str, outcome: int) -> ThreadState:
    run = thread.runs[name]
    return _with_run(thread, name, replace(run, steps={**run.steps, step: outcome}))


def _ended(thread: ThreadState, name: str, status: RunStatus) -> ThreadState:
    # What the steps were is in the journal; an ended run needs them no more.
    ended = replace(thread.runs[name], status=status, steps={})
    return replace(_with_run(thread, name, ended), open_run=None)
