"""Waiting by the system's clock, so that a virtual one drives it too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from ..clock import Clock

__all__ = ["MOMENT_NS", "deadline", "sleep_until"]

MOMENT_NS = 1_000_000_000
"""Waits up to this long are waited for here; a longer one is an alarm's, and nothing of the run is in memory."""

LOOK_S = 30.0
"""How often a real clock is looked at: it may step."""


async def sleep_until(now: Clock, due: int) -> None:
    """Wait until the clock says that it is this late, in nanoseconds since the epoch."""
    subscribe = getattr(now, "subscribe", None)
    if subscribe is None:
        while (left := due - now()) > 0:  # noqa: ASYNC110  (a real clock tells nobody that it moved)
            await asyncio.sleep(min(LOOK_S, left / 1e9))
        return
    loop, moved = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(moved.set)

    subscribe(wake)
    try:
        while now() < due:
            await moved.wait()
            moved.clear()
    finally:
        cast("Any", now).unsubscribe(wake)


@asynccontextmanager
async def deadline(now: Clock, due: int, *, unless: Callable[[], bool]) -> AsyncGenerator[None]:
    """Bound what is inside by the system's clock, `unless` that holds when it is due.

    Raises:
        TimeoutError: it is later than `due`.
    """
    async with asyncio.timeout(None) as bound:

        async def expire() -> None:
            await sleep_until(now, due)
            if unless():
                return
            bound.reschedule(asyncio.get_running_loop().time())

        timer = asyncio.get_running_loop().create_task(expire())
        try:
            yield
        finally:
            timer.cancel()
