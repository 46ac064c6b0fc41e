"""The way of a driver's words into the journal: sent at once, waited for where it matters."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from ..thread import ThreadCommand, ThreadState
from .recorded import HistoryEnds, Waits

__all__ = ["LetGo", "Recording", "Sink"]


class Sink(Protocol):
    """Where new steps go; None in a replay, which may not make any."""

    def __call__(self, command: ThreadCommand, command_id: str, /) -> Awaitable[ThreadState]:
        """Send a command to the thread; the reply is there once it is durable."""
        ...


class LetGo(BaseException):
    """A signal: the driver has let go of this run, and what still runs of it records nothing. Never caught broadly."""


class Recording:
    """What is recorded of one run while it is driven; in a replay (`sink` None) nothing is."""

    def __init__(self, run: str, sink: Sink | None, waits: Waits) -> None:
        self.sink = sink
        self.stopped_by: Exception | None = None
        """Why nothing more can be recorded, once that is so."""
        self._run = run
        self._waits = waits
        self._unsynced: list[Awaitable[ThreadState]] = []
        self._completing: dict[str, Awaitable[ThreadState]] = {}
        self._let_go = False

    def send(self, command: ThreadCommand, command_id: str, *, completes: str | None = None) -> None:
        """Send a command to the thread; `synced` waits for it. It may be the one that completes a step."""
        if self.sink is None:
            raise HistoryEnds(command_id)
        if self._let_go:
            raise LetGo
        try:
            reply = self.sink(command, command_id)
        except Exception as error:
            self.stopped_by = error
            raise
        self._unsynced.append(reply)
        if completes is not None:
            self._completing[completes] = reply

    async def synced(self) -> None:
        """Wait until everything recorded so far is durable.

        Raises:
            RunEnded: the run was cancelled meanwhile.
            JournalError: a commit failed.
        """
        try:
            for reply in tuple(self._unsynced):
                # Those beside this one may wait for the same.
                state = await reply
                if reply in self._unsynced:
                    self._unsynced.remove(reply)
                run = state.runs.get(self._run)
                self._waits.pausing = run is not None and run.pausing
        except Exception as error:
            self.stopped_by = error
            raise

    def not_durable(self) -> tuple[str, ...]:
        """Return the steps that were completed here and may yet be lost; what rests on them is then lost with them."""
        self._completing = {name: reply for name, reply in self._completing.items() if reply in self._unsynced}
        return tuple(self._completing)

    def let_go(self) -> None:
        """Have nothing recorded any more of what still runs: the run goes on elsewhere, or later."""
        self._let_go = True
