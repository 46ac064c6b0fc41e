"""`clew journal compact`: as small as it can be, in the journal and on the disk."""

from __future__ import annotations

from ...journal.lmdb import shrink
from .opening import DEFAULT_JOURNAL, AsJson, JournalArgument, directory_of, open_directory
from .render import console, counted, size_of, write_json

__all__ = ["compact"]

_SQLITE = "SQLite uses freed space again by itself; its own command VACUUM makes the file smaller."


def compact(journal: JournalArgument = DEFAULT_JOURNAL, *, as_json: AsJson = False) -> int:
    """Make a journal as small as it can be.

    Seals what is not sealed, joins small segments, removes what deleted streams left behind, and writes the file anew
    without its free pages, for which there must be room. No other process may have the journal open.
    """
    path = directory_of(journal, _SQLITE)
    # Looked at beforehand: once it is open for writing, sealing begins by itself.
    with open_directory(path, readonly=True) as opened:
        before = opened.stats()
    with open_directory(path, readonly=False) as opened:
        done = opened.compact()
        sealed_events = max(0, opened.stats().sealed_events - before.sealed_events)
    _, size_bytes = shrink(path)
    if as_json:
        sizes = {"bytes_before": before.bytes_on_disk, "bytes_after": size_bytes}
        write_json({**done._asdict(), "sealed_events": sealed_events, **sizes})
        return 0
    words = [
        f"sealed {counted(sealed_events, 'event')}",
        f"joined {counted(done.joined_segments, 'segment')}",
        f"removed {counted(done.removed_chunks, 'chunk')}",
    ]
    console().print(
        f"{', '.join(words)}; {size_of(before.bytes_on_disk)} before, {size_of(size_bytes)} now", soft_wrap=True
    )
    return 0
