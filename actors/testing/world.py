"""A world in which processes die: the disk, the clock and the things outside outlive them, and nothing else does."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from ...journal import Journal, open_mark
from ...projections import view_of
from ..decider import EventSourcedActor
from ..failure import Failure
from ..reply import forbid_blocking
from ..system import ActorSystem
from .clock import START
from .disk import SimulatedJournal, Trouble
from .loop import NothingLeft
from .process import Died, Process
from .stepped import SteppedSystem

__all__ = ["Point", "Scenario", "World", "WorldClock"]

T = TypeVar("T")

LIVES_MAX = 1000
"""Processes in one world, after which it is taken to die for ever."""

Scenario = Callable[["World"], Awaitable[T]]
"""A program, as a coroutine function: what it does in a world, from its start to its end."""


class Point(NamedTuple):
    """A place at which the process can die: the how manieth of its kind, and what was about to happen or had."""

    what: str
    number: int
    detail: str

    def __str__(self) -> str:
        return f"{self.what} {self.number} ({self.detail})"


class WorldClock:
    """The world's clock, which moves by itself when nothing is left to do; and its hands can be set."""

    def __init__(self, set_: Callable[[], None]) -> None:
        self._set = set_
        self._offset = 0
        self.passed = 0

    def __call__(self) -> int:
        """Return the time in nanoseconds since the epoch, UTC."""
        return START + self.passed + self._offset

    def jump(self, seconds: float) -> None:
        """Set the clock, forward or back, as an administrator or a time server does; no time passes."""
        self._offset += round(seconds * 1e9)
        self._set()


