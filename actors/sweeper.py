"""Sends idle actors to sleep."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from .local import LocalActor

__all__ = ["Sweeper"]


class Sweeper:
    """Every `idle_s` seconds, asks the actors that nobody touched since the last time to go to sleep."""

    def __init__(self, live: Callable[[], Sequence[LocalActor]], idle_s: float) -> None:
        self._live = live
        # An `Event` refuses to wait for longer.
        self._idle_s = min(idle_s, threading.TIMEOUT_MAX)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clew-sweeper", daemon=True)
        self._thread.start()

    def sweep(self) -> None:
        """Look at every live actor once."""
        for actor in self._live():
            if actor.touched:
                actor.touched = False
            elif not actor.busy:
                actor.sleep_if_idle()

    def close(self) -> None:
        """Stop sweeping."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._idle_s):
            self.sweep()
