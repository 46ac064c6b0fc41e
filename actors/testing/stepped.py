"""The actor system on one thread: the same actors, their turns, effects and alarms on a loop without real time.

What `ActorSystem` does with threads is done here by callbacks of the running loop, one after the other, in an order
that depends on nothing but the program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

from ...journal import Journal
from ...projections import RowProjection
from ..clock import Clock
from ..effects_loop import EffectsLoop, EffectTask
from ..failure import Failure
from ..local import LocalActor
from ..machinery import Machinery
from ..mailbox import Pool, Turn
from ..reply import Reply
from ..sweeper import Sweeper
from ..system import ActorSystem
from .loop_alarms import LoopAlarms

__all__ = ["SteppedSystem", "SystemHost"]

CLOSE_S = 30.0
"""How long what runs may take to end when it is cancelled, in the loop's own time."""


class SystemHost(Protocol):
    """The process that a system is open in."""

    @property
    def alive(self) -> bool:
        """Whether it has not died."""
        ...

    def point(self, what: str, detail: str) -> None:
        """Be at a point at which the process may die; does not return if it does."""
        ...


class SteppedSystem(ActorSystem):
    """An actor system on the running loop, without threads; an async context manager, opened by `World.open`.

    Nothing is logged: `failures` says what failed.
    """

    def __init__(self, host: SystemHost, journal: Journal, *, clock: Clock, **options: Any) -> None:  # noqa: ANN401  (those of `ActorSystem`)
        self._host = host
        self._loop = asyncio.get_running_loop()
        super().__init__(journal, clock=clock, **options)

    def _kept(self, given: list[RowProjection[Any, Any]]) -> list[RowProjection[Any, Any]]:
        """Keep nothing by itself: a runner has threads. What is looked up is folded each time."""
        return given

    def _machinery(self, threads: int, idle_s: float) -> Machinery:
        return Machinery(
            LoopPool(self._loop),
            LoopEffects(self._loop),
            CalledSweeper(self._live),
            LoopAlarms(self._loop, self._journal, self.clock, self._ring, self.report),
        )

    def sweep(self) -> None:
        """Send all actors to sleep that have nothing to do."""
        for _ in range(2):
            self._sweeper.sweep()

    def look_at_clock(self) -> None:
        """Let alarms fire that are due now: the clock was set."""
        if isinstance(self._alarms, LoopAlarms):
            self._alarms.look()

    def report(self, stream: str, what: str, error: BaseException) -> None:
        """Keep a failure that nobody is waiting for."""
        if self._host.alive:
            self.failures.append(Failure(stream, what, error))

    def _ring(self, stream: str, at: int) -> Reply[Any]:
        self._host.point("before alarm", stream)
        reply = super()._ring(stream, at)
        self._host.point("after alarm", stream)
        return reply

    async def aclose(self) -> None:
        """Stop as `ActorSystem.close` does, on the loop that this runs on."""
        if self._closing:
            return
        self._alarms.close()
        self._closing = True
        if isinstance(self._effects, LoopEffects) and not await self._effects.ended(CLOSE_S):
            error = TimeoutError(f"it did not end within {CLOSE_S} s of being cancelled")
            self.report("effects", "an effect may still do something", error)
        busy = [asyncio.ensure_future(_answered(actor.finish())) for actor in self._live() if actor.busy]
        if busy:
            await asyncio.wait(busy, timeout=CLOSE_S)
        for actor in self._live():
            actor.shut_down(0.0)
        self._open_mark.clear()

    def close(self, *, timeout_s: float = CLOSE_S) -> None:
        """Refuse: a loop cannot wait for itself.

        Raises:
            RuntimeError: unless it is closed already; use `async with`, or `await system.aclose()`.
        """
        if not self._closing:
            raise RuntimeError("this system runs on the loop that is to wait for it: use `async with`, or `aclose`")

    def __enter__(self) -> Self:
        """Refuse, as `close` does."""
        raise RuntimeError("this system runs on the loop that is to wait for it: use `async with`")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.aclose()


async def _answered(reply: Reply[None]) -> None:
    try:
        await reply
    except Exception:  # noqa: BLE001  (the actor failed instead, which is reported)
        return


class LoopPool(Pool):
    """Turns of actors as callbacks of a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # A turn, and the effects it starts, must not be in the context of whoever woke the actor.
        self._context = copy_context()

    def ready(self, one: Turn) -> None:
        """Give `one` a turn soon."""
        self._loop.call_soon(one.turn, context=self._context)

    @property
    def idle(self) -> bool:
        """Whether nobody waits for a turn: no thread is ever to wait for the disk here."""
        return False

    def stop(self) -> None:
        """Do nothing: there are no threads."""


CLOSE_ROUNDS_MAX = 100
FIRST_STEPS = 3
"""How often what still runs is cancelled when a system closes, and the turns that new tasks get before."""


class LoopEffects(EffectsLoop):
    """Effects as tasks of the running loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(name="")
        self._own = loop
        # In the order in which they began, so that they are cancelled in it.
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def start(self, work: Callable[[], Coroutine[object, object, None]], done: Callable[[], None]) -> EffectTask:
        """Run `work()` on the loop; call `done()` when it has ended, however it ended, also if it may not begin."""
        task = EffectTask(None if self._closed else self._own)
        if not task.begin(partial(self._noted, work), done):
            done()
        return task

    async def ended(self, timeout_s: float) -> bool:
        """Cancel what runs and wait for it to end; return whether all of it has."""
        self._closed = True
        for _ in range(CLOSE_ROUNDS_MAX):
            # What was started last takes its first steps before it is cancelled.
            for _ in range(FIRST_STEPS):
                await asyncio.sleep(0)
            if not (tasks := list(self._tasks)):
                break
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=timeout_s)
        return not self._tasks

    async def _noted(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("an effect runs outside of a task: a bug of Clew")
        self._tasks[task] = None
        try:
            await work()
        finally:
            del self._tasks[task]


class CalledSweeper(Sweeper):
    """A sweeper that sweeps when it is told to."""

    def __init__(self, live: Callable[[], Sequence[LocalActor]]) -> None:
        self._live = live

    def close(self) -> None:
        """Do nothing: there is no thread."""
