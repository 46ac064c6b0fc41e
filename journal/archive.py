"""Archives: streams out of the journal into history files, so that the journal holds what is in use.

A stream is deleted only once its file is on disk and was read back to the same digest. Whatever happens in between,
there is the stream, or the stream and its file; to archive again finishes what was begun. `import_history` (here
also `restore_archive`) brings a stream back.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from .errors import CorruptRecord, InvalidHistory, StreamDeleted, WrongExpectedSequence
from .event import GENESIS, Head, category_of
from .history import due_mark, filed_due, import_history, iter_history, open_mark, refile
from .journal import CellWrite, Journal
from .saving import make_folder, save_history, sync_folder
from .snapshot import forget

__all__ = ["ArchiveReport", "Archived", "RetentionPolicy", "archive", "archive_file", "restore_archive"]

GREW: Final = "it grew meanwhile; archive it again once it is at rest"
OPEN_WORK: Final = "it may have open work; let a system finish it, or archive it with take_open=True"
ALARM_SET: Final = "an alarm of it is set; let it fire or cancel it, or archive it with take_open=True"
NOT_THERE: Final = "the journal has no such stream"
GONE: Final = "it is deleted, and its whole archive is not in this folder"


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Which streams of `category` may go: those without an event for `idle_for`, but for the `keep_last` latest ones.

    A stream that may have open work, or that an alarm is set for, is never taken.

    Raises:
        ValueError: `idle_for` or `keep_last` is below 0.
    """

    category: str
    idle_for: timedelta
    keep_last: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.idle_for < timedelta(0):
            raise ValueError(f"RetentionPolicy: idle_for is not below 0, as {self.idle_for} is")
        if self.keep_last < 0:
            raise ValueError(f"RetentionPolicy: keep_last is not below 0, as {self.keep_last} is")

    def choose(self, journal: Journal, *, now: int) -> list[Head]:
        """Return the ends of the streams that may go, the longest idle first; of each the last event is read.

        `now` is in nanoseconds since the epoch, UTC.
        """
        last: list[tuple[int, Head]] = []
        for head in journal.streams(self.category):
            if not head.deleted:
                try:
                    event = next(iter(journal.read(head.stream, after=head.sequence - 1)))
                except StreamDeleted:
                    continue
                last.append((event.recorded_at, head))
        last.sort()
        until = now - int(self.idle_for / timedelta(microseconds=1)) * 1000
        return [
            head
            for recorded_at, head in last[: max(0, len(last) - self.keep_last)]
            if recorded_at <= until and _unfinished(journal, head.stream) is None
        ]


class Archived(msgspec.Struct, frozen=True):
    """A stream that is now in a file: how many events it had, its last digest, and the file."""

    stream: str
    sequence: int
    digest: str
    file: str


class ArchiveReport(msgspec.Struct, frozen=True):
    """What was archived, and what was left alone and why, by stream."""

    archived: list[Archived] = msgspec.field(default_factory=list[Archived])
    left: dict[str, str] = msgspec.field(default_factory=dict[str, str])


