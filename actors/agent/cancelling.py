"""What came of a cancel: whoever asked for it is told what happened, not what was wished."""

from __future__ import annotations

from dataclasses import dataclass

from ..thread import ThreadState

__all__ = ["CancelOutcome", "cancel_outcome"]


@dataclass(frozen=True)
class CancelOutcome:
    """Where the run is for good: `cancelled`, or `done` or `failed` where it ended first.

    `nothing` where there was no run at all: the thread has only been opened, by a schedule say.
    """

    status: str

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled, now or before."""
        return self.status == "cancelled"


def cancel_outcome(thread: ThreadState, run: str | None) -> CancelOutcome:
    """Return what came of cancelling a run, or of cancelling all that there was: then, of the last one."""
    last = next(reversed(thread.runs), None) if run is None else run
    if last is None:
        return CancelOutcome("nothing")
    return CancelOutcome(thread.runs[last].status.value)
