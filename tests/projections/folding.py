"""A process that appends notes and folds them at the same time, until it is killed. Started by the tests."""

from __future__ import annotations

import sys
import threading

import msgspec

from clew.journal import Catalog, Journal, RecordedEvent, event
from clew.journal.lmdb import LmdbJournal
from clew.projections import DurableProjection, RowProjection, Rows


@event("contract.noted", version=1)
class Noted(msgspec.Struct, frozen=True):
    text: str


def count(rows: Rows[int], noted: Noted, recorded: RecordedEvent) -> None:
    rows.set(recorded.stream, (rows.get(recorded.stream) or 0) + 1)


NOTES: RowProjection[int, Noted] = RowProjection(name="notes", version=1, catalog=Catalog(Noted), row=int, apply=count)


def append(journal: Journal, stream: str, events: int) -> None:
    new = [NOTES.catalog.encode(Noted(str(n)))[0] for n in range(events)]
    journal.append(stream, new, expected=journal.head(stream).sequence).wait()


def _append_for_ever(journal: Journal) -> None:
    while True:
        append(journal, "note/a", 3)
        append(journal, "note/b", 1)


def main() -> None:
    """Say a line for each batch that is kept."""
    journal = LmdbJournal(sys.argv[1])
    durable = DurableProjection(journal, NOTES, batch_events_max=2)
    threading.Thread(target=_append_for_ever, args=(journal,), daemon=True).start()
    while True:
        if durable.advance() == "more":
            sys.stdout.write("kept\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
