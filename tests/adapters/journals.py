"""Journals for the commands that look after them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import time_ns

from clew.journal import Journal
from clew.journal.contract.subject import append
from clew.journal.lmdb import LmdbJournal

__all__ = ["STREAMS", "digests", "filled", "flip"]

STREAMS = {"order/é/1": 10, "thread/ana": 30, "thread/bob": 20}
"""The streams of a filled journal, and how many events each has."""


def filled(path: Path, *, clock: Callable[[], int] = time_ns) -> Path:
    """Make a journal with the streams."""
    with LmdbJournal(path, clock=clock) as journal:
        for stream, events in STREAMS.items():
            append(journal, stream, *(f"{stream} #{number}" for number in range(1, events + 1)))
    return path


def digests(journal: Journal) -> dict[str, bytes]:
    """Read everything; return each stream's last digest."""
    return {event.stream: event.digest for event in journal.read_all()}


def flip(path: Path, text: str) -> None:
    """Flip a bit of the data file wherever it says `text`."""
    file = path / "data.mdb"
    data = bytearray(file.read_bytes())
    places = [place for place in range(len(data)) if data.startswith(text.encode(), place)]
    assert places
    for place in places:
        data[place] ^= 1
    file.write_bytes(data)
