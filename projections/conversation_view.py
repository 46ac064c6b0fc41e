"""A conversation at a glance."""

from __future__ import annotations

import msgspec

from ..journal.facts import NOTHING
from .asked import ApprovalView, ChildView
from .runs import RunView
from .usage import Usage

__all__ = ["ThreadView"]


class ThreadView(msgspec.Struct):
    """A conversation at a glance; `status` is that of its open run, else that of the last run that was begun.

    `runs` are in the order in which they were begun, and those that are queued behind them, in their order. `state` is
    null until it is set.
    """

    stream: str = ""
    owner: str | None = None
    title: str | None = None
    status: str = "new"
    opened_at: int = 0
    sequence: int = 0
    runs: list[RunView] = []
    usage: Usage = msgspec.field(default_factory=Usage)
    state: msgspec.Raw = NOTHING
    approvals: list[ApprovalView] = []
    children: list[ChildView] = []

    def run(self, name: str) -> RunView | None:
        """Return one run, or None."""
        # The one that is asked for is mostly the last one.
        return next((run for run in reversed(self.runs) if run.run == name), None)

    def known_run(self, name: str) -> RunView:
        """Return the run that an event is about.

        Raises:
            LookupError: no event before it began that run; the history is not one of ours.
        """
        run = self.run(name)
        if run is None:
            raise LookupError(f"{self.stream}, sequence {self.sequence}: no event before it began run {name!r}")
        return run

    def approval(self, run: str, step: str) -> ApprovalView | None:
        """Return what a step of a run asked people to decide, or None."""
        return next((asked for asked in reversed(self.approvals) if asked.run == run and asked.step == step), None)

    def child(self, run: str, step: str) -> ChildView | None:
        """Return the run of another thread that a step of a run asked for, or None."""
        return next((child for child in reversed(self.children) if child.run == run and child.step == step), None)

    def go_on(self, run: RunView) -> None:
        """Note that the open run is driven."""
        run.go_on()
        self.status = run.status

    @property
    def open_run(self) -> RunView | None:
        """The run that was begun and has not ended; None when the thread is free."""
        last = next((run for run in reversed(self.runs) if run.started_at is not None), None)
        return last if last is not None and last.ended_at is None else None

    @property
    def queued(self) -> list[RunView]:
        """The runs that wait for their turn, the next one first."""
        return self.runs[self.queue_start :]

    @property
    def pending(self) -> list[ApprovalView]:
        """The tool calls that wait for a decision, the oldest first."""
        return [asked for asked in self.approvals if asked.decision is None]

    @property
    def queue_start(self) -> int:
        """Where in `runs` those that are queued begin."""
        place = len(self.runs)
        while place and self.runs[place - 1].status == "queued":
            place -= 1
        return place
