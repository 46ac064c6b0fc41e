"""Tools that run beside each other: when one fails for good, or waits for somebody, the others end first.

pydantic-ai cancels the siblings of a tool that raises. A sibling in flight would then have done its work without a
record of it and run again after a crash; so the failure waits for it. A sibling that has not started yet does not
start any more, since it would be cancelled in the middle.

A step that waits for a person, a signal or another thread parks: it never goes on here. Once every step in flight has
ended or waits, the run as a whole waits, and its driver can let go of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

__all__ = ["Siblings", "current_scope"]

ASKED_TURNS = 20
"""Turns of the event loop a failure waits, so that all those beside it have been asked for."""

CANCEL_TURNS = 200
"""Turns of the event loop that a step which has not started waits to be cancelled: well over `ASKED_TURNS`."""

_scope: ContextVar[str] = ContextVar("clew_step_scope", default="")


def current_scope() -> str:
    """Return the prefix of the step this code runs in, `""` at the top of a run."""
    return _scope.get()


class Siblings:
    """The steps being executed, by the scope they run in, those that wait, and the scopes in which one failed."""

    def __init__(self) -> None:
        self._executing: dict[str, str] = {}
        self._under_way: Counter[str] = Counter()
        self._parked: dict[str, str] = {}
        """What waits, by where it does: a pause has one name, and is in the step that comes to it."""
        self._cut_off: set[str] = set()
        self.driver: asyncio.Task[Any] | None = None
        self._stirred = asyncio.Event()
        self._failed: set[str] = set()
        self._changed = asyncio.Event()

    @contextmanager
    def executing(self, name: str) -> Generator[None]:
        """Note that a step's body runs in the present scope, and is the scope of what runs in it."""
        self._executing[name] = _scope.get()
        self._stirred.set()
        token = _scope.set(f"{name}/")
        try:
            yield
        finally:
            _scope.reset(token)

    @contextmanager
    def under_way(self, name: str) -> Generator[None]:
        """Note that a step is asked for and does not wait for anything outside: for the disk, say, or for its turn."""
        self._under_way[name] += 1
        try:
            yield
        finally:
            self._under_way[name] -= 1
            if not self._under_way[name]:
                del self._under_way[name]
            self._stirred.set()

    def ended(self, name: str) -> None:
        """Note that a step's body has ended and its outcome is on its way into the journal."""
        self._executing.pop(name, None)
        self._changed.set()
        self._stirred.set()

    async def park(self, name: str) -> NoReturn:
        """Wait for what only the journal can bring, so never go on here."""
        scope = _scope.get()
        place = name if name.startswith(scope) else f"{scope}{name}"
        self._parked[place] = name
        self._changed.set()
        self._stirred.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._parked.pop(place, None)
        raise AssertionError(f"step {name} went on without what it waits for: a bug of Clew")

    def cut_off_all(self) -> None:
        """Note that all that waits is about to be cancelled, and has no answer, whatever it makes of the cancel."""
        self._cut_off |= self._parked.keys()

    def cut_off(self, name: str, error: BaseException) -> None:
        """Note that a wait ended with this error, and has no answer; a cancel of its own step is that step's affair."""
        # A system that closes cancels all at once, and a wait may hear of it before the driver.
        if not isinstance(error, asyncio.CancelledError) or (self.driver is not None and self.driver.cancelling()):
            self._cut_off.add(name)

    def is_cut_off(self, scope: str) -> bool:
        """Whether a wait within a step, of which this is the scope, was cut off."""
        return bool(scope) and any(step.startswith(scope) for step in self._cut_off)

    def waits(self, step: str) -> bool:
        """Whether a step waits, itself or in a step within it."""
        return any(parked == step or parked.startswith(f"{step}/") for parked in self._parked)

    async def all_wait(self) -> tuple[str, ...]:
        """Return the steps that wait, once every step in flight does."""
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            if self._quiet():
                # Those beside it may not have been asked for yet.
                await _pass_turns(ASKED_TURNS)
                if self._quiet():
                    return tuple(sorted(set(self._parked.values())))

    def begin_turn(self) -> None:
        """Forget the failures of the turn before: the loop went on in spite of them."""
        self._failed.discard(_scope.get())

    async def fail(self, name: str) -> None:
        """Note that a step failed for good, and wait until those beside it have ended."""
        self._failed.add(_scope.get())
        await self._others_ended(name)
        await _pass_turns(ASKED_TURNS)

    async def may_start(self, name: str, *, failed: bool) -> None:
        """Let a step start only if none beside it has failed (`failed`: the journal says that one did).

        After a failure the loop gets time to cancel this step; where it does not, the failure was handled.
        """
        if not failed and _scope.get() not in self._failed:
            return
        await self._others_ended(name)
        await _pass_turns(CANCEL_TURNS)

    async def _others_ended(self, name: str) -> None:
        scope = _scope.get()
        while any(of == scope and not self.waits(step) for step, of in self._executing.items() if step != name):
            self._changed.clear()
            await self._changed.wait()

    def _quiet(self) -> bool:
        return bool(self._parked) and all(map(self.waits, (*self._executing, *self._under_way)))


async def _pass_turns(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
