"""Who is not to be asked again for a while, longer each time."""

from __future__ import annotations

import heapq
from typing import Final, NamedTuple

__all__ = ["Backoff"]

FIRST: Final = 1_000_000_000
LONGEST: Final = 300_000_000_000
"""In nanoseconds: 1 s, doubled each time up to 5 min."""


class _Rest(NamedTuple):
    due: int
    until: int
    length: int


class Backoff:
    """Actors that rest, each because of one due of its alarm; kept in memory alone, and used by one thread.

    All times are in nanoseconds since the epoch, UTC, as the caller's clock has them.
    """

    def __init__(self) -> None:
        self._rests: dict[str, _Rest] = {}
        # Ends of rests, also of those that were forgotten or begun again since.
        self._ends: list[tuple[int, str]] = []

    def begin(self, stream: str, due: int, at: int) -> None:
        """Let an actor rest from `at` on: for twice as long as the last time, if it was because of the same due."""
        last = self._rests.get(stream)
        length = min(2 * last.length, LONGEST) if last is not None and last.due == due else FIRST
        self._rests[stream] = _Rest(due, at + length, length)
        heapq.heappush(self._ends, (at + length, stream))

    def forget(self, stream: str) -> None:
        """Let an actor be as if it had never rested."""
        self._rests.pop(stream, None)

    def holds(self, stream: str, due: int, now: int) -> bool:
        """Whether an actor rests now, because of this due."""
        rest = self._rests.get(stream)
        return rest is not None and rest.due == due and now < rest.until

    def next_end(self) -> int | None:
        """Return when the next rest ends."""
        ends = self._ends
        while ends and not self._is_current(*ends[0]):
            heapq.heappop(ends)
        return ends[0][0] if ends else None

    def ended(self, now: int) -> tuple[str, int] | None:
        """Return one actor whose rest is over, and its due; each rest ends once."""
        end = self.next_end()
        if end is None or end > now:
            return None
        stream = heapq.heappop(self._ends)[1]
        return stream, self._rests[stream].due

    def step_back(self, now: int) -> None:
        """Let nobody rest for longer than was meant, after the clock was put back to `now`."""
        for stream, rest in self._rests.items():
            self._rests[stream] = rest._replace(until=min(rest.until, now + rest.length))
        self._ends = [(rest.until, stream) for stream, rest in self._rests.items()]
        heapq.heapify(self._ends)

    def _is_current(self, end: int, stream: str) -> bool:
        rest = self._rests.get(stream)
        return rest is not None and rest.until == end
