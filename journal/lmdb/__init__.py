"""The journal on one machine, kept in LMDB: a commit log, sealed segments, an index in memory, cells beside it.

In the order of an append: `journal` checks it, `index` knows its stream, `frames` encodes it, `writer` gathers what
waits into one `transaction` of the `environment`, on its `databases`, which is durable when `Commit` says so. In the
background `sealer` lets `sealing` move what is durable from the log into `segment`s, by `columns` and compressed by
`compression`, and leave the `order` of events and a `record` of each stream behind; `compaction` does it on demand.
Back out, through a `reader`: `scan` one stream, `scan_all` all of them, `heads` their ends, `chunks` the parts of large
events, `cells` cells, `report` everything. Before any of it: `files` looks at what is there, `directory` makes or
recognises the journal; `tail` follows another process that writes, `gate` keeps readers out while the map moves, and
`turns` lets others run while one reads. `backup`, `migration` and `repair` (by `salvage`) work on whole journals.
"""

from ..place import NetworkFilesystemWarning
from ..report import Report
from .backup import restore
from .compaction import Compaction, shrink
from .journal import LmdbJournal, Stats
from .migration import Migration, migrate
from .repair import Repair, repair

__all__ = [
    "Compaction",
    "LmdbJournal",
    "Migration",
    "NetworkFilesystemWarning",
    "Repair",
    "Report",
    "Stats",
    "migrate",
    "repair",
    "restore",
    "shrink",
]
