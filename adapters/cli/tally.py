"""What the demo left behind, counted: what is recorded, what began, and what was filed at the shop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ...examples.support_desk import open_shop
from ...journal import RecordedEvent
from ...journal.facts import StepCompleted, StepFailed
from ...projections import ThreadView, project, thread_view
from .facts import CATALOG

__all__ = ["Filed", "Recorded", "filed", "recorded", "started"]


class Recorded(msgspec.Struct):
    """What a journal holds: its threads, and how many events each step has (an attempt that raised is one too)."""

    threads: dict[str, ThreadView]
    attempts: Counter[str]
    steps: set[str]

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return sum(len(view.runs) for view in self.threads.values())

    @property
    def done(self) -> int:
        """How many runs have an answer."""
        return sum(run.status == "done" for view in self.threads.values() for run in view.runs)


class Filed(msgspec.Struct, frozen=True):
    """What reached the shop, and how much of it more than once."""

    answers: int
    refunds: int
    duplicates: int


def recorded(events: Iterable[RecordedEvent]) -> Recorded:
    """Count what is recorded."""
    found = Recorded({}, Counter(), set())
    for event in events:
        found.threads[event.stream] = project(thread_view, [event], found.threads.get(event.stream))
        fact = CATALOG.decode(event)
        if isinstance(fact, StepCompleted | StepFailed):
            step = f"{event.stream}/{fact.run}/{fact.step}"
            found.attempts[step] += 1
            if isinstance(fact, StepCompleted) or fact.final:
                found.steps.add(step)
    return found


def started(path: Path) -> Counter[str]:
    """Count how often each call began."""
    return Counter(path.read_text(encoding="utf-8").splitlines()) if path.exists() else Counter()


def filed(folder: Path) -> Filed:
    """Count what was filed; a second answer of a run, or a second refund of an order by it, is one too many."""
    shop = open_shop(folder / "shop.sqlite")
    answers, refunds = shop.answers(), shop.refunds()
    by_run = Counter(_run_of(answer.idempotency_key) for answer in answers)
    by_order = Counter((_run_of(refund.idempotency_key), refund.order_id) for refund in refunds)
    duplicates = len(answers) - len(by_run) + len(refunds) - len(by_order)
    return Filed(len(answers), len(refunds), duplicates)


def _run_of(key: str) -> str:
    return key.rpartition("/")[0]
