"""Whether somebody paused a run, as far as it is durable: whoever was told that it is paused can rely on it."""

from __future__ import annotations

from ...journal import Journal
from ...journal.facts import RunPaused, RunResumed
from ...projections import conversation

__all__ = ["PauseWatch"]


class PauseWatch:
    """Looks at what is new in a thread since the last look, or since the sequence `after` at first."""

    def __init__(self, journal: Journal, stream: str, run: str, *, after: int, pausing: bool) -> None:
        self._journal = journal
        self._stream = stream
        self._run = run
        self._after = after
        self._pausing = pausing

    def __call__(self) -> bool:
        """Return whether the run is to stop before its next step."""
        for event in self._journal.read(self._stream, after=self._after):
            self._after = event.sequence
            if event.type.name in ("run.paused", "run.resumed"):
                fact = conversation.catalog.decode(event)
                if isinstance(fact, RunPaused | RunResumed) and fact.run == self._run:
                    self._pausing = isinstance(fact, RunPaused)
        return self._pausing
