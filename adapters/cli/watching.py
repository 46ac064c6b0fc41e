"""Waiting for a run on this machine: show what becomes durable, until it ends or is left alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from ...actors import ActorRef, ActorSystem, UnknownRun
from ...actors.thread import AlarmFired, ThreadCommand, ThreadState
from ...journal import RecordedEvent
from ...journal.facts import RunFinished
from ...projections import RunView, ThreadView, project, thread_view, view_of
from .facts import CATALOG
from .progress import Ending, Progress
from .standing import waiting_for

__all__ = ["WAITS", "Watch"]

_POLL_S: Final = 0.1
"""How soon Ctrl-C, the deadline and failures are noticed; events are noticed at once."""

_ENDED: Final = frozenset({"done", "failed", "cancelled", "halted"})

_LEFT_ALONE: Final = frozenset({"awaiting_input", "paused", "parked"})
"""Where a run goes on only when somebody does something about it."""

WAITS: Final = _LEFT_ALONE | {"waiting"}
"""How a run is left that waits for what does not happen here."""


class Watch:
    """Watches the runs of one thread. `deadline` is on the monotonic clock; `interrupted` says when to leave."""

    def __init__(
        self, system: ActorSystem, stream: str, *, deadline: float | None, interrupted: Callable[[], bool]
    ) -> None:
        self._system = system
        self._stream = stream
        self._deadline = deadline
        self._interrupted = interrupted
        self._rung = set[int]()

    def until_end(self, run: str, after: int, progress: Progress) -> Ending:
        """Block until the run has ended or is left, showing the events after the sequence `after`."""
        fold = _Fold(run, after, progress)
        grew = threading.Event()
        unwatch = self._system.journal.watch(grew.set, stream=self._stream)
        try:
            while True:
                grew.clear()
                for event in self._system.journal.read(self._stream, after=fold.view.sequence):
                    fold.take(event)
                if fold.run_view.status in _ENDED:
                    return fold.ending()
                if self._rings(fold.run_view):
                    continue
                if left := self._why_left(fold.view) or self._why_it_waits(fold.run_view):
                    return fold.ending(*left)
                grew.wait(_POLL_S)
        finally:
            unwatch()

    def wake(self, stream: str) -> None:
        """Have a thread look at what is due, and go on with what is open."""
        thread: ActorRef[ThreadCommand, ThreadState] = ActorRef(self._system, stream)
        thread.ask(AlarmFired(self._system.clock())).get()

    def _rings(self, run: RunView) -> bool:
        """Let what is due happen, and return whether anything was: alarms are off here, for other threads have some."""
        dues = (
            run.queued_until if run.started_at is None else run.deadline,
            *(wait.due for wait in run.waits.values()),
        )
        due = {due for due in dues if due is not None and due <= self._system.clock()} - self._rung
        if due:
            self._rung |= due
            self.wake(self._stream)
        return bool(due)

    def _why_it_waits(self, run: RunView) -> tuple[str, str] | None:
        """Return why a run is left: what it waits for does not happen here."""
        if run.status not in _LEFT_ALONE and (run.status != "waiting" or self._goes_on(run)):
            return None
        return run.status, "; ".join(waiting_for(run)) or run.error or run.pausing or "nobody has resumed it"

    def _goes_on(self, run: RunView) -> bool:
        """Whether a run waits to try a step again, or for a run of another thread that goes on here."""
        waits = [run.waits[step] for step in run.waiting if step in run.waits]
        return any(wait.kind == "retry" or self._is_driven(wait.about) for wait in waits)

    def _is_driven(self, stream: str) -> bool:
        child = view_of(self._system.journal.read(stream)).open_run
        # One that was not begun, or has just ended, is on its way.
        return child is None or child.status == "running" or (child.status == "waiting" and self._goes_on(child))

    def _why_left(self, view: ThreadView) -> tuple[str, str] | None:
        if self._interrupted():
            return "interrupted", "interrupted"
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return "late", "not ended in time"
        streams = {self._stream, *(child.thread for child in view.children)}
        # What a user's own hook raised stops nothing.
        failures = (one for one in self._system.failures if not one.what.startswith("on_settled"))
        failure = next((one for one in failures if one.stream in streams), None)
        if failure is not None:
            return "running", f"cannot go on here: {type(failure.error).__name__}: {failure.error}"
        return None


class _Fold:
    """What is known of the thread and its run so far."""

    def __init__(self, run: str, after: int, progress: Progress) -> None:
        self.view = ThreadView()
        self._run = run
        self._after = after
        self._progress = progress
        self._last_at = time.time_ns()
        self._finished: RunFinished | None = None

    @property
    def run_view(self) -> RunView:
        found = self.view.run(self._run)
        if found is None:
            raise UnknownRun(thread=self.view.stream, run=self._run)
        return found

    def take(self, event: RecordedEvent) -> None:
        self.view = project(thread_view, [event], self.view)
        fact: msgspec.Struct | None = CATALOG.decode(event) if CATALOG.knows(event) else None
        if isinstance(fact, RunFinished) and fact.run == self._run:
            self._finished = fact
        if event.sequence > self._after and fact is not None:
            self._progress.event(event, fact, max(0, event.recorded_at - self._last_at))
            self._last_at = event.recorded_at

    def ending(self, status: str | None = None, error: str | None = None) -> Ending:
        run, finished = self.run_view, self._finished
        answered = finished is not None and finished.stopped == "final"
        return Ending(
            thread=self.view.stream,
            run=run.run,
            status=status or run.status,
            steps=run.steps,
            usage=run.usage,
            stopped=run.stopped,
            output=finished.output if finished is not None and answered else None,
            error=error or (None if answered else _why(run)),
        )


def _why(run: RunView) -> str:
    match run.status:
        case "done":
            return f"stopped without an answer: {run.stopped}"
        case "halted":
            return f"is halted: {run.error}. Nothing is lost; resume it with the code that recorded it."
        case status:
            verb = "was cancelled" if status == "cancelled" else status
            return f"{verb}: {run.error}"
