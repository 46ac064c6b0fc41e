"""Counts who is reading, so that the map can be moved while nobody is."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["Gate"]


class Gate:
    """Any number of readers up to a limit, or one that needs all of them out. Passing through is short."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._inside = 0
        self._moving = False

    def enter(self) -> None:
        """Go in; waits while the map is being moved, and while too many are inside."""
        with self._changed:
            while self._moving or self._inside >= self._limit:
                self._changed.wait()
            self._inside += 1

    def leave(self) -> None:
        """Come out."""
        with self._changed:
            self._inside -= 1
            if self._moving or self._inside == self._limit - 1:
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Generator[None]:
        """Keep everybody out for as long as this lasts; waits until those inside have left."""
        with self._changed:
            while self._moving:
                self._changed.wait()
            self._moving = True
            while self._inside:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._moving = False
                self._changed.notify_all()
