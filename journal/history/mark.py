"""What cells say of a stream's actor: that it may have open work, and when it wants to be woken."""

from __future__ import annotations

from typing import Final

from ..codec import chain
from ..event import GENESIS
from ..journal import ANYTHING, Cells, CellWrite

__all__ = ["ALARMS", "DUE_MAX", "alarm_due", "alarm_mark", "due_mark", "filed_due", "open_mark", "refile"]

ALARMS: Final = b"alarm/"
"""The keys of all alarms begin with this, and are in the order in which they are due."""

DUE_MAX: Final = 2**63 - 1
"""The latest time that an alarm is filed under, in nanoseconds since the epoch, UTC; the earliest is 0."""

_DUE_BYTES: Final = 8


def open_mark(stream: str) -> bytes:
    """Return the cell that says an actor has open work, so that the next start looks at it."""
    return b"open/" + _short(stream)


def alarm_mark(due: int, stream: str) -> bytes:
    """Return the cell of an actor's alarm, which stands among those of all actors by when it is due."""
    return ALARMS + due.to_bytes(_DUE_BYTES, "big") + _short(stream)


def alarm_due(mark: bytes) -> int:
    """Return when the alarm of this cell is due."""
    return int.from_bytes(mark[len(ALARMS) : len(ALARMS) + _DUE_BYTES], "big")


def due_mark(stream: str) -> bytes:
    """Return the cell that says under which due an actor's alarm is filed."""
    return b"due/" + _short(stream)


def filed_due(cells: Cells, stream: str) -> int | None:
    """Return the due that an actor's alarm is filed under, or None when it has no alarm."""
    value = cells.get(due_mark(stream))
    return None if value is None else int.from_bytes(value, "big")


def refile(stream: str, before: int | None, after: int | None, *, only_if: bool = False) -> list[CellWrite]:
    """Return what files an actor's alarm under another due (None: it has none), to be written in one go.

    With `only_if`, nothing is to be written if it is not filed under `before` any more.
    """
    changes = [CellWrite(due_mark(stream), _encoded(after), _encoded(before) if only_if else ANYTHING)]
    if before is not None:
        changes.append(CellWrite(alarm_mark(before, stream), None))
    if after is not None:
        changes.append(CellWrite(alarm_mark(after, stream), stream.encode()))
    return changes


def _encoded(due: int | None) -> bytes | None:
    return None if due is None else due.to_bytes(_DUE_BYTES, "big")


def _short(stream: str) -> bytes:
    name = stream.encode()
    # A long name is marked by its digest; the value carries the name.
    return chain(GENESIS, name) if name[400:] else name
