"""The future of an ask: pykka's, made awaitable and safe to wait for."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

import pykka

from .errors import BlockingAsk

__all__ = ["Reply", "forbid_blocking", "forbid_here"]

A = TypeVar("A")

_local = threading.local()


def forbid_blocking() -> None:
    """Mark the running thread as one that drives actors, so that no reply is waited for on it."""
    _local.drives_actors = True


def forbid_here() -> None:
    """Refuse a blocking wait on a thread that drives actors.

    Raises:
        BlockingAsk: this is such a thread.
    """
    if getattr(_local, "drives_actors", False):
        raise BlockingAsk(thread=threading.current_thread().name)


class Reply(pykka.ThreadingFuture[A], Generic[A]):
    """The answer to an ask, there once the events behind it are durable.

    `reply.get(timeout=seconds)` blocks, `await reply` does not; both raise what the actor refused or what failed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._callbacks: list[Callable[[], None]] = []

    def set(self, value: A | None = None) -> None:
        """Answer."""
        super().set(value)
        self._call_back()

    def set_exception(self, exc_info: object = None) -> None:
        """Answer with an error: the one being handled, or `(type, error, traceback)`."""
        super().set_exception(exc_info if exc_info is not None else sys.exc_info())  # pyright: ignore[reportArgumentType]
        self._call_back()

    def fail(self, error: BaseException) -> None:
        """Answer with `error`."""
        self.set_exception((type(error), error, error.__traceback__))

    @property
    def done(self) -> bool:
        """Whether the answer is there."""
        return self._result is not None

    def get(self, *, timeout: float | None = None) -> A:
        """Block until the answer is there, at most `timeout` seconds.

        Raises:
            pykka.Timeout: not in time; the command may still be handled. Ask again with the same id.
            BlockingAsk: called on a thread that actors run on.
        """
        if self._result is None:
            forbid_here()
        return super().get(timeout=timeout)

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback()` once the answer is there, on the thread that sets it; at once if it is there."""
        with self._condition:
            if self._result is None:
                self._callbacks.append(callback)
                return
        callback()

    def __await__(self) -> Generator[Any, None, A]:
        """Wait on the running asyncio loop without blocking it."""
        if self._result is None:
            loop = asyncio.get_running_loop()
            arrived: asyncio.Future[None] = loop.create_future()

            def wake() -> None:
                if not arrived.done():
                    arrived.set_result(None)

            def arrive() -> None:
                # The loop may be gone when a late answer comes; then nobody is waiting for it.
                if not loop.is_closed():
                    loop.call_soon_threadsafe(wake)

            self.when_done(arrive)
            yield from arrived
        return super().get()

    def _call_back(self) -> None:
        with self._condition:
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
