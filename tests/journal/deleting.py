"""The journals that can delete, for the tests of archives."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from clew.journal import MemoryJournal
from clew.journal.lmdb import LmdbJournal
from clew.journal.sql import SqliteJournal

SECOND = 1_000_000_000


def in_memory(path: Path, *, clock: Callable[[], int]) -> MemoryJournal:
    return MemoryJournal(clock=clock)


def in_sqlite(path: Path, *, clock: Callable[[], int] = time.time_ns) -> SqliteJournal:
    return SqliteJournal(path.with_suffix(".db"), clock=clock)


OPENERS: dict[str, Callable[..., Any]] = {"memory": in_memory, "lmdb": LmdbJournal, "sqlite": in_sqlite}
"""The journals that can delete, by what opens them at a path."""


def ticking() -> Callable[[], int]:
    """A clock that is a second further each time it is looked at, from 100 s on."""
    ticks = count(100)
    return lambda: next(ticks) * SECOND
