"""A process that can die: a loop, a journal and some systems, all of which are gone with it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pydantic_ai import Agent

from .loop import NothingLeft, VirtualLoop
from .stepped import SteppedSystem

if TYPE_CHECKING:
    from .disk import SimulatedJournal

__all__ = ["Died", "Process"]

T = TypeVar("T")

SETTLE_NS: Final = 60_000_000_000
"""What is to happen within a minute still does when the scenario is over."""

IDLE_NS: Final = 1_000_000_000
"""Actors go to sleep when nothing happens for a second."""

BURIAL_TURNS_MAX: Final = 1000
"""Turns of the loop that what a dead process left behind gets to end, before it is left where it is."""


class Died(BaseException):
    """A signal: the process has died, here. Never caught broadly."""


class Process(Generic[T]):
    """One life of a process: what runs on its loop, until that has ended or the process dies.

    `leap(nanoseconds)` is told of time that passes while it lives.
    """

    def __init__(self, leap: Callable[[int], None], passed: int) -> None:
        self.alive = True
        self.loop = VirtualLoop(idle=self._idle, leap=self._pass, now=passed)
        self.loop.set_exception_handler(self._complain)
        self.journal: SimulatedJournal
        self.systems: list[SteppedSystem] = []
        self.complaints: list[str] = []
        self._leap = leap
        self._ending = False
        self._slept = False

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call `callback()` then, unless the process has died."""

        def call() -> None:
            if self.alive:
                callback()

        self.loop.call_later(seconds, call)

    def die(self) -> None:
        """Die here.

        Raises:
            Died: always.
        """
        self.alive = False
        self.loop.stop()
        raise Died

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Run `main` to its end, and what it left open until nothing is to happen for a while; then close.

        Raises:
            Died: the process died first.
            NothingLeft: `main` waits, and nothing can happen any more.
        """
        try:
            # pydantic-ai runs sync tools where it is told to: the loop runs them at once.
            with Agent.using_thread_executor(Executor()):
                value = self._run(_awaited(main))
                self._ending = True
                self._run(asyncio.Event().wait())
                self._ending = False
                self._run(self._close())
                return value
        finally:
            self._bury()

    def _run(self, what: Any) -> Any:  # noqa: ANN401  (any coroutine)
        task = self.loop.create_task(what)
        task.add_done_callback(lambda _: self._stop())
        self.loop.run_forever()
        if not self.alive:
            raise Died
        return task.result() if task.done() else None

    def _stop(self) -> None:
        if self.alive:
            self.loop.stop()

    async def _close(self) -> None:
        for system in self.systems:
            await system.aclose()
        await self.journal.settled()

    def _idle(self, left: int | None) -> bool:
        """Return whether there is something to do before time may pass."""
        if not self.alive:
            return False
        if (left is None or left >= IDLE_NS) and not self._slept:
            self._slept = True
            for system in self.systems:
                system.sweep()
            return True
        self._slept = False
        if self._ending and (left is None or left > SETTLE_NS):
            self.loop.stop()
            return True
        return False

    def _pass(self, nanoseconds: int) -> None:
        if self.alive:
            self._leap(nanoseconds)

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if self.alive and not isinstance(context.get("exception"), Died):
            self.complaints.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _bury(self) -> None:
        """End what still runs: it can do no more harm, and leaves nothing behind."""
        self.alive = False
        loop = self.loop
        loop.count_anew()
        with suppress(NothingLeft):
            loop.run_until_complete(_end_all_tasks())
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _end_all_tasks() -> None:
    """Cancel all tasks until they have ended, each once it has begun: else what it was given is left unawaited."""
    own = asyncio.current_task()
    for _ in range(BURIAL_TURNS_MAX):
        tasks = asyncio.all_tasks() - {own}
        if not tasks:
            return
        if all(map(_has_begun, tasks)):
            for task in tasks:
                task.cancel()
        await asyncio.sleep(0)


def _has_begun(task: asyncio.Task[Any]) -> bool:
    given = task.get_coro()
    # What else a task may be made of, such as the end of an async generator, is dropped without a word.
    return not inspect.iscoroutine(given) or inspect.getcoroutinestate(given) != inspect.CORO_CREATED


async def _awaited(main: Callable[[], Awaitable[T]]) -> T:
    return await main()