class World:
    """What a scenario happens in: it opens systems here, and tells the world what its tools do outside.

    Everything runs on one thread and one asyncio loop. Time passes when nothing else is left to do, and then at once:
    `await asyncio.sleep(3 * 86400)` takes no time and lets all alarms of three days ring. Blocking calls such as
    `Run.result` have no place here; await instead.
    """

    def __init__(self, *, trouble: Trouble | None = None, dies: Callable[[Point], bool] | None = None) -> None:
        self.clock = WorldClock(self._clock_set)
        self.points: list[Point] = []
        self.deaths: list[Point] = []
        self.kinds: list[EventSourcedActor[Any, Any, Any, Any]] = []
        self.failures: list[Failure] = []
        self.complaints: list[str] = []
        self._trouble = trouble
        self._dies = _never if dies is None else dies
        self._counts: Counter[str] = Counter()
        self._effects: Counter[str] = Counter()
        self._process: Process[Any] | None = None
        self._journal: SimulatedJournal | None = None

    @property
    def journal(self) -> Journal:
        """The journal of the process that runs, or of the last one."""
        if self._journal is None:
            raise RuntimeError("a world has a journal once its program runs: use `world.run`")
        return self._journal

    @property
    def effects(self) -> Mapping[str, int]:
        """What was done outside: how often each key was asked for. It was done once for each."""
        return self._effects

    @property
    def redelivered(self) -> Mapping[str, int]:
        """The keys that were asked for more than once, as after a crash, and how often."""
        return {key: count for key, count in self._effects.items() if count > 1}

    def effect(self, key: str) -> bool:
        """Do something outside under an idempotency key; return whether it was the first time, and so was done.

        It stands for the service that a tool calls: pass it `tool_step().idempotency_key`.
        """
        self.point("before effect", key)
        self._effects[key] += 1
        self.point("after effect", key)
        return self._effects[key] == 1

    def open(self, **options: Any) -> ActorSystem:  # noqa: ANN401  (those of `ActorSystem`)
        """Open a system over the world's journal, with the options of `ActorSystem`: `agents`, `actors`, `recover`.

        It is closed with `async with`, or at the end of the scenario.
        """
        process = self._running()
        self.kinds = [*options.get("actors", ())]
        system = SteppedSystem(_Here(self, process), process.journal, clock=self.clock, **options)
        process.systems.append(system)
        return system

    async def until(self, fact: Callable[[], object]) -> None:
        """Wait until `fact()` holds; it is looked at whenever something has become durable."""
        process = self._running()
        while not fact():
            grown: Any = process.loop.create_future()

            def grow(grown: Any = grown) -> None:  # noqa: ANN401
                if not grown.done():
                    grown.set_result(None)

            stop = process.journal.watch(grow)
            try:
                await grown
            finally:
                stop()

    def run(self, program: Scenario[T]) -> T:
        """Run a program to its end; each time its process dies, start it again over what is durable.

        Blocks; it runs on a thread of its own.

        Raises:
            NothingLeft: the program waits for something, and nothing can happen any more.
            TypeError: it is no coroutine function.
        """
        if not inspect.iscoroutinefunction(program):
            raise TypeError(f"a scenario is a coroutine function of a world (`async def`), not {program!r}")
        with ThreadPoolExecutor(1, thread_name_prefix="clew-world", initializer=forbid_blocking) as thread:
            return thread.submit(self._live, program).result()

    def _live(self, program: Scenario[T]) -> T:
        for _ in range(LIVES_MAX):
            process = self._process = Process[T](self._leap, self.clock.passed)
            host = _Here(self, process)
            last = self._journal
            journal = SimulatedJournal(host, self._trouble) if last is None else last.reopened(host, self._trouble)
            process.journal = self._journal = journal
            try:
                return process.run(partial(program, self))
            except Died:
                continue
            except NothingLeft as nothing:
                raise NothingLeft(f"{nothing}, and the scenario waits. {self._open()}") from None
            finally:
                self.failures += [failure for system in process.systems for failure in system.failures]
                self.complaints += process.complaints
                # Left readable, as the next process finds it.
                self._journal = journal.reopened(_Nobody(self.clock))
        raise NothingLeft(f"the process died {LIVES_MAX} times, and its program never came to its end")

    def point(self, what: str, detail: str) -> None:
        """Be at a place where the process can die; it does not return if it does."""
        process = self._running()
        if not process.alive:
            raise Died
        self._counts[what] += 1
        point = Point(what, self._counts[what], detail)
        self.points.append(point)
        if self._dies(point):
            self.deaths.append(point)
            process.die()

    def kill(self) -> None:
        """Let the process die here, as by `kill -9`; does not return."""
        self.point("killed", "by the scenario")
        self.deaths.append(self.points[-1])
        self._running().die()

    def _running(self) -> Process[Any]:
        if self._process is None:
            raise RuntimeError("nothing runs in this world: use `world.run`")
        return self._process

    def _leap(self, nanoseconds: int) -> None:
        self.clock.passed += nanoseconds

    def _clock_set(self) -> None:
        for system in self._running().systems:
            system.look_at_clock()

    def _open(self) -> str:
        """Return what is open, for whoever wonders why nothing happens."""
        if self._journal is None:
            return ""
        journal = self._journal.reopened(_Nobody(self.clock))
        said = [
            f"{head.stream}: {run.run} is {run.status}, waiting for {sorted(run.waits)}"
            for head in journal.streams("thread")
            for run in view_of(journal.read(head.stream)).runs
            if run.ended_at is None
        ]
        said += [
            f"{head.stream} has open work"
            for head in journal.streams()
            if journal.cells.get(open_mark(head.stream)) is not None
        ]
        return "; ".join(said)


def _never(_: Point) -> bool:
    return False


class _Here(msgspec.Struct):
    """A process, as its journal and its systems see it."""

    world: Any
    process: Any

    @property
    def alive(self) -> bool:
        return self.process.alive

    def now(self) -> int:
        return self.world.clock()

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.process.later(seconds, callback)

    def point(self, what: str, detail: str) -> None:
        if not self.process.alive:
            raise Died
        self.world.point(what, detail)


class _Nobody(msgspec.Struct):
    """No process: who looks at a disk when all is over."""

    now: Any
    alive: bool = True

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        callback()

    def point(self, what: str, detail: str) -> None:
        return
