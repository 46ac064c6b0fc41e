"""Histories: streams as JSON Lines, out and in. What replay tests, backups and archives are made of.

One header line, then one line an event: where it stood, why it happened, its digest, and its canonical form as it
is. Importing checks the chain of digests, so a history that was edited or cut in the middle is refused. A history
may be compressed with gzip; it is known by its first bytes when it is read, and by the name `.gz` when it is written.
"""

from .importing import import_history
from .lines import HISTORY_VERSION, LINE_BYTES_MAX
from .mark import ALARMS, DUE_MAX, alarm_due, alarm_mark, due_mark, filed_due, open_mark, refile
from .reading import iter_history, read_history
from .writing import Progress, write_history

__all__ = [
    "ALARMS",
    "DUE_MAX",
    "HISTORY_VERSION",
    "LINE_BYTES_MAX",
    "Progress",
    "alarm_due",
    "alarm_mark",
    "due_mark",
    "filed_due",
    "import_history",
    "iter_history",
    "open_mark",
    "read_history",
    "refile",
    "write_history",
]
