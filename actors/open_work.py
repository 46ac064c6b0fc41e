"""The open work of one actor: which effects run, and which start again once they have ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from .effect import Effect

__all__ = ["EffectHandle", "OpenWork"]


class EffectHandle(Protocol):
    """A running effect."""

    def cancel(self) -> None:
        """Stop it soon."""
        ...


Start = Callable[[Effect, Callable[[], None]], EffectHandle]
"""Starts the work of an effect, and calls back when it has ended, however it ended."""


class OpenWork:
    """Starts and stops the effects of one actor, each key one at a time; used by the actor's own turns alone.

    `wake` asks for a turn, in which `settle` is called.
    """

    __slots__ = ("_again", "_ended", "_opening", "_over", "_running", "_start", "_stopping", "_wake")

    def __init__(self, start: Start, wake: Callable[[], None]) -> None:
        self._start = start
        self._wake = wake
        self._over = False
        self._running: dict[str, EffectHandle] = {}
        self._ended: deque[str] = deque()
        # Decided and not yet durable: what opens a key, until something else closes it.
        self._opening: dict[str, Effect] = {}
        # Closed, and still ending; and what was opened again under the same key meanwhile.
        self._stopping: set[str] = set()
        self._again: dict[str, Effect] = {}

    @property
    def running(self) -> bool:
        """Whether any effect runs, or still ends."""
        return bool(self._running)

    def settle(self) -> None:
        """Take note of those that have ended."""
        while self._ended:
            key = self._ended.popleft()
            self._running.pop(key, None)
            self._stopping.discard(key)
            if (effect := self._again.pop(key, None)) is not None:
                self._begin(effect)

    def resume(self, effects: Iterable[Effect]) -> None:
        """Make what runs match what is open, after the actor was rebuilt from what is durable."""
        effects = list(effects)
        self._opening.clear()
        self._again.clear()
        for key in self._running.keys() - {effect.key for effect in effects}:
            self._stop(key)
        for effect in effects:
            self._begin(effect)

    def change(self, before: Iterable[Effect], after: Iterable[Effect], performer: str | None) -> Callable[[], None]:
        """Return what is to be done, once it is durable, about a command of `performer` that changed what is open."""
        old, new = {effect.key for effect in before}, {effect.key: effect for effect in after}
        closed = old - new.keys()
        opened = [effect for key, effect in new.items() if key not in old]
        for key in closed:
            self._opening.pop(key, None)
            self._again.pop(key, None)
        self._opening.update((effect.key, effect) for effect in opened)
        return partial(self._change, closed, opened, performer)

    def stop_all(self) -> None:
        """Stop everything, and start nothing more: another actor takes over."""
        self._over = True
        for running in self._running.values():
            running.cancel()

    def _change(self, closed: Iterable[str], opened: Iterable[Effect], performer: str | None) -> None:
        for key in closed:
            self._stop(key, by_itself=key == performer)
        for effect in opened:
            # Unless it was closed again since, by a command that is not durable yet.
            if self._opening.get(effect.key) is effect:
                del self._opening[effect.key]
                self._begin(effect)

    def _begin(self, effect: Effect) -> None:
        key = effect.key
        if self._over:
            return
        if key in self._stopping:
            self._again[key] = effect
        elif key not in self._running:
            self._running[key] = self._start(effect, partial(self._end, key))

    def _stop(self, key: str, *, by_itself: bool = False) -> None:
        running = self._running.get(key)
        if running is None or key in self._stopping:
            return
        self._stopping.add(key)
        # An effect whose own command closed it is ending by itself.
        if not by_itself:
            running.cancel()

    def _end(self, key: str) -> None:
        self._ended.append(key)
        self._wake()
