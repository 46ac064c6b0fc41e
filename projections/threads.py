"""What a conversation looks like from outside: its status, its runs, what they used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec

from ..journal import Catalog, RecordedEvent
from ..journal.facts import (
    THREAD_EVENTS,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunHalted,
    RunResumed,
    RunStarted,
    StateSet,
    StepCompleted,
    ThreadEvent,
    ThreadOpened,
)
from .projection import Projection, project

__all__ = ["RunView", "ThreadView", "Usage", "thread_view", "view_of"]


class Usage(msgspec.Struct):
    """What model calls used: how many there were, and their tokens."""

    requests: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, other: Usage, *, times: int = 1) -> None:
        """Add what another one used, or take it off again with `times=-1`."""
        self.requests += times * other.requests
        self.tool_calls += times * other.tool_calls
        self.input_tokens += times * other.input_tokens
        self.output_tokens += times * other.output_tokens


class _Response(msgspec.Struct):
    """What counts of a model's response."""

    usage: Usage | None = None


class RunView(msgspec.Struct):
    """One run: `status` is running, done, failed, cancelled or halted; `stopped` says why a done one ended.

    `usage` counts what is recorded, so also that of a run which goes on, failed or was cancelled.
    """

    run: str
    agent: str
    status: str
    started_at: int
    ended_at: int | None = None
    stopped: str | None = None
    error: str | None = None
    steps: int = 0
    usage: Usage = msgspec.field(default_factory=Usage)


class ThreadView(msgspec.Struct):
    """A conversation at a glance; `status` is that of its last run."""

    stream: str = ""
    owner: str | None = None
    title: str | None = None
    status: str = "new"
    opened_at: int = 0
    sequence: int = 0
    runs: list[RunView] = msgspec.field(default_factory=list[RunView])
    usage: Usage = msgspec.field(default_factory=Usage)
    state: msgspec.Raw | None = None

    def run(self, name: str) -> RunView | None:
        """Return one run, or None."""
        # The one that is asked for is mostly the last one.
        return next((run for run in reversed(self.runs) if run.run == name), None)


_USAGE = msgspec.json.Decoder(Usage | None)
_RESPONSE = msgspec.json.Decoder(_Response)


def _apply(view: ThreadView, event: ThreadEvent, recorded: RecordedEvent) -> ThreadView:
    view.stream, view.sequence = recorded.stream, recorded.sequence
    match event:
        case ThreadOpened():
            view.owner, view.title, view.opened_at = event.owner, event.title, event.at
            return view
        case StateSet():
            view.state = event.value
            return view
        case RunStarted():
            view.runs.append(RunView(event.run, event.agent, "running", event.at))
        case _:
            pass
    run = cast("RunView", view.run(event.run))
    _apply_to_run(view, run, event)
    view.status = run.status
    return view


def _apply_to_run(view: ThreadView, run: RunView, event: ThreadEvent) -> None:
    match event:
        case StepCompleted() if "/" not in event.step:
            run.steps += 1
            _count(view, run, event)
        case RunFinished():
            run.status, run.stopped, run.ended_at = "done", event.stopped, event.at
            # The loop's own count is the last word: it knows of requests that were counted and not recorded.
            view.usage.add(run.usage, times=-1)
            run.usage = _USAGE.decode(event.usage) or Usage()
            view.usage.add(run.usage)
        case RunFailed():
            run.status, run.ended_at = "failed", event.at
            run.error = f"{event.error.type}: {event.error.message}"
        case RunCancelled():
            run.status, run.error, run.ended_at = "cancelled", event.reason, event.at
        case RunHalted():
            run.status = "halted"
            run.error = f"step {event.step}: {event.field} differs from what was recorded"
        case RunResumed():
            run.status, run.error = "running", None
        case _:
            pass


def _count(view: ThreadView, run: RunView, event: StepCompleted) -> None:
    """Count what a step used: a turn of the model, or a tool with the sub-agents in it."""
    if event.step.startswith("llm:"):
        used = _used_by_response(event.result)
        used.requests += 1
    elif event.step.startswith("tool:"):
        used = _USAGE.decode(event.usage) or Usage()
        used.tool_calls += 1
    else:
        return
    run.usage.add(used)
    view.usage.add(used)


def _used_by_response(result: msgspec.Raw) -> Usage:
    try:
        return _RESPONSE.decode(result).usage or Usage()
    except msgspec.ValidationError:
        # Not every answer of a model is a response with a usage; then the tokens are not known.
        return Usage()


thread_view: Projection[ThreadView, ThreadEvent] = Projection(
    name="thread", version=1, catalog=Catalog(*THREAD_EVENTS), initial=ThreadView, apply=_apply
)
"""Status, runs and usage of one thread."""


def view_of(events: Iterable[RecordedEvent]) -> ThreadView:
    """Return a thread at a glance from its recorded events."""
    return project(thread_view, events)
