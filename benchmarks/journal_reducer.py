"""A fold whose own work is small, so that what is measured is how events come to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from clew.journal import Journal
from clew.journal.facts import (
    RunCancelled,
    RunFailed,
    RunFinished,
    RunHalted,
    RunResumed,
    RunStarted,
    StateSet,
    StepCompleted,
    StepFailed,
    ThreadOpened,
)

from .journal_threads import CATALOG

__all__ = ["REDUCERS", "Seen", "fold_stream"]


class Seen:
    """What there was in a thread."""

    __slots__ = ("failures", "last_at", "owner", "run", "runs", "state", "steps")

    def __init__(self) -> None:
        self.owner: str | None = None
        self.run: str | None = None
        self.state: msgspec.Raw | None = None
        self.runs = self.steps = self.failures = self.last_at = 0


def _opened(seen: Seen, event: ThreadOpened) -> None:
    seen.owner = event.owner
    seen.last_at = event.at


def _started(seen: Seen, event: RunStarted) -> None:
    seen.run = event.run
    seen.runs += 1
    seen.last_at = event.at


def _completed(seen: Seen, event: StepCompleted) -> None:
    seen.steps += 1
    seen.last_at = event.at


def _failed(seen: Seen, event: StepFailed) -> None:
    seen.failures += 1
    seen.last_at = event.at


def _set(seen: Seen, event: StateSet) -> None:
    seen.state = event.value


def _ended(seen: Seen, event: RunFinished | RunFailed | RunCancelled | RunHalted) -> None:
    seen.run = None
    seen.last_at = event.at


REDUCERS: Final[dict[type[msgspec.Struct], Callable[[Seen, Any], None]]] = {
    ThreadOpened: _opened,
    RunStarted: _started,
    RunResumed: _started,
    StepCompleted: _completed,
    StepFailed: _failed,
    StateSet: _set,
    RunFinished: _ended,
    RunFailed: _ended,
    RunCancelled: _ended,
    RunHalted: _ended,
}


def fold_stream(journal: Journal, stream: str) -> tuple[Seen, int]:
    """Return what there was in a stream, and how many events that were."""
    seen, events = Seen(), 0
    for page in journal.pages(stream, CATALOG):
        events += len(page.events)
        for event in page.events:
            REDUCERS[type(event)](seen, event)
    return seen, events