def archive(
    journal: Journal,
    streams: Iterable[str] | RetentionPolicy,
    folder: str | Path,
    *,
    now: int | None = None,
    take_open: bool = False,
) -> ArchiveReport:
    """Move streams into history files in `folder`, one file each; waits until each is durable there and gone here.

    A policy is asked as of `now`, in nanoseconds since the epoch, UTC. For each stream the file is written, synced
    and read back to the stream's digest, and only then is the stream deleted, if it is still what was written. The
    stream's snapshots and its alarm are removed with it. A stream that grew meanwhile, that may have open work or an
    alarm, or that cannot be read is left alone and reported; with `take_open` streams given by name are taken with
    open work and alarm, which are there again when the stream is restored. Repeated after a crash it finishes what was
    begun: a file that is there and whole is not written again, and no file is ever removed.

    Raises:
        ValueError: a policy is given without `now`.
        OSError: a file cannot be written; its stream and those behind it are still there.
        InvalidHistory: a file does not read back as it was written; likewise. Look at the disk.
        ReadOnlyJournal, JournalClosed, JournalFull, AppendUnknown: as for `Journal.delete`; repeat it.
    """
    if isinstance(streams, RetentionPolicy):
        if now is None:
            raise ValueError("archive by a policy as of a time: give now=..., in nanoseconds since the epoch, UTC")
        heads = streams.choose(journal, now=now)
    else:
        heads = [journal.head(stream) for stream in dict.fromkeys(streams)]
    report, place = ArchiveReport(), Path(folder)
    make_folder(place)
    for head in heads:
        file = place / archive_file(head)
        reason = _archive(journal, head, file, take_open=take_open)
        if reason:
            report.left[head.stream] = reason
        else:
            report.archived.append(Archived(head.stream, head.sequence, head.digest.hex(), str(file)))
    return report


restore_archive = import_history
"""Bring archived streams back: the same as `import_history`. The file stays where it is."""


def archive_file(head: Head) -> str:
    """Return the name of the file that a stream is archived in: safe everywhere, whatever the stream is called.

    It has the category, digests of the stream's name and of its events, and how many there are. So two streams, or two
    journals with a stream of one name, never share a file.
    """
    name = sha256(head.stream.encode()).hexdigest()[:24]
    return f"{category_of(head.stream)}-{name}-{head.sequence}-{head.digest.hex()}.jsonl.gz"


def _archive(journal: Journal, head: Head, file: Path, *, take_open: bool) -> str | None:
    """Archive one stream; return why it was left alone, or None."""
    if head.sequence == 0:
        return NOT_THERE
    if not head.deleted:
        if not take_open and (reason := _unfinished(journal, head.stream)):
            return reason
        try:
            _move(journal, head, file)
        except WrongExpectedSequence:
            return GREW
        except StreamDeleted:
            pass  # somebody else did it meanwhile
        except CorruptRecord as error:
            return str(error)
    if not _is_whole(file, head):
        return GONE
    # An actor that was awake may have left a snapshot, a mark or an alarm since.
    forget(journal.cells, head.stream).wait()
    due = filed_due(journal.cells, head.stream)
    journal.cells.write([CellWrite(open_mark(head.stream), None), *refile(head.stream, due, None)]).wait()
    return None


def _unfinished(journal: Journal, stream: str) -> str | None:
    """Return what its actor has still to do, if anything."""
    if journal.cells.get(open_mark(stream)) is not None:
        return OPEN_WORK
    return ALARM_SET if journal.cells.get(due_mark(stream)) is not None else None


def _move(journal: Journal, head: Head, file: Path) -> None:
    if journal.head(head.stream).sequence != head.sequence:
        raise WrongExpectedSequence(
            stream=head.stream, expected=head.sequence, actual=journal.head(head.stream).sequence
        )
    if _is_whole(file, head):
        # It may be that of a run that died before the name was durable.
        sync_folder(file.parent)
    else:
        save_history(islice(journal.read(head.stream), head.sequence), file)
        if not _is_whole(file, head):
            reason = f"{head.stream} does not read back from it as it was written, so it was not deleted"
            raise InvalidHistory(source=str(file), line=1, reason=reason)
    # Snapshots can be taken again, so they go first: a crash leaves no stray ones.
    forget(journal.cells, head.stream).wait()
    journal.delete(head.stream, expected=head.sequence).wait()


def _is_whole(file: Path, head: Head) -> bool:
    """Whether the file is there and holds all events of the stream, to the same digest."""
    sequence, digest = 0, GENESIS
    try:
        for event in iter_history(file):
            if event.stream != head.stream or event.sequence != sequence + 1:
                return False
            sequence, digest = event.sequence, event.digest
    except (FileNotFoundError, InvalidHistory):
        return False
    return (sequence, digest) == (head.sequence, head.digest)
