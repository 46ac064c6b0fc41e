"""The clock that wakes actors, looking when the loop it is on has come to what is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...journal import Journal
from ..alarms import AlarmClock
from ..clock import Clock

if TYPE_CHECKING:
    from ..reply import Reply

__all__ = ["LoopAlarms"]


class LoopAlarms(AlarmClock):
    """Alarms without a thread: the same looks at the same cells, each as a callback of the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        journal: Journal,
        clock: Clock,
        ring: Callable[[str, int], Reply[object]],
        report: Callable[[str, str, BaseException], None],
    ) -> None:
        super().__init__(journal, clock, ring, report)
        self._loop = loop
        self._started = False
        self._coming = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to send alarms, the overdue ones at once."""
        self._started = True
        self.look()

    def expect(self, due: int) -> None:
        """See `AlarmClock.expect`."""
        super().expect(due)
        self.look()

    def close(self) -> None:
        """Send no more."""
        super().close()
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """Look soon: something was filed or answered, or the clock was set."""
        if self._started and not self._coming:
            self._coming = True
            self._loop.call_soon(self._come)

    def _come(self) -> None:
        self._coming = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._run()
        left = self._left()
        if left is not None and not self._stopping:
            self._timer = self._loop.call_later(max(0, left) / 1e9, self.look)

    def _answer(self, rung: Any) -> None:  # noqa: ANN401  (private to the alarm clock)
        super()._answer(rung)
        self.look()

    def _wait(self) -> bool:
        """Wait for nothing: whether there is something to do now."""
        left = self._left()
        return not self._stopping and (bool(self._answered) or (left is not None and left <= 0))

    def _make_room(self) -> bool:
        """Send as many as are due: waiting for an answer here would keep it from coming."""
        return not self._stopping
