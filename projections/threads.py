"""What a conversation looks like from outside, folded: its status, its runs, what it asked for and what it used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ..journal import Catalog, RecordedEvent
from ..journal.facts import (
    THREAD_EVENTS,
    RunCancelled,
    RunDeadlineSet,
    RunFailed,
    RunFinished,
    RunHalted,
    RunParked,
    RunPaused,
    RunQueued,
    RunRecovered,
    RunResumed,
    RunStarted,
    RunSuspended,
    RunWoken,
    StateSet,
    StepCompleted,
    StepFailed,
    ThreadEvent,
    ThreadOpened,
)
from .conversation_view import ThreadView
from .projection import Projection, project
from .runs import RunView
from .thread_waits import WAIT_FOLDS
from .usage import told_usage, used_by

__all__ = ["thread_view", "view_of"]


def _apply(view: ThreadView, event: ThreadEvent, recorded: RecordedEvent) -> ThreadView:
    view.stream, view.sequence = recorded.stream, recorded.sequence
    fold = _FOLDS.get(type(event))
    if fold is not None:
        fold(view, event)
    return view


def _opened(view: ThreadView, event: ThreadOpened) -> None:
    view.owner, view.title, view.opened_at = event.owner, event.title, event.at


def _state_set(view: ThreadView, event: StateSet) -> None:
    view.state = event.value


def _queued(view: ThreadView, event: RunQueued) -> None:
    run = RunView(event.run, event.agent, "queued", queued_at=event.at, queued_until=event.expires_at)
    view.runs.append(run)


def _started(view: ThreadView, event: RunStarted) -> None:
    run = _out_of_queue(view, event.run) or RunView(event.run, event.agent, "running")
    run.started_at, run.status = event.at, "running"
    view.runs.insert(view.queue_start, run)
    view.status = run.status


def _out_of_queue(view: ThreadView, name: str) -> RunView | None:
    """Take a run out of the queue, if it is there."""
    for place in range(view.queue_start, len(view.runs)):
        if view.runs[place].run == name:
            return view.runs.pop(place)
    return None


def _step_completed(view: ThreadView, event: StepCompleted) -> None:
    run = _step_recorded(view, event)
    if "/" in event.step:
        # What sub-agents do within a tool is that tool's own affair, and counts with it.
        return
    run.steps += 1
    used = used_by(event)
    if used is not None:
        run.usage.add(used)
        view.usage.add(used)


def _step_recorded(view: ThreadView, event: StepCompleted | StepFailed) -> RunView:
    run = view.known_run(event.run)
    run.recoveries = 0
    if run.waits:
        run.waits.pop(event.step, None)
    return run


def _step_failed(view: ThreadView, event: StepFailed) -> None:
    _step_recorded(view, event)


def _finished(view: ThreadView, event: RunFinished) -> None:
    run = _end(view, event.run, "done", event.at)
    run.stopped = event.stopped
    # The loop's own count is the last word: it knows of requests that were counted and not recorded.
    view.usage.add(run.usage, times=-1)
    run.usage = told_usage(event.usage)
    view.usage.add(run.usage)


def _failed(view: ThreadView, event: RunFailed) -> None:
    _end(view, event.run, "failed", event.at, f"{event.error.type}: {event.error.message}")


def _cancelled(view: ThreadView, event: RunCancelled) -> None:
    queued = _out_of_queue(view, event.run)
    if queued is None:
        _end(view, event.run, "cancelled", event.at, event.reason)
        return
    # It was never begun, and says nothing about how the thread is doing.
    queued.end("cancelled", event.at, event.reason)
    view.runs.insert(view.queue_start, queued)


def _end(view: ThreadView, name: str, status: str, at: int, error: str | None = None) -> RunView:
    run = view.known_run(name)
    for step, wait in run.waits.items():
        if wait.kind == "child" and (child := view.child(name, step)) is not None:
            child.status = "abandoned"
    run.end(status, at, error)
    view.status = status
    return run


def _halted(view: ThreadView, event: RunHalted) -> None:
    _stop(view, event.run, "halted", f"step {event.step}: {event.field} differs from what was recorded")


def _parked(view: ThreadView, event: RunParked) -> None:
    _stop(view, event.run, "parked", event.reason).recoveries = event.recoveries


def _stop(view: ThreadView, name: str, status: str, error: str) -> RunView:
    run = view.known_run(name)
    run.status, run.error, run.waiting = status, error, []
    view.status = status
    return run


def _recovered(view: ThreadView, event: RunRecovered) -> None:
    view.known_run(event.run).recoveries += 1


def _deadline_set(view: ThreadView, event: RunDeadlineSet) -> None:
    view.known_run(event.run).deadline = event.due


def _paused(view: ThreadView, event: RunPaused) -> None:
    view.known_run(event.run).pausing = event.reason


def _suspended(view: ThreadView, event: RunSuspended) -> None:
    run = view.known_run(event.run)
    run.suspend(event.waiting)
    view.status = run.status


def _woken(view: ThreadView, event: RunWoken) -> None:
    view.go_on(view.known_run(event.run))


def _resumed(view: ThreadView, event: RunResumed) -> None:
    run = view.known_run(event.run)
    run.error, run.pausing, run.recoveries = None, None, 0
    view.go_on(run)


_FOLDS: dict[type[msgspec.Struct], Callable[[ThreadView, Any], None]] = {
    ThreadOpened: _opened,
    StateSet: _state_set,
    RunQueued: _queued,
    RunStarted: _started,
    RunDeadlineSet: _deadline_set,
    RunSuspended: _suspended,
    RunWoken: _woken,
    RunPaused: _paused,
    RunRecovered: _recovered,
    RunParked: _parked,
    RunHalted: _halted,
    RunResumed: _resumed,
    RunFinished: _finished,
    RunFailed: _failed,
    RunCancelled: _cancelled,
    StepCompleted: _step_completed,
    StepFailed: _step_failed,
    **WAIT_FOLDS,
}
"""What each fact changes in a view; those that are missing here show nowhere in it."""

thread_view: Projection[ThreadView, ThreadEvent] = Projection(
    name="thread", version=3, catalog=Catalog(*THREAD_EVENTS), initial=ThreadView, apply=_apply
)
"""Status, runs, approvals and usage of one thread."""


def view_of(events: Iterable[RecordedEvent]) -> ThreadView:
    """Return a thread at a glance from its recorded events."""
    return project(thread_view, events)
