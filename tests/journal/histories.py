"""Histories for tests, and the journals they come from."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from itertools import count
from typing import Any

from clew.journal import MemoryJournal, RecordedEvent, write_history
from clew.journal.contract.subject import note


def filled(*, events: int = 12, streams: int = 3) -> MemoryJournal:
    journal = MemoryJournal(clock=count(100).__next__)
    for n in range(events):
        new = note(f"text {n} é", cause=f"command-{n}")
        journal.append(f"order/{n % streams}", [new], expected=n // streams).wait()
    return journal


def written(events: Iterator[RecordedEvent], **options: Any) -> BytesIO:
    file = BytesIO()
    write_history(events, file, **options)
    file.seek(0)
    return file
