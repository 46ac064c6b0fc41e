"""A small world in which many things happen at once and anything may go wrong, the same way each time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from hashlib import sha256

from .dice import dice
from .laws import broken_laws
from .people import People
from .purses import PURSE
from .workers import Workers
from .world import Point, World

__all__ = ["Simulated", "Simulation"]

THREADS = ("t0", "t1")
CRASHES_MAX = 6
CRASH = 0.02
"""The chance to die at each point, up to so many times."""

FAULT = 0.03
"""The chance of a write to fail."""


@dataclass(frozen=True)
class Simulated:
    """What a simulation came to: what is wrong (nothing, when all is well), and what happened on the way.

    `trace` is a digest of every point it passed, in order: two runs of a seed are equal if theirs are.
    """

    seed: int
    wrong: tuple[str, ...]
    steps: int
    crashes: int
    faults: int
    effects: int
    redelivered: int
    trace: str

    @property
    def repeat(self) -> str:
        """The line that repeats it."""
        return f"python -m clew.actors.simulate --seed {self.seed}"


class Simulation:
    """One seed's world: threads with agents, purses that pay each other, people, and a disk and a process that fail.

    Threads run agents whose models throw dice: tools that do something outside, that may do it once, that need
    approval, fail, wait, count in the state, ask another agent, send to other actors. Actors pay each other. People
    start runs, cancel, pause and signal them, decide approvals in any order and twice, and send again whatever they do
    not know the answer of. The disk is slow, full, or silent about what it wrote; the process dies anywhere; the clock
    is set forward and back.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._faults = Faults(seed)
        self.world = World(trouble=self._faults, dies=self._faults.dies)
        self.workers = Workers(self.world, seed, THREADS)
        self.people = People(self.world, seed, self.workers, THREADS)

    def run(self) -> Simulated:
        """Let it all happen, in virtual time, and look whether all is as it must be. Never raises for what it finds."""
        world = self.world
        wrong: list[str] = []
        try:
            world.run(self._program)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is what this looks for)
            wrong.append(f"it never came to its end: {type(error).__name__}: {error}")
        try:
            wrong += broken_laws(world, self.workers, self.people)
        except Exception as error:  # noqa: BLE001  (as above)
            wrong.append(f"what is recorded cannot be read: {type(error).__name__}: {error}")
        wrong += [
            f"{failed.stream}: {failed.what}: {failed.error!r}" for failed in world.failures if _is_bug(failed.error)
        ]
        wrong += [f"on the loop: {complaint}" for complaint in world.complaints]
        trace = sha256("\n".join(map(str, world.points)).encode()).hexdigest()[:16]
        return Simulated(
            self.seed,
            tuple(wrong),
            len(world.points),
            len(world.deaths),
            self._faults.count,
            len(world.effects),
            len(world.redelivered),
            trace,
        )

    async def _program(self, world: World) -> None:
        # It is closed by the world, once nothing is under way any more.
        system = world.open(agents=self.workers.agents, actors=[PURSE])
        watching = [asyncio.ensure_future(self._set_clock()), asyncio.ensure_future(self._supervise())]
        try:
            await self.people.live(system)
            self._faults.over()
        finally:
            for task in watching:
                task.cancel()

    async def _supervise(self) -> None:
        """End the process when its journal is broken, as whoever watches over it does."""
        await self.world.until(lambda: self.world.journal.closed)
        self.world.kill()

    async def _set_clock(self) -> None:
        for seconds in self._faults.clock_steps():
            await asyncio.sleep(100)
            self.world.clock.jump(seconds)


class Faults:
    """The disk's and the process's troubles, as the dice have them."""

    def __init__(self, seed: int) -> None:
        self.count = 0
        self._seed = seed
        self._chance = dice(seed, "faults")
        self._crashes = 0
        self._over = False

    def over(self) -> None:
        """Let nothing go wrong any more."""
        self._over = True

    def dies(self, point: Point) -> bool:
        """Whether the process dies here."""
        if self._over or self._crashes >= CRASHES_MAX or self._chance.random() >= CRASH:
            return False
        self._crashes += 1
        return True

    def write_s(self) -> float:
        """See `Trouble.write_s`."""
        return self._chance.choice([0.0001, 0.001, 0.001, 0.02, 0.02, 1.5])

    def at_once(self, waiting: int) -> int:
        """See `Trouble.at_once`."""
        return self._chance.randint(1, waiting)

    def fault(self) -> str | None:
        """See `Trouble.fault`."""
        if self._over or self._chance.random() >= FAULT:
            return None
        self.count += 1
        return self._chance.choice(["full", "full", "unknown"])

    def clock_steps(self) -> list[float]:
        """Return by how many seconds the clock is set, one after the other."""
        chance = dice(self._seed, "clock")
        return chance.choices([-3600, -1, 1, 60, 7200], k=2)


def _is_bug(error: BaseException) -> bool:
    return isinstance(error, AssertionError | TypeError | AttributeError | LookupError | ValueError)
