"""Everything the journal can refuse or lose, and what to do about each.

```
ClewError
├─ JournalError
│  ├─ WrongExpectedSequence   another writer was first: read what you missed and decide again
│  ├─ AppendUnknown           the write failed and may yet be there: stop, reopen, read
│  ├─ StreamDeleted           its events were removed on purpose: import its archive to go on
│  ├─ JournalFull             no room: nothing was written
│  ├─ JournalClosed           it was closed, here or by a failed write
│  ├─ JournalLocked           another process writes to it
│  ├─ JournalForked           this process is a fork of the one that opened it
│  ├─ ReadOnlyJournal         it was opened for reading
│  ├─ ForeignJournal          the files are not a journal, or cut short
│  │  └─ NewerJournal         a newer version of Clew wrote them
│  ├─ OutdatedJournal         of an older layout: migrate it before writing
│  ├─ CorruptRecord           bytes do not match their checksum or digest
│  ├─ CellConflict            a compare-and-set found another value
│  ├─ InvalidName             a stream, event or cell name outside the grammar
│  ├─ InvalidHistory          a history file that cannot be read
│  ├─ PayloadTooLarge         one event over the size cap
│  ├─ ProjectionFailed        a projection's code or rows do not fit: correct it, or raise its version
│  ├─ UnknownEvent            no type registered for a recorded name and version
│  └─ NotRepresentable        a value that would not come back as it went in
└─ ActorError                 see `clew.actors.errors`
```
"""

from __future__ import annotations

import os
from typing import Self

__all__ = [
    "AppendUnknown",
    "CellConflict",
    "ClewError",
    "CorruptRecord",
    "ForeignJournal",
    "InvalidHistory",
    "InvalidName",
    "JournalClosed",
    "JournalError",
    "JournalForked",
    "JournalFull",
    "JournalLocked",
    "NewerJournal",
    "NotRepresentable",
    "OutdatedJournal",
    "PayloadTooLarge",
    "ProjectionFailed",
    "ReadOnlyJournal",
    "StreamDeleted",
    "UnknownEvent",
    "WrongExpectedSequence",
]


