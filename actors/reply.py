"""The future of an ask: pykka's, made awaitable and safe to wait for."""

from __future__ import annotations

import asyncio
import logging
import queue
import sys
import threading
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

import pykka

from .errors import BlockingAsk
from .wakeups import wake_up

if TYPE_CHECKING:
    from pykka._future import GetHookFunc  # pyright: ignore[reportPrivateUsage]
    from pykka._types import OptExcInfo  # pyright: ignore[reportPrivateUsage]

__all__ = ["Reply", "forbid_blocking", "forbid_here", "translated"]

A = TypeVar("A")
B = TypeVar("B")

_local = threading.local()
log = logging.getLogger("clew")


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


class Reply(pykka.Future[A], Generic[A]):
    """The answer to an ask, there once the events behind it are durable.

    `reply.get(timeout=seconds)` blocks, `await reply` does not; both raise what the actor refused or what failed. It is
    a pykka future; pykka's own costs a condition variable each, and most replies are never blocked on.
    """

    # What `Future.__init__` sets, which is not called: only what pykka's `map` and the like return has a hook.
    _get_hook = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._result: tuple[A | None, BaseException | None, TracebackType | None] | None = None
        self._waiters: list[_Waiter] | None = None

    def set_get_hook(self, func: GetHookFunc[A]) -> None:
        """Compute the answer when it is asked for; pykka calls this on what its `map` and the like return."""
        super().__init__()
        super().set_get_hook(func)

    def set(self, value: A | None = None) -> None:
        """Answer."""
        self._settle(value, None)

    def set_exception(self, exc_info: OptExcInfo | None = None) -> None:
        """Answer with an error: the one being handled, or `(type, error, traceback)`."""
        kind, error, trace = exc_info if exc_info is not None else sys.exc_info()
        if error is None:
            error = RuntimeError("an answer without an error") if kind is None else kind()
        self._settle(None, error.with_traceback(trace))

    def fail(self, error: BaseException) -> None:
        """Answer with `error`."""
        self._settle(None, error)

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
        if self._get_hook is not None:
            return super().get(timeout=timeout)
        if self._result is None:
            forbid_here()
            # A bare lock wakes its waiter in half the time of an Event.
            arrived = threading.Lock()
            arrived.acquire()
            self.when_done(arrived.release)
            if not arrived.acquire(timeout=-1 if timeout is None else max(timeout, 0.0)):
                raise pykka.Timeout(f"{timeout} seconds")
        return self._answer()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback()` once the answer is there, on the thread that sets it; at once if it is there."""
        if not self._wait(callback):
            callback()

    def _wait(self, waiter: _Waiter) -> bool:
        """Return whether it waits now; False when the answer is there."""
        with self._lock:
            if self._result is not None:
                return False
            if self._waiters is None:
                self._waiters = [waiter]
            else:
                self._waiters.append(waiter)
            return True

    def __await__(self) -> Generator[Any, None, A]:
        """Wait on the running asyncio loop without blocking it."""
        if self._get_hook is not None:
            # What pykka's `map`, `join` and the like return is computed by whoever gets it.
            return (yield from asyncio.to_thread(self.get).__await__())
        if self._result is None:
            arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if self._wait(arrived):
                yield from arrived
        return self._answer()

    def _answer(self) -> A:
        value, error, trace = self._result or (None, None, None)
        if error is not None:
            # Many may ask, and one error may answer many: each begins where it was raised, not where it was told last.
            raise error.with_traceback(trace)
        return cast("A", value)

    def _settle(self, value: A | None, error: BaseException | None) -> None:
        with self._lock:
            if self._result is not None or self._get_hook is not None:
                # What pykka's futures do when they are answered twice.
                raise queue.Full
            self._result = (value, error, error.__traceback__ if error is not None else None)
            waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not callable(waiter):
                wake_up(waiter)
                continue
            # The actor stands behind this: one that raises must not stop it, or the callbacks after it.
            try:
                waiter()
            except Exception:
                log.exception("a callback of a reply failed")


_Waiter: TypeAlias = "Callable[[], None] | asyncio.Future[None]"


def translated(reply: Reply[A], translate: Callable[[A], B]) -> Reply[B]:
    """Return the future of what `translate` makes of an answer; it is quick, waits for nothing, and may refuse."""
    told: Reply[B] = Reply()

    def tell() -> None:
        try:
            told.set(translate(reply.get()))
        except BaseException as error:  # noqa: BLE001  (it is the answer)
            told.fail(error)

    reply.when_done(tell)
    return told
