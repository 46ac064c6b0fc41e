"""What models say right now, for who listens: an ephemeral channel beside the events, of which nothing is kept.

A turn is streamed if somebody listens when it begins; otherwise the model is called as ever, and who comes meanwhile
gets what it said at its end. What counts is the event that records the turn, and it is the same either way.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

__all__ = ["Delta", "Listener", "LiveTurns", "Speech"]

T = TypeVar("T")


@dataclass(frozen=True)
class Delta:
    """A piece of what the model says in a turn of a run.

    `step` is the turn (`llm:turn:2`), `part` the number of the response's part that it belongs to, and `kind` is
    `text` or `thinking`. `index` counts the pieces of a turn from 0, without gaps; who comes in the middle gets the
    pieces before as one, with the index of the last of them. An index of 0 begins the turn, also one that was begun
    before and is asked for again.
    """

    run: str
    step: str
    part: int
    kind: str
    index: int
    text: str


class Listener(Protocol):
    """Who listens to a thread; told under a lock, so it does not call back and waits for nothing."""

    @property
    def stream(self) -> str:
        """The stream of the thread."""
        ...

    def hears(self, speech: Speech) -> bool:
        """Whether it listens to a turn."""
        ...

    def put(self, delta: Delta) -> bool:
        """Take a piece; return False if there is no room, and it is to be let go."""
        ...

    def wake(self) -> None:
        """Look again whether more will be said."""
        ...


class LiveTurns:
    """The turns that the models of a system are taking now, and who listens to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, list[Listener]] = {}
        self._speeches: dict[str, list[Speech]] = {}
        self.closed = False

    @contextmanager
    def speech(self, stream: str, run: str, step: str) -> Generator[Speech]:
        """Begin a turn; it is over when the block is."""
        speech = Speech(self, stream, run, step)
        with self._lock:
            self._speeches.setdefault(stream, []).append(speech)
        try:
            yield speech
        finally:
            with self._lock:
                _remove(self._speeches, stream, speech)

    def is_heard(self, speech: Speech) -> bool:
        """Whether somebody listens to a turn."""
        with self._lock:
            return any(listener.hears(speech) for listener in self._listeners.get(speech.stream, ()))

    def tell(self, speech: Speech, delta: Delta) -> None:
        """Give a piece of a turn to those who listen; who is too slow for it is let go."""
        with self._lock:
            speech.said.append(delta)
            for listener in list(self._listeners.get(speech.stream, ())):
                if listener.hears(speech) and not listener.put(delta):
                    _remove(self._listeners, speech.stream, listener)

    def listen(self, listener: Listener, after: Delta | None) -> None:
        """Have somebody hear what is said from now on, and first what was said of the present turn behind `after`."""
        with self._lock:
            self._listeners.setdefault(listener.stream, []).append(listener)
            for speech in self._speeches.get(listener.stream, ()):
                if listener.hears(speech):
                    for delta in _joined(speech, after):
                        listener.put(delta)

    def forget(self, listener: Listener) -> None:
        """Have somebody hear nothing any more."""
        with self._lock:
            _remove(self._listeners, listener.stream, listener)

    def close(self) -> None:
        """Tell all who listen that nothing more will be said."""
        self.closed = True
        with self._lock:
            listeners = [listener for some in self._listeners.values() for listener in some]
        for listener in listeners:
            listener.wake()

    @property
    def listeners(self) -> int:
        """How many listen."""
        with self._lock:
            return sum(map(len, self._listeners.values()))


class Speech:
    """A turn that a model takes now, and what it said so far."""

    def __init__(self, live: LiveTurns, stream: str, run: str, step: str) -> None:
        self._live = live
        self.stream = stream
        self.run = run
        self.step = step
        self.said: list[Delta] = []

    @property
    def heard(self) -> bool:
        """Whether somebody listens."""
        return self._live.is_heard(self)

    def say(self, part: int, kind: str, text: str) -> None:
        """Say a piece of a part."""
        if text:
            self._live.tell(self, Delta(self.run, self.step, part, kind, len(self.said), text))

    def finish(self, parts: Iterable[tuple[int, str, str]]) -> None:
        """Say the whole parts of the response, if nothing was said before its end and somebody listens."""
        if not self.said and self.heard:
            for part, kind, text in parts:
                self.say(part, kind, text)


def _joined(speech: Speech, after: Delta | None) -> list[Delta]:
    """Return what was said of a turn behind a delta, as one piece a part."""
    seen = after.index if after is not None and (after.run, after.step) == (speech.run, speech.step) else -1
    joined: list[Delta] = []
    for delta in speech.said[seen + 1 :]:
        if joined and joined[-1].part == delta.part:
            joined[-1] = replace(delta, text=joined[-1].text + delta.text)
        else:
            joined.append(delta)
    return joined


def _remove(of: dict[str, list[T]], stream: str, item: T) -> None:
    found = of.get(stream, [])
    if item in found:
        found.remove(item)
    if not found:
        of.pop(stream, None)
