"""A commit: the future of an append, kept small because every append makes one."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import msgspec

__all__ = ["Commit"]

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Commit:
    """Resolves when the appended events would survive power loss, or fails with the reason.

    Wait for it with `commit.wait()` in a thread or `await commit` in asyncio; both raise what went wrong. Callbacks
    run once, on the thread that resolves it, and must be quick: the journal's writer is waiting for them.
    """

    __slots__ = ("_done", "_error", "_lock", "_waiters", "digest", "first_sequence", "last_sequence", "stream")

    def __init__(
        self, *, stream: str = "", first_sequence: int = 0, last_sequence: int = 0, digest: bytes = b""
    ) -> None:
        self.stream = stream
        self.first_sequence = first_sequence
        self.last_sequence = last_sequence
        self.digest = digest
        self._done = False
        self._error: Exception | None = None
        self._waiters: list[_Waiter] | None = None
        self._lock = threading.Lock()

    @property
    def done(self) -> bool:
        """Whether the answer is in: durable, or failed."""
        return self._done

    @property
    def error(self) -> Exception | None:
        """What went wrong, or None while waiting and once durable."""
        return self._error

    def resolve(self, error: Exception | None = None) -> None:
        """Say how it ended. Called once, by the journal."""
        Commit.resolve_all([(self, error)])

    def _settle(self, error: Exception | None) -> Sequence[_Waiter]:
        with self._lock:
            self._error = error
            self._done = True
            waiters, self._waiters = self._waiters, None
        return waiters or ()

    @staticmethod
    def resolve_all(outcomes: Iterable[tuple[Commit, Exception | None]]) -> None:
        """Say how several commits ended; a callback that raises a signal is heard when all have been told.

        Whoever waits for many of them is told once, after all have been settled: to wake a thread or an asyncio loop
        costs more than the rest of a commit.
        """
        arrived: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        together: dict[Callable[[list[Any]], None], list[Any]] = {}
        signal: BaseException | None = None
        for commit, error in outcomes:
            for waiter in commit._settle(error):  # noqa: SLF001  (one of its own)
                if isinstance(waiter, _Together):
                    together.setdefault(waiter.tell, []).append(waiter.item)
                elif callable(waiter):
                    signal = _call(waiter, commit, commit.stream) or signal
                else:
                    arrived.setdefault(waiter.get_loop(), []).append(waiter)
        for tell, items in together.items():
            signal = _call(tell, items, "several streams") or signal
        for loop, futures in arrived.items():
            # A loop may be gone when a late answer comes; then nobody is waiting for it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_arrive, futures)
        if signal is not None:
            raise signal

    def add_done_callback(self, callback: Callable[[Commit], None]) -> None:
        """Call `callback(commit)` when done; at once if it is done already."""
        if not self._add(callback):
            callback(self)

    def tell_together(self, tell: Callable[[list[T]], None], item: T) -> bool:
        """Have `tell([item, ...])` called once for all commits that end at one time and were given the same `tell`.

        It is called like a callback. False when this commit is done already: then it is not called for it.
        """
        return self._add(_Together(tell, item))

    def _add(self, waiter: _Waiter) -> bool:
        """Return whether it waits now; False when there is nothing to wait for any more."""
        with self._lock:
            if self._done:
                return False
            if self._waiters is None:
                self._waiters = [waiter]
            else:
                self._waiters.append(waiter)
            return True

    def wait(self, *, timeout_s: float | None = None) -> None:
        """Block until durable.

        Raises:
            TimeoutError: not done in time; the append may still succeed.
            JournalFull, AppendUnknown: see `clew.journal.errors`.
        """
        if not self._done:
            # A bare lock wakes its waiter in half the time of an Event, and every blocking append waits here.
            arrived = threading.Lock()
            arrived.acquire()
            self.add_done_callback(lambda _: arrived.release())
            if not arrived.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0.0)):
                raise TimeoutError(f"{self.stream}: not durable after {timeout_s} s; it may still become so.")
        if self._error is not None:
            raise self._error

    def __await__(self) -> Generator[object, None, None]:
        """Wait on the running asyncio loop; raises like `wait`."""
        if not self._done:
            arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if self._add(arrived):
                yield from arrived
        if self._error is not None:
            raise self._error


class _Together(msgspec.Struct, gc=False):
    """One of many waiters that are told at once."""

    tell: Callable[[list[Any]], None]
    item: Any


_Waiter: TypeAlias = "Callable[[Commit], None] | _Together | asyncio.Future[None]"


def _call(callback: Callable[[T], None], argument: T, whose: str) -> BaseException | None:
    """Call it and return the signal it raised; an error is logged, for the journal's writer stands behind this."""
    try:
        callback(argument)
    except Exception:  # noqa: BLE001  (the writer goes on)
        _log.exception("a callback of a commit to %s failed", whose or "cells")
    except BaseException as signal:  # noqa: BLE001  (it is raised again when all have been told)
        return signal
    return None


def _arrive(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
