"""Where time and chance come into the system: only here, and only on their way into a command."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

__all__ = ["Clock", "new_id", "system_clock"]

Clock = Callable[[], int]
"""Returns the time in nanoseconds since the epoch, UTC."""


def system_clock() -> int:
    """Return this machine's time in nanoseconds since the epoch, UTC."""
    return time.time_ns()


def new_id() -> str:
    """Return an id that nobody else has."""
    return uuid.uuid4().hex
