"""Where time and chance come into the system: only here, and only on their way into a command."""

from __future__ import annotations

import itertools
import os
import time
import uuid
from collections.abc import Callable

__all__ = ["Clock", "new_id", "random_id", "system_clock"]

Clock = Callable[[], int]
"""Returns the time in nanoseconds since the epoch, UTC."""


def system_clock() -> int:
    """Return this machine's time in nanoseconds since the epoch, UTC."""
    return time.time_ns()


def new_id() -> str:
    """Return an id that nobody else has: a random one of this process, and a count."""
    return f"{_process.front}{_process.number():x}"


def random_id() -> str:
    """Return 32 random hexadecimal digits, of which a part is as random as its length."""
    return uuid.uuid4().hex


class _Process:
    """The process's own part of new ids; a fork takes a new one."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        # A count costs a tenth of drawing chance for each id, and does not make the thread give way.
        self.front, self.number = f"{uuid.uuid4().hex}-", itertools.count().__next__


_process = _Process()
