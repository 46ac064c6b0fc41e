"""The two protocols a backend implements: `Journal` for facts, `Cells` for what can be rebuilt.

Their docstrings are the contract; `clew.journal.contract` is the same contract as code that any backend can run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from .codec import Catalog
from .commit import Commit
from .errors import InvalidName, PayloadTooLarge
from .event import EVENT_BYTES_MAX, Head, NewEvent, RecordedEvent

__all__ = [
    "ANYTHING",
    "APPEND_BYTES_MAX",
    "CAUSE_BYTES_MAX",
    "CELL_KEY_BYTES_MAX",
    "CellWrite",
    "Cells",
    "Journal",
    "Page",
    "check_after",
    "check_cells",
    "check_events",
    "holds",
]

CELL_KEY_BYTES_MAX = 480
"""The longest cell key, in bytes (LMDB allows 511)."""

APPEND_BYTES_MAX = 256 * 1024 * 1024
"""The largest append, in bytes of all its events."""

CAUSE_BYTES_MAX = 2048
"""The longest cause of an event, in UTF-8 bytes."""


class _Anything:
    """The type of `ANYTHING`."""

    def __repr__(self) -> str:
        return "ANYTHING"


ANYTHING = _Anything()
"""For `CellWrite.expected`: whatever the cell holds now."""


class CellWrite(msgspec.Struct, frozen=True):
    """Set a cell to `value`, or delete it when `value` is None.

    With `expected`, only if the cell holds exactly that (None: if there is no such cell).
    """

    key: bytes
    value: bytes | None
    expected: bytes | _Anything | None = ANYTHING


class Page(NamedTuple):
    """Some events of one stream, typed: the sequence of the first, and for each its cause and the event."""

    first_sequence: int
    causes: Sequence[str]
    events: Sequence[msgspec.Struct]


class Cells(Protocol):
    """An ordered key/value space for what can be rebuilt: snapshots, checkpoints, alarms, marks.

    Reads see only what is durable. Losing all cells loses time, never facts.
    """

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a cell, or None when there is no such cell."""
        ...

    def scan(self, prefix: bytes, *, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield cells whose keys begin with `prefix`, in byte order, beyond the key `after`.

        Cells written while the scan runs may or may not be seen.
        """
        ...

    def write(self, changes: Sequence[CellWrite]) -> Commit:
        """Make all the changes, or none of them.

        The commit fails with `CellConflict` when one `expected` does not hold; then nothing was changed.

        Raises:
            InvalidName: a key is empty or longer than `CELL_KEY_BYTES_MAX`.
            ReadOnlyJournal, JournalClosed, JournalForked: as for `Journal.append`.
        """
        ...


class Journal(Protocol):
    """Append-only streams of events, in one total order.

    All methods may be called from any thread. What is read is durable: an event that could still be lost is
    visible to nobody. After `close` every method but `close` raises `JournalClosed`, also iterators that were begun
    before, where they need more than they have.
    """

    @property
    def cells(self) -> Cells:
        """The key/value space beside the streams."""
        ...

    def append(
        self,
        stream: str,
        events: Sequence[NewEvent],
        *,
        expected: int,
        cells: Sequence[CellWrite] = (),
        revive: bool = False,
    ) -> Commit:
        """Put `events` at the end of `stream`, all or none, if its last sequence is `expected`.

        The check is made and the sequences are assigned before this returns, counting appends that are still
        being synced, so several appends to one stream can be under way. The returned commit resolves when the
        events would survive power loss. `cells` are written in the same transaction, without conditions.
        `recorded_at` is the journal's clock, or the stream's last value where the clock has stepped back.

        When a commit fails, every append behind it that was not yet durable fails too, and the stream ends where
        it was durable: read it again before deciding anything.

        With `revive` and `expected=0` a deleted stream begins again; that is for an import of its archive.

        Raises:
            WrongExpectedSequence: another writer was first; nothing was written.
            StreamDeleted: its events were deleted, and `revive` was not asked for.
            InvalidName: the stream's name is outside the grammar, or a cause is over `CAUSE_BYTES_MAX`.
            PayloadTooLarge: an event is over `EVENT_BYTES_MAX`, or all of them over `APPEND_BYTES_MAX`.
            ValueError: `events` is empty, or a cell has a condition.
            ReadOnlyJournal, JournalClosed, JournalForked: this handle cannot write.
        """
        ...

    def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
        """Yield the durable events of `stream` with a sequence above `after`, in order, as of the call.

        An unknown stream has no events. The iterator holds no transaction between two events.

        Raises:
            StreamDeleted: its events were deleted, before the call or while they were being read.
            CorruptRecord: an event does not match its checksum; those before it have been yielded.
        """
        ...

    def pages(self, stream: str, catalog: Catalog, *, after: int = 0) -> Iterator[Page]:
        """Yield what `read` would, typed by `catalog` and in pages: the fast way to fold a stream.

        Raises:
            UnknownEvent: an event is not in the catalog; names its sequence. Those before it have been yielded.
            StreamDeleted, CorruptRecord: as for `read`.
        """
        ...

    def read_all(self, *, after: int = 0, category: str | None = None) -> Iterator[RecordedEvent]:
        """Yield the durable events of every stream with a position above `after`, in order, as of the call.

        With a category, of its streams only. The events of deleted streams are not there any more.
        """
        ...

    def head(self, stream: str) -> Head:
        """Return the durable end of `stream`; sequence 0 when there is none. For a deleted one, where it ended."""
        ...

    def streams(self, category: str | None = None) -> Iterator[Head]:
        """Yield the durable end of every stream (of one category) there is at the call, ordered by name.

        Deleted streams are among them, and say so.
        """
        ...

    def delete(self, stream: str, *, expected: int) -> Commit:
        """Remove the events of `stream`, if its last sequence is `expected`; where it ended is kept for ever.

        Done for retention, after the events were archived (`clew.journal.archive`). Nothing can be appended to the
        stream afterwards, unless its archive is imported. Deleting a stream twice does nothing.

        Raises:
            WrongExpectedSequence: the stream ends elsewhere; nothing was deleted.
            ReadOnlyJournal, JournalClosed, JournalForked: as for `append`.
        """
        ...

    def watch(self, notify: Callable[[], None], *, stream: str | None = None) -> Callable[[], None]:
        """Call `notify()` after each commit that touched `stream` (or any stream); return what ends the watch.

        It is called on the journal's own thread after the events became readable, also once when the journal
        closes, and must be quick and not raise.
        """
        ...

    @property
    def closed(self) -> bool:
        """Whether `close` was called, or a failed write closed it."""
        ...

    def close(self) -> None:
        """Wait until what was appended is durable, then let go of the files. Safe to call twice."""
        ...


def holds(change: CellWrite, current: bytes | None) -> bool:
    """Whether the condition of a cell write is met by the cell's current value."""
    return isinstance(change.expected, _Anything) or change.expected == current


def check_events(stream: str, events: Sequence[NewEvent]) -> None:
    """Refuse what not every backend could append.

    Raises:
        ValueError: there are no events.
        PayloadTooLarge: one of them is over `EVENT_BYTES_MAX`, or all together over `APPEND_BYTES_MAX`.
        InvalidName: a cause is too long, or cannot be encoded.
    """
    if not events:
        raise ValueError(f"{stream}: an append holds at least one event")
    for new in events:
        if len(new.canonical) > EVENT_BYTES_MAX:
            raise PayloadTooLarge(what=stream, size_bytes=len(new.canonical), size_bytes_max=EVENT_BYTES_MAX)
        if len(new.cause) > CAUSE_BYTES_MAX // 4 or not new.cause.isascii():
            _check_cause(new.cause)
    size_bytes = sum(len(new.canonical) for new in events)
    if size_bytes > APPEND_BYTES_MAX:
        raise PayloadTooLarge(what=f"{stream}, one append", size_bytes=size_bytes, size_bytes_max=APPEND_BYTES_MAX)


def _check_cause(cause: str) -> None:
    try:
        size_bytes = len(cause.encode())
    except UnicodeEncodeError:
        raise InvalidName(name=ascii(cause), reason="a cause cannot hold half of a surrogate pair") from None
    if size_bytes > CAUSE_BYTES_MAX:
        raise InvalidName(name=cause, reason=f"a cause has at most {CAUSE_BYTES_MAX} bytes, not {size_bytes}")


def check_cells(changes: Sequence[CellWrite], *, conditions: bool) -> None:
    """Refuse changes that not every backend could make.

    Raises:
        InvalidName: a key is empty or too long.
        ValueError: a change has a condition where there are none.
    """
    for change in changes:
        if not 0 < len(change.key) <= CELL_KEY_BYTES_MAX:
            raise InvalidName(
                name=repr(change.key), reason=f"a cell key has 1 to {CELL_KEY_BYTES_MAX} bytes, not {len(change.key)}"
            )
        if not conditions and change.expected is not ANYTHING:
            raise ValueError(f"cell {change.key!r}: cells written with events take no `expected`; use Cells.write")


def check_after(after: int) -> None:
    """Refuse a place to read from that cannot be.

    Raises:
        ValueError: it is below 0.
    """
    if after < 0:
        raise ValueError(f"after={after}: read from 0, which is before the first, or from a sequence or position")