class ClewError(Exception):
    """The root of every error Clew raises on purpose."""

    @classmethod
    def _rebuild(cls, text: str, facts: dict[str, object]) -> Self:
        error = cls.__new__(cls, text)
        error.args = (text,)
        error.__dict__.update(facts)
        return error

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by text and attributes, since subclasses take keyword arguments only."""
        return (type(self)._rebuild, (str(self), dict(self.__dict__)))  # noqa: SLF001  (its own class)


class JournalError(ClewError):
    """The journal could not do what was asked."""


class WrongExpectedSequence(JournalError):
    """Another writer appended first; read from `actual` and decide again."""

    def __init__(self, *, stream: str, expected: int, actual: int) -> None:
        self.stream = stream
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"{stream}: expected sequence {expected}, found {actual}. Another writer was first; "
            f"read after {min(expected, actual)} and decide again."
        )


class StreamDeleted(JournalError):
    """The stream's events were removed by `Journal.delete`; what is left is where it ended.

    `refused` says why an import did not bring it back.
    """

    def __init__(self, *, stream: str, sequence: int, digest: bytes, refused: str = "") -> None:
        self.stream = stream
        self.sequence = sequence
        self.digest = digest
        self.refused = refused
        super().__init__(
            f"{stream}: its {sequence} events were deleted; it ended with digest {digest.hex()}"
            f"{f', and {refused}' if refused else ''}. "
            "Import its archive to go on with it, or choose another id."
        )


class AppendUnknown(JournalError):
    """A write failed and may yet be on disk: close the journal, open it again and read what is there."""

    def __init__(self, *, streams: tuple[str, ...], reason: str) -> None:
        self.streams = streams
        self.reason = reason
        named = ", ".join(streams[:3]) + (" and others" if streams[3:] else "")
        super().__init__(
            f"An append to {named or 'cells'} failed and may or may not be on disk ({reason}). "
            "Close the journal, open it again and read the streams before going on."
        )


class JournalFull(JournalError):
    """There is no room left; nothing of this append was written."""

    def __init__(self, *, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: no room for the append ({reason}); nothing of it was written. Free space and retry.")


class JournalClosed(JournalError):
    """The journal was closed, by you or after a write that failed."""

    def __init__(self, *, path: str, reason: str = "close() was called") -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: the journal is closed ({reason}). Open it again.")


class JournalLocked(JournalError):
    """Another process has the journal open for writing, or this one has it open already."""

    def __init__(self, *, path: str, pid: int, program: str) -> None:
        self.path = path
        self.pid = pid
        self.program = program
        super().__init__(
            f"{path}: this process ({pid}) has the journal open already. Use that handle, or close it first."
            if pid == os.getpid()
            else f"{path}: process {pid} ({program}) is writing to this journal. Stop it, "
            "or open the journal with readonly=True."
        )


class JournalForked(JournalError):
    """This process is a fork of the one that opened the journal."""

    def __init__(self, *, path: str, opened_by: int, pid: int) -> None:
        self.path = path
        self.opened_by = opened_by
        self.pid = pid
        super().__init__(
            f"{path}: opened by process {opened_by}, used by its fork {pid}. "
            "Open journals after forking, or start workers with the 'spawn' method."
        )


class ReadOnlyJournal(JournalError):
    """The journal was opened for reading only."""

    def __init__(self, *, path: str) -> None:
        self.path = path
        super().__init__(f"{path}: opened with readonly=True. Open it without, in one process, to write.")


class ForeignJournal(JournalError):
    """The files at this path are not a journal this version can open."""

    def __init__(self, *, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}. Nothing was changed; restore a backup or choose another path.")


class NewerJournal(ForeignJournal):
    """A newer version of Clew wrote this journal."""

    def __init__(self, *, path: str, layout: int, layout_now: int) -> None:
        self.layout = layout
        self.layout_now = layout_now
        JournalError.__init__(
            self,
            f"{path}: written by a newer version of clew (layout {layout}, this one knows {layout_now}). "
            "Nothing was changed; install that version to open it.",
        )
        self.path = path
        self.reason = f"layout {layout}"


class OutdatedJournal(JournalError):
    """The journal has an older layout; it can be read as it is, and must be migrated before anything is written."""

    def __init__(self, *, path: str, layout: int, layout_now: int) -> None:
        self.path = path
        self.layout = layout
        self.layout_now = layout_now
        super().__init__(
            f"{path}: of layout {layout}, and this version writes layout {layout_now}. Make a backup and run "
            f"`clew journal migrate {path}`; versions before this one cannot open it afterwards."
        )


class CorruptRecord(JournalError):
    """Stored bytes do not match their checksum or digest."""

    def __init__(self, *, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(
            f"{where}: {reason}. Run `clew verify` to see the extent; `clew journal repair` keeps all that can be "
            "read, or restore a backup."
        )


class CellConflict(JournalError):
    """A compare-and-set on a cell found another value; read it and try again."""

    def __init__(self, *, key: bytes) -> None:
        self.key = key
        super().__init__(f"cell {key!r}: it does not hold the expected value. Read it and try again.")


class InvalidName(JournalError):
    """A stream, category, event or cell name is outside the grammar."""

    def __init__(self, *, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        shown = name[:80] + ("..." if name[80:] else "")
        super().__init__(f"{shown!r} is not a valid name: {reason}.")


class InvalidHistory(JournalError):
    """A history file cannot be read; `line` is the first bad line."""

    def __init__(self, *, source: str, line: int, reason: str) -> None:
        self.source = source
        self.line = line
        self.reason = reason
        super().__init__(f"{source}, line {line}: {reason}. Export the history again.")


class PayloadTooLarge(JournalError):
    """An event or an append is larger than the journal's cap, which is the same on every host."""

    def __init__(self, *, what: str, size_bytes: int, size_bytes_max: int) -> None:
        self.what = what
        self.size_bytes = size_bytes
        self.size_bytes_max = size_bytes_max
        super().__init__(
            f"{what}: {size_bytes} bytes, and {size_bytes_max} are the most. "
            "Store the content elsewhere and record a reference to it."
        )


class ProjectionFailed(JournalError):
    """A projection could not fold an event, or its stored rows are not what its code expects."""

    def __init__(self, *, projection: str, where: str, reason: str) -> None:
        self.projection = projection
        self.where = where
        self.reason = reason
        super().__init__(
            f"projection {projection!r}, {where}: {reason}. Correct its code and retry, "
            "or give it a higher version to fold everything again."
        )


class UnknownEvent(JournalError):
    """A recorded event has no registered type; register it, or an upcaster for its version."""

    def __init__(self, *, event: str, version: int, stream: str, sequence: int) -> None:
        self.event = event
        self.version = version
        self.stream = stream
        self.sequence = sequence
        super().__init__(
            f"{stream}, sequence {sequence}: no type is registered for event {event!r} version {version}. "
            "Add it to the catalog, or add an upcaster that leads from this version to yours."
        )


class NotRepresentable(JournalError):
    """A value would not come back from the journal as it went in."""

    def __init__(self, *, event: str, path: str, reason: str) -> None:
        self.event = event
        self.path = path
        self.reason = reason
        super().__init__(f"{event}: the value at {path} cannot be recorded: {reason}. Nothing was written.")
