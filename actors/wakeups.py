"""The asyncio tasks that wait for replies, woken together: to wake a loop costs more than the rest of a reply."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from contextlib import suppress

__all__ = ["gather_wakeups", "send_wakeups", "wake_up"]


class _Local(threading.local):
    """What the running thread has gathered; None where nothing is gathered."""

    gathered: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] | None = None


_local = _Local()


def gather_wakeups() -> None:
    """Let the running thread gather wake-ups from now on; it must call `send_wakeups` before it waits or works long."""
    _local.gathered = {}


def wake_up(future: asyncio.Future[None]) -> None:
    """Resolve a future on its loop, at once or with others."""
    gathered = _local.gathered
    if gathered is None:
        _wake(future.get_loop(), [future])
    else:
        gathered.setdefault(future.get_loop(), []).append(future)


def send_wakeups() -> None:
    """Wake all that was gathered on this thread."""
    if _local.gathered:
        gathered, _local.gathered = _local.gathered, {}
        for loop, futures in gathered.items():
            _wake(loop, futures)


def _wake(loop: asyncio.AbstractEventLoop, futures: list[asyncio.Future[None]]) -> None:
    # The loop may be gone when a late answer comes; then nobody is waiting for it.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_arrive, futures)


def _arrive(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
