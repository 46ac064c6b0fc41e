"""An asyncio loop on which time passes only when nothing else is left to do, and then at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

__all__ = ["NothingLeft", "VirtualLoop"]

TURNS_MAX = 200_000
"""Turns of the loop after which a world is taken to go in circles."""


class NothingLeft(Exception):
    """Nothing can happen any more, and something is still waited for; or things go on happening for ever."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop without real time, threads or sockets, so that what runs on it runs the same way each time.

    `leap(nanoseconds)` is called before time passes, `idle(nanoseconds)` before that: it returns whether it found
    something to do first. What is given to executors runs at once, here.

    Raises:
        NothingLeft: from the loop, when there is nothing that time could bring.
    """

    def __init__(self, *, idle: Callable[[int | None], bool], leap: Callable[[int], None], now: int = 0) -> None:
        self._passed = now
        self._turns = 0
        self._idle = idle
        self._leap = leap
        super().__init__(_Leaping(self))

    def time(self) -> float:
        """Return the seconds that have passed."""
        return self._passed / 1e9

    def pass_time(self, timeout_s: float | None) -> None:
        """Let time pass until the next thing is due; called by the loop in place of waiting."""
        self._turns += 1
        if self._turns > TURNS_MAX:
            raise NothingLeft(f"it goes on for ever: {TURNS_MAX} turns of the loop")
        if timeout_s is not None and timeout_s <= 0:
            return
        left = None if timeout_s is None else max(1, round(timeout_s * 1e9))
        if self._idle(left):
            return
        if left is None:
            raise NothingLeft("nothing is left that could happen")
        self._leap(left)
        self._passed += left

    def count_anew(self) -> None:
        """Count the turns from here."""
        self._turns = 0

    # typeshed names the context that these take by keyword alone, and so do their callers.
    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:  # noqa: ANN401
        """Do as `call_soon`: there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # noqa: ANN401
        """Run it at once."""
        done: Future[Any] = Future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  (it is the caller's)
            done.set_exception(error)
        return asyncio.wrap_future(done, loop=self)


class _Leaping(selectors.SelectSelector):
    """A selector that looks at no file, and lets the loop's time pass."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Pass the time."""
        self._loop.pass_time(timeout)
        return []
