"""One run as it looks from outside: where it is, what it waits for, what it used."""

from __future__ import annotations

from typing import Final

import msgspec

from .usage import Usage

__all__ = ["RunView", "WaitView"]

PAUSE: Final = "pause"
"""What a run that somebody paused says that it waits for."""

_ASKED: Final = frozenset({"approval", "doubt", "signal"})
_SUSPENDED: Final = frozenset({"awaiting_input", "waiting", "paused"})


class WaitView(msgspec.Struct, omit_defaults=True):
    """What a step waits for since `since` and until `due` (None: as long as it takes).

    `kind` is `approval`, `signal`, `child`, `retry` or `doubt`: a step whose result is not known, which somebody has
    to settle. `about` is the tool, the signal's name or the child's thread.
    """

    kind: str
    about: str
    since: int
    due: int | None = None


class RunView(msgspec.Struct, omit_defaults=True):
    """One run: where it is, what it waits for and what it used. Times are nanoseconds since the epoch.

    Its `status` is one of these:

    - `queued`: it waits for its turn, until `queued_until`, and was not begun;
    - `running`;
    - `awaiting_input`: it waits for people or programs outside: a decision, a signal, somebody to settle a doubt;
    - `waiting`: it waits for runs of other threads, or to try a step again;
    - `paused`: it waits to be resumed, for somebody stopped it; `pausing` says why, from when that was asked for;
    - `parked`, `halted`: it cannot go on, and is left alone until it is resumed; `error` says why;
    - `done`, `failed`, `cancelled`: it has ended; `stopped` says why a done one did. One that was cancelled while it
      was queued has no `started_at`.

    `waiting` are the steps that it is suspended in, any of which lets it go on, and `waits` everything that steps
    wait for, by their names. `usage` counts what is recorded, so also that of a run which goes on, failed or was
    cancelled. `recoveries` counts the crashes since its last recorded step; it must have ended by `deadline`.
    """

    run: str
    agent: str
    status: str
    started_at: int | None = None
    ended_at: int | None = None
    stopped: str | None = None
    error: str | None = None
    steps: int = 0
    usage: Usage = msgspec.field(default_factory=Usage)
    queued_at: int | None = None
    queued_until: int | None = None
    waiting: list[str] = []
    waits: dict[str, WaitView] = {}
    pausing: str | None = None
    deadline: int | None = None
    recoveries: int = 0

    @property
    def in_doubt(self) -> list[str]:
        """The steps that may have taken effect or not, which somebody has to settle."""
        return [step for step, wait in self.waits.items() if wait.kind == "doubt"]

    @property
    def suspended(self) -> bool:
        """Whether it waits, and nothing of it is in memory."""
        return self.status in _SUSPENDED

    def suspend(self, waiting: list[str]) -> None:
        """Note what it cannot go on without."""
        kinds = {self.waits[step].kind for step in waiting if step in self.waits}
        paused = PAUSE in waiting or not waiting
        self.status = "paused" if paused else "awaiting_input" if kinds & _ASKED else "waiting"
        self.waiting = waiting

    def got(self, step: str) -> bool:
        """Note that a step got what it waited for, if it waited; return whether the run goes on because of it."""
        if self.waits.pop(step, None) is None or not self.suspended:
            return False
        if self.pausing is None:
            return True
        # It is paused as well, and goes on when it is resumed.
        self.suspend([waiting for waiting in self.waiting if waiting != step])
        return False

    def go_on(self) -> None:
        """Note that it is driven."""
        self.status, self.waiting = "running", []

    def end(self, status: str, at: int, error: str | None = None) -> None:
        """Note that it has ended, and waits for nothing any more."""
        self.status, self.ended_at, self.error = status, at, error
        self.waiting, self.waits, self.pausing = [], {}, None
