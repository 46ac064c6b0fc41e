"""A small journal with one of everything that a journal keeps, to be damaged in copies."""

from __future__ import annotations

from pathlib import Path
from random import Random

from ...journal.lmdb import LmdbJournal
from .torture_facts import CATALOG, Written, group_of

__all__ = ["write_specimen"]

_STREAMS = 12


def write_specimen(path: Path, seed: int) -> None:
    """Write it: sealed streams, one deleted and one begun again, large events, and a log with old and new streams."""
    random = Random(seed)  # noqa: S311  (it keeps no secret)
    with LmdbJournal(path, seal_after=10**9, map_bytes=1 << 20) as journal:
        for _ in range(4):
            _append(journal, random, _STREAMS)
        large = CATALOG.encode(Written("large", 1, 0, "large " * 20_000))[0]
        journal.append("torture/large", [large], expected=0).wait()
        for name in ("torture/1", "torture/2"):
            journal.delete(name, expected=journal.head(name).sequence).wait()
        journal.append("torture/2", group_of("again", random), expected=0, revive=True).wait()
        journal.compact()
        _append(journal, random, _STREAMS)
        journal.compact()
        # What follows stays in the log: events of sealed streams, new streams, one of which is deleted there.
        _append(journal, random, _STREAMS + 4)
        name = f"torture/{_STREAMS}"
        journal.delete(name, expected=journal.head(name).sequence).wait()


def _append(journal: LmdbJournal, random: Random, streams: int) -> None:
    for number in range(streams):
        # Long names are kept in another way.
        name = f"torture/{number}{'é' * 400 * (number in {3, 7})}"
        head = journal.head(name)
        if not head.deleted:
            for _ in range(random.randrange(1, 4)):
                events = group_of(f"{name[:12]}/{head.sequence}", random)
                head = head._replace(sequence=head.sequence + len(events))
                journal.append(name, events, expected=head.sequence - len(events)).wait()
