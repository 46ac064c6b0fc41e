"""Listening to what a model says in a thread, as it says it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from ...journal import Journal, JournalClosed
from ..errors import DeltasLost
from .live_turns import Delta, LiveTurns, Speech
from .subscription import run_ends

__all__ = ["HELD_MAX", "Deltas"]

HELD_MAX = 1000
"""Deltas that wait for a listener at the most."""


class Deltas:
    """What the model says in a thread, as it says it; with a run's id, in that run.

    Iterate with `async for`; leave with `async with`, or `close()`, from any thread. It listens from where the block
    is entered, or the iteration begins, and leaves nothing behind if neither happens. It may begin before the thread
    does. Turns of sub-agents are told apart by their step.

    The pieces of a turn that ended, joined, are what its response holds, and they are lost with the process: the
    thread's events are what counts. Who comes in the middle of a turn reads the events for what was before, and gets
    what was said of the turn so far; with `after`, the last delta that was seen, only the rest of it.

    It ends when the run has ended or the system closes.

    Raises:
        DeltasLost (while reading, behind what still waited): more than `held_max` waited. Resync from the events.
        UnknownThread (while reading): the thread was begun meanwhile, and is not yours.
        ValueError: `held_max` is below 1.
    """

    def __init__(
        self,
        live: LiveTurns,
        journal: Journal,
        stream: str,
        *,
        run: str | None,
        after: Delta | None,
        held_max: int,
        check: Callable[[], object],
    ) -> None:
        if held_max < 1:
            raise ValueError(f"held_max is at least 1, not {held_max}")
        self.stream = stream
        self._live = live
        self._journal = journal
        self._run = run
        self._after = after
        self._held_max = held_max
        self._check = check
        self._held: deque[Delta] = deque()
        self._lost = False
        self._listening = False
        self._entered = False
        self._wake: Callable[[], None] | None = None
        self._unwatch: Callable[[], None] | None = None
        self._grown = True
        self._looked_at = 0

    def hears(self, speech: Speech) -> bool:
        """Whether a turn is one that it is about."""
        return self._run in (None, speech.run)

    def put(self, delta: Delta) -> bool:
        """Hold a delta until it is read; return whether there was room."""
        if len(self._held) >= self._held_max:
            self._lost = True
        else:
            self._held.append(delta)
        self.wake()
        return not self._lost

    def wake(self) -> None:
        """Have the reader look again."""
        if self._wake is not None:
            self._wake()

    def close(self) -> None:
        """End the iteration, and listen no more."""
        self._listening = False
        self._live.forget(self)
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        self.wake()

    async def aclose(self) -> None:
        """Do the same; for `contextlib.aclosing`."""
        self.close()

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        self._entered = True
        self._listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no more."""
        self._entered = False
        self.close()

    async def __aiter__(self) -> AsyncIterator[Delta]:
        """Yield what is said, waiting on the running loop while nothing is."""
        loop, grew = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # A loop that is gone reads no more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(grew.set)

        self._wake = wake
        self._listen()
        checked = False
        try:
            while True:
                grew.clear()
                # Looked at first: what was said before the end is held by then.
                over = self._is_over()
                if self._held:
                    if not checked:
                        self._check()
                        checked = True
                    self._after = self._held.popleft()
                    yield self._after
                elif self._lost:
                    self.close()
                    raise DeltasLost(thread=self.stream, held_max=self._held_max)
                elif over:
                    return
                else:
                    await grew.wait()
        finally:
            # Inside a block the iteration may begin again; and one that was left may be over after the next has begun.
            if self._wake is wake and not self._entered:
                self.close()

    def _listen(self) -> None:
        if self._listening:
            return
        self._held.clear()
        self._listening, self._lost = True, False
        if self._run is not None:
            self._unwatch = self._journal.watch(self._grow, stream=self.stream)
        self._live.listen(self, self._after)

    def _grow(self) -> None:
        self._grown = True
        self.wake()

    def _is_over(self) -> bool:
        return not self._listening or self._live.closed or self._journal.closed or self._run_ended()

    def _run_ended(self) -> bool:
        if self._run is None or not self._grown:
            return False
        self._grown = False
        with suppress(JournalClosed):
            for recorded in self._journal.read(self.stream, after=self._looked_at):
                if run_ends(recorded, self._run):
                    # It stays the last one looked at, so that whoever asks again sees it again.
                    self._grown = True
                    return True
                self._looked_at = recorded.sequence
        return False
