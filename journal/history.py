"""Histories: streams as JSON Lines, out and in. What replay tests and backups are made of.

One header line, then one line an event: where it stood, why it happened, its digest, and its canonical form as it
is. Importing checks the chain of digests, so a history that was edited or cut in the middle is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from .codec import chain
from .errors import InvalidHistory, InvalidName, WrongExpectedSequence
from .event import GENESIS, NewEvent, RecordedEvent, check_stream
from .journal import CellWrite, Journal

__all__ = ["import_history", "open_mark", "read_history", "write_history"]

HISTORY_VERSION = 1
_BATCH = 500
_BATCH_BYTES = 8 * 1024 * 1024


class _Header(msgspec.Struct, frozen=True):
    clew_history: int


class _Line(msgspec.Struct, frozen=True):
    stream: str
    sequence: Annotated[int, msgspec.Meta(ge=1)]
    recorded_at: Annotated[int, msgspec.Meta(ge=0)]
    cause: str
    digest: str
    record: msgspec.Raw


_HEADER = msgspec.json.Decoder(_Header)
_LINE = msgspec.json.Decoder(_Line)


def write_history(events: Iterable[RecordedEvent], out: BinaryIO) -> int:
    """Write `events` as a history; return how many there were. Events of one stream must be in order."""
    out.write(msgspec.json.encode(_Header(HISTORY_VERSION)) + b"\n")
    count = 0
    for event in events:
        line = _Line(
            event.stream,
            event.sequence,
            event.recorded_at,
            event.cause,
            event.digest.hex(),
            msgspec.Raw(event.canonical),
        )
        out.write(msgspec.json.encode(line) + b"\n")
        count += 1
    return count


def read_history(source: str | Path | BinaryIO) -> list[RecordedEvent]:
    """Read a whole history; each stream's digests are checked. Positions are the order of the lines.

    Raises:
        InvalidHistory: not a history, of a newer version, or a line that does not continue its stream.
        OSError: the file cannot be read.
    """
    if isinstance(source, str | Path):
        with Path(source).open("rb") as lines:
            return list(_parse(lines, str(source)))
    return list(_parse(source, getattr(source, "name", "history")))


def import_history(journal: Journal, source: str | Path | BinaryIO) -> dict[str, int]:
    """Append a history to `journal`; return how many events each stream gained. Waits until they are durable.

    A stream that is already there with the same events is left alone, and one that is there in part is continued,
    so an import that was interrupted can be repeated. The times and causes are kept, and so are the digests.
    The streams are marked as having open work: the next system that opens the journal looks at them.

    Raises:
        InvalidHistory: see `read_history`; streams before the bad line may have been imported.
        WrongExpectedSequence: the journal holds another version of a stream; nothing of it was imported.
    """
    events = read_history(source)
    by_stream: dict[str, list[RecordedEvent]] = {}
    for event in events:
        by_stream.setdefault(event.stream, []).append(event)
    for stream, recorded in by_stream.items():
        _check_overlap(journal, stream, recorded)
    return {stream: _import_stream(journal, stream, recorded) for stream, recorded in by_stream.items()}


def open_mark(stream: str) -> bytes:
    """Return the cell that says an actor has open work, so that the next start looks at it."""
    name = stream.encode()
    # A long name is marked by its digest; the value carries the name.
    return b"open/" + (chain(GENESIS, name) if name[400:] else name)


def _check_overlap(journal: Journal, stream: str, recorded: list[RecordedEvent]) -> None:
    there = {event.sequence: event.digest for event in journal.read(stream, after=recorded[0].sequence - 1)}
    for event in recorded:
        if event.sequence in there and there[event.sequence] != event.digest:
            raise WrongExpectedSequence(
                stream=stream, expected=event.sequence - 1, actual=journal.head(stream).sequence
            )


def _import_stream(journal: Journal, stream: str, recorded: list[RecordedEvent]) -> int:
    head = journal.head(stream)
    new = [event for event in recorded if event.sequence > head.sequence]
    # A history may begin in the middle, and then its first digest can only be checked against what it continues.
    if new and (new[0].sequence != head.sequence + 1 or chain(head.digest, new[0].canonical) != new[0].digest):
        raise WrongExpectedSequence(stream=stream, expected=new[0].sequence - 1, actual=head.sequence)
    mark = CellWrite(open_mark(stream), stream.encode())
    for batch in _batches(new):
        drafts = [NewEvent(event.canonical, event.cause, event.recorded_at) for event in batch]
        journal.append(stream, drafts, expected=batch[0].sequence - 1, cells=[mark]).wait()
    return len(new)


def _batches(events: list[RecordedEvent]) -> Iterator[list[RecordedEvent]]:
    batch: list[RecordedEvent] = []
    size_bytes = 0
    for event in events:
        if batch and (len(batch) == _BATCH or size_bytes + len(event.canonical) > _BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(event)
        size_bytes += len(event.canonical)
    if batch:
        yield batch


def _parse(lines: Iterable[bytes], source: str) -> Iterator[RecordedEvent]:
    heads: dict[str, tuple[int, bytes]] = {}
    number = 0
    for number, text in enumerate(lines, 1):
        if number == 1:
            _check_header(text, source)
            continue
        if not text.strip():
            continue
        try:
            line = _LINE.decode(text)
            digest = bytes.fromhex(line.digest)
            check_stream(line.stream)
        except (msgspec.MsgspecError, ValueError, InvalidName) as error:
            raise InvalidHistory(source=source, line=number, reason=f"not an event of a history ({error})") from error
        canonical = bytes(line.record)
        known = heads.get(line.stream)
        # A history may begin in the middle of a stream; from there on it has no gaps.
        if known is not None and line.sequence != known[0] + 1:
            reason = f"{line.stream}: sequence {line.sequence} follows {known[0]}"
            raise InvalidHistory(source=source, line=number, reason=reason)
        before = known[1] if known else (GENESIS if line.sequence == 1 else None)
        if before is not None and chain(before, canonical) != digest:
            reason = f"{line.stream}, sequence {line.sequence}: the digest does not match, so the event was changed"
            raise InvalidHistory(source=source, line=number, reason=reason)
        heads[line.stream] = (line.sequence, digest)
        yield RecordedEvent(line.stream, line.sequence, number - 1, line.recorded_at, line.cause, digest, canonical)
    if number == 0:
        raise InvalidHistory(source=source, line=1, reason="the file is empty")


def _check_header(text: bytes, source: str) -> None:
    try:
        version = _HEADER.decode(text).clew_history
    except msgspec.MsgspecError as error:
        raise InvalidHistory(source=source, line=1, reason="not a clew history") from error
    if version > HISTORY_VERSION:
        reason = f"written by a newer version (history format {version}, this one reads {HISTORY_VERSION})"
        raise InvalidHistory(source=source, line=1, reason=reason)
