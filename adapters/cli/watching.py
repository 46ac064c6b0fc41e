"""Waiting for a run on this machine: show what becomes durable, until it ends or is left alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from ...actors import ActorSystem, UnknownRun
from ...journal import RecordedEvent
from ...journal.facts import RunFinished
from ...projections import RunView, ThreadView, project, thread_view
from .facts import CATALOG
from .progress import Ending, Progress

__all__ = ["Watch"]

_POLL_S: Final = 0.1
"""How soon Ctrl-C, the deadline and failures are noticed; events are noticed at once."""

_ENDED: Final = frozenset({"done", "failed", "cancelled", "halted"})


class Watch:
    """Watches the runs of one thread. `deadline` is on the monotonic clock; `interrupted` says when to leave."""

    def __init__(
        self, system: ActorSystem, stream: str, *, deadline: float | None, interrupted: Callable[[], bool]
    ) -> None:
        self._system = system
        self._stream = stream
        self._deadline = deadline
        self._interrupted = interrupted

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
                if left := self._why_left():
                    return fold.ending(*left)
                grew.wait(_POLL_S)
        finally:
            unwatch()

    def _why_left(self) -> tuple[str, str] | None:
        if self._interrupted():
            return "interrupted", "interrupted"
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return "late", "not ended in time"
        failure = next((one for one in self._system.failures if one.stream == self._stream), None)
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
