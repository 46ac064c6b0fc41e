"""A clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

__all__ = ["START", "VirtualClock"]

START = 1_767_225_600_000_000_000
"""Where virtual time begins: 2026-01-01, UTC, in nanoseconds since the epoch."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class VirtualClock:
    """A clock that moves only when told to, in nanoseconds; it can step back, as real ones do.

    The alarms of a system with this clock fire when it is moved, and never by themselves. They fire on another thread:
    wait for what they do.
    """

    def __init__(self, start: int = START) -> None:
        self._now = start
        self._subscribers: list[Callable[[], None]] = []

    def __call__(self) -> int:
        """Return the present time."""
        return self._now

    @property
    def now(self) -> int:
        """The present time; setting it moves the clock."""
        return self._now

    @now.setter
    def now(self, at: int) -> None:
        self._now = at
        for callback in tuple(self._subscribers):
            callback()

    def advance(self, seconds: float) -> None:
        """Move it on, or back."""
        self.now += round(seconds * 1e9)

    def jump_to(self, at: int | datetime) -> None:
        """Move it to a time: nanoseconds since the epoch, UTC, or a time with its zone."""
        if isinstance(at, datetime):
            if at.tzinfo is None:
                raise ValueError(f"{at} has no zone: give it one, such as datetime.UTC")
            at = (at - _EPOCH) // timedelta(microseconds=1) * 1000
        self.now = at

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Call `callback()` whenever the clock was moved, on the thread that moves it."""
        self._subscribers.append(callback)

    def unsubscribe(self, callback: Callable[[], None]) -> None:
        """Call it no more."""
        self._subscribers.remove(callback)
