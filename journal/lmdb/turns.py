"""Lets other threads have a turn while one reads without a pause.

Each call into LMDB gives the interpreter's lock up for a microsecond and takes it back. A thread that waits for the
lock is woken each time, comes too late, and begins to wait anew, so that it never asks the reader to stop: a tight loop
of reads would keep the writer, and everybody else, from running for seconds. So who reads on and on sleeps at times.
"""

from __future__ import annotations

import threading
import time
from typing import Final

__all__ = ["Turns"]

_PAUSE_S: Final = 0.001
"""Reads less than this apart are one run of reads."""

_RUN_S: Final = 0.005
"""How long a run may last: as long as the interpreter lets a thread run otherwise."""

_SLEEP_S: Final = 0.00005


class Turns(threading.local):
    """For each thread, since when it has been reading."""

    def __init__(self) -> None:
        self._begun = 0.0
        self._last = 0.0

    def begin(self, now: float) -> None:
        """Take note of a read that begins."""
        if now - self._last > _PAUSE_S:
            self._begun = now

    def end(self) -> None:
        """Take note of a read that has ended, and let others run if there were many."""
        now = time.monotonic()
        if now - self._begun > _RUN_S:
            time.sleep(_SLEEP_S)
            self._begun = now = time.monotonic()
        self._last = now
