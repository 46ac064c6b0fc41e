"""`clew journal stats`: how large a journal is, and what of it is where."""

from __future__ import annotations

from ...journal.lmdb import LmdbJournal
from ...journal.lmdb import Stats as LmdbStats
from .opening import DEFAULT_JOURNAL, AsJson, JournalArgument, open_journal
from .render import console, counted, one_line, size_of, write_json

__all__ = ["stats"]


def stats(journal: JournalArgument = DEFAULT_JOURNAL, *, as_json: AsJson = False) -> int:
    """Show how large a journal is.

    Reads no event, so it is quick; works while another process writes to the journal.
    """
    with open_journal(journal, readonly=True) as opened:
        kind = "lmdb" if isinstance(opened, LmdbJournal) else "sqlite"
        found = opened.stats()
    if as_json:
        write_json({"journal": journal, "kind": kind, **found._asdict()})
        return 0
    size = size_of(found.bytes_on_disk)
    rows = {"journal": one_line(journal), "file": size, "events": str(found.events), "streams": str(found.streams)}
    if isinstance(found, LmdbStats):
        rows["file"] = f"{size}, {size_of(found.free_bytes)} of it free to be used again"
        rows["events"] = f"{found.events}, {found.sealed_events} of them sealed"
        rows["layout"] = str(found.layout)
        rows["readers"] = f"the oldest is {counted(found.reader_lag, 'commit')} behind"
    out = console()
    for name, value in rows.items():
        out.print(f"{name:<8}  {value}", soft_wrap=True)
    return 0
