"""Journals of older layouts brought to the present one, in place and in one transaction."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from .directory import LAYOUT_VERSION, encode_meta
from .environment import Environment

__all__ = ["Migration", "migrate"]


class Migration(NamedTuple):
    """From which layout to which; the same where there was nothing to do."""

    before: int
    after: int


def migrate(path: Path) -> Migration:
    """Bring the journal at `path` to the present layout. Events stay as they are, and so do their digests.

    It is one transaction: a crash leaves the old layout or the new one. Versions that know only the old layout cannot
    open the journal afterwards. Doing it again does nothing.

    Raises:
        JournalLocked: somebody has the journal open for writing.
        ForeignJournal: it is not a journal; NewerJournal: a newer version wrote it.
        OSError: it could not be written; the journal is as it was.
    """
    env = Environment(path, readonly=False, migrating=True)
    before = env.meta
    try:
        if before.layout < LAYOUT_VERSION:
            # Layout 1 has all its events in the log; what layout 2 adds is empty at first, and was made at opening.
            key, value = encode_meta(structs.replace(before, layout=LAYOUT_VERSION))
            env.transact(lambda txn: txn.set_meta(key, value), size_bytes=len(value))
        return Migration(before.layout, LAYOUT_VERSION)
    finally:
        env.ended = "it was migrated"
        env.close()
