"""The people of a simulated world: what they ask for, again and again until they know, and what they decide."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from ...journal import JournalError
from ...projections import ThreadView
from ..agent import PendingApproval, Thread
from ..errors import ActivationFailed, ActorError, MailboxFull, RunNotFinished, SystemClosed
from ..ref import ActorRef
from ..thread import ThreadCommand, ThreadState
from .dice import dice
from .purses import PURSE, Fill, Pay
from .workers import Workers

if TYPE_CHECKING:
    from ..system import ActorSystem
    from .world import World

__all__ = ["People"]

OWNER = "ann"
PURSES = ("a", "b")

DAYS_MAX = 8.0
"""Days after which all that was begun must have ended: approvals expire after three, and a thread may have two."""

SEND_TWICE = 0.25
"""How likely a command is sent again although its answer is known."""

UNKNOWN = (JournalError, SystemClosed, MailboxFull, ActivationFailed)
"""What says nothing about a command: it is sent again, with the same id."""


class People:
    """Clients outside of the process: they outlive it, and send what they do not know the answer of again.

    `known` holds the answer to each command they sent, by what they call it; `decided` the decisions that they know of.
    """

    def __init__(self, world: World, seed: int, workers: Workers, threads: tuple[str, ...]) -> None:
        self.known: dict[str, object] = {}
        self.decided: dict[tuple[str, str], str] = {}
        self._world = world
        self._workers = workers
        self._threads = threads
        self._chance = dice(seed, "people")
        self._wishes = self._wanted(dice(seed, "wishes"))
        self._life = 0
        self._seed = seed

    async def live(self, system: ActorSystem) -> None:
        """Want everything, decide what is asked, and return when all has ended."""
        self._life += 1
        chance = dice(self._seed, "life", self._life)
        wanting = [asyncio.ensure_future(self._insist(name, chance, system)) for name in self._wishes]
        try:
            async with asyncio.timeout(DAYS_MAX * 86400):
                await asyncio.gather(*wanting)
                while not self._all_ended(system):
                    await asyncio.sleep(self._chance.choice([1, 30, 3000]))
                    await self._look_after(system)
        finally:
            for task in wanting:
                task.cancel()

    def _wanted(self, chance: Random) -> dict[str, Callable[[ActorSystem], Awaitable[object]]]:
        wishes: dict[str, Callable[[ActorSystem], Awaitable[object]]] = {}
        for thread in self._threads:
            for number in range(chance.choice([1, 1, 2])):
                run, how = f"{thread}r{number}", chance.choice(["queue", "queue", "reject", "replace"])
                wishes[f"start {thread} {run}"] = self._start(thread, run, how)
                match chance.choices(["none", "cancel", "pause", "signal"], [5, 1, 1, 2])[0]:
                    case "cancel":
                        wishes[f"cancel {thread} {run}"] = self._cancel(thread, run)
                    case "pause":
                        wishes[f"pause {thread} {run}"] = self._pause(thread, run)
                    case "signal":
                        wishes[f"signal {thread} {run}"] = self._signal(thread, run)
                    case _:
                        pass
        for number in range(4):
            purse = chance.choice(PURSES)
            wishes[f"fill {purse} {number}"] = self._fill(purse, f"fill{number}", chance.randint(1, 9))
            wishes[f"pay {purse} {number}"] = self._pay(purse, f"pay{number}", chance.randint(1, 9))
        return wishes

    async def _insist(self, name: str, chance: Random, system: ActorSystem) -> None:
        """Send a command until its answer is known; now and then once more, later and out of turn."""
        wish = self._wishes[name]
        repeat = chance.random() < SEND_TWICE
        await asyncio.sleep(chance.choice([0, 0.1, 5, 40, 400]))
        while name not in self.known or repeat:
            repeat = repeat and name not in self.known
            try:
                answer = await wish(system)
            except UNKNOWN:
                await asyncio.sleep(chance.choice([0.05, 2]))
                continue
            except ActorError as refusal:
                answer = refusal
            self.known.setdefault(name, answer)

    async def _look_after(self, system: ActorSystem) -> None:
        """Decide something, settle something, let something go on: whatever waits for somebody."""
        for thread in sorted(self._threads, key=lambda _: self._chance.random()):
            held = self._thread(system, thread)
            try:
                view = held.view()
                await self._decide(held, held.approvals())
                await self._help(held, view)
            except (*UNKNOWN, ActorError, RunNotFinished):
                continue

    async def _decide(self, held: Thread[Any], asked: list[PendingApproval]) -> None:
        if not asked:
            return
        one = self._chance.choice(asked)
        match self._chance.choices(["approve", "reject", "both", "later"], [5, 2, 1, 2])[0]:
            case "approve":
                await self._decided(held, one, approve=True)
                if self._chance.random() < SEND_TWICE:
                    await self._decided(held, one, approve=True)
            case "reject":
                await self._decided(held, one, approve=False)
            case "both":
                both = [self._decided(held, one, approve=approve) for approve in (True, False)]
                await asyncio.gather(*both, return_exceptions=True)
            case _:
                pass

    async def _decided(self, held: Thread[Any], one: PendingApproval, *, approve: bool) -> None:
        reply = held.approve(one.id) if approve else held.reject(one.id, "no")
        told = await reply
        self.decided.setdefault((told.thread, told.id), told.decision)

    async def _help(self, held: Thread[Any], view: ThreadView) -> None:
        for run in view.runs:
            for step in run.in_doubt:
                match self._chance.choice(["result", "retry", "error"]):
                    case "result":
                        await held.settle(run.run, step, result="settled")
                    case "retry":
                        await held.settle(run.run, step, retry=True)
                    case _:
                        await held.settle(run.run, step, error="nobody knows")
            if run.status in ("paused", "parked") or run.pausing is not None:
                await held.resume(run.run)

    def _all_ended(self, system: ActorSystem) -> bool:
        for thread in self._threads:
            try:
                view = self._thread(system, thread).view()
            except ActorError:
                continue
            if any(run.ended_at is None for run in view.runs):
                return False
        return True

    def _thread(self, system: ActorSystem, key: str) -> Thread[Any]:
        return system.thread(self._workers.worker, key, owner=OWNER)

    def _start(self, thread: str, run: str, how: str) -> Callable[[ActorSystem], Awaitable[object]]:
        def wish(system: ActorSystem) -> Awaitable[object]:
            prompt, at = msgspec.Raw(msgspec.json.encode(run)), self._world.clock()
            command = self._workers.worker.start(run, prompt, owner=OWNER, title=None, at=at, concurrent=how)
            return ActorRef[ThreadCommand, ThreadState](system, f"thread/{thread}").ask(command)

        return wish

    def _cancel(self, thread: str, run: str) -> Callable[[ActorSystem], Awaitable[object]]:
        return lambda system: self._thread(system, thread).cancel(run)

    def _pause(self, thread: str, run: str) -> Callable[[ActorSystem], Awaitable[object]]:
        return lambda system: self._thread(system, thread).pause(run)

    def _signal(self, thread: str, run: str) -> Callable[[ActorSystem], Awaitable[object]]:
        async def wish(system: ActorSystem) -> object:
            return await self._thread(system, thread).signal("go", run, id=f"signal of {run}")

        return wish

    def _fill(self, purse: str, id_: str, cents: int) -> Callable[[ActorSystem], Awaitable[object]]:
        return lambda system: system.ref(PURSE, purse).ask(Fill(cents), command_id=id_)

    def _pay(self, purse: str, id_: str, cents: int) -> Callable[[ActorSystem], Awaitable[object]]:
        to = next(other for other in PURSES if other != purse)
        return lambda system: system.ref(PURSE, purse).ask(Pay(id_, to, cents, self._world.clock()), command_id=id_)
