"""The journal on one machine, kept in LMDB: a commit log, an index in memory, cells beside it.

In the order of an append: `journal` checks it, `index` knows its stream, `frames` encodes it, `writer` gathers what
waits into one `transaction` of the `environment`, which is durable when `Commit` says so. Back out: `scan` reads frames
in pieces, `cells` reads cells, `report` reads everything. Before any of it: `files` looks at what is there, `lock`
keeps others out, `directory` makes or recognises the journal; `tail` follows another process that writes, and `gate`
keeps readers out while the map moves.
"""

from .files import NetworkFilesystemWarning
from .journal import LmdbJournal, Stats
from .report import Report

__all__ = ["LmdbJournal", "NetworkFilesystemWarning", "Report", "Stats"]
