"""Snapshots: what a fold had reached, kept beside the events so that it need not begin at the first one.

Nothing is lost with them. A snapshot of another version of the fold or of another history, or one that is damaged or
incomplete, is passed over, and the fold begins at an older one or at the first event.

They are cells: a header, the state in parts of at most `CHUNK_BYTES_MAX`, and a log. What only grows with the stream
(an actor's memory of command ids) goes into the log, of which each snapshot writes what is new alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from struct import Struct
from typing import Final, NamedTuple

import msgspec

from .body import CHUNK_BYTES_MAX
from .codec import chain
from .commit import Commit
from .errors import InvalidName, JournalError, PayloadTooLarge
from .event import GENESIS
from .journal import Cells, CellWrite, Journal

__all__ = ["Snapshot", "SnapshotPolicy", "Snapshots", "Tip", "forget"]

NAME_BYTES_MAX: Final = 128
"""The longest name of a fold, in bytes."""

_LAYOUT: Final = 1
_STATE_BYTES_PER_EVENT: Final = 256
_STREAM_BYTES_MAX: Final = 256
_HEADER, _STATE, _LOG = b"h", b"s", b"l"
_sequence_key = Struct(">Q")
_part_key = Struct(">QI")


class SnapshotPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Take a snapshot after `every` events, and keep the last `keep` of them.

    A fold then reads about `every` events beside one. A large state has them less often, as many events apart as it has
    256 bytes, so that they cost no more than its events; a state over `size_bytes_max` has none. When a fold is put
    away, one is taken of what is left over if that is at least a tenth of `every`.

    Raises:
        ValueError: a number is below 1.
    """

    every: int = 500
    keep: int = 2
    size_bytes_max: int = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        """Refuse what would take none, or keep none."""
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise ValueError(f"SnapshotPolicy: {name} is at least 1, not {getattr(self, name)}")

    def spacing(self, size_bytes: int) -> int:
        """Return how many events there are from a snapshot whose state has this size to the next one."""
        return max(self.every, size_bytes // _STATE_BYTES_PER_EVENT)

    @property
    def worth(self) -> int:
        """How many events are worth a snapshot when a fold is put away."""
        return max(1, self.every // 10)


class Tip(NamedTuple):
    """Where the log of a stream's snapshots ends: what the next one goes on from."""

    sequence: int = 0
    digest: bytes = GENESIS


class Snapshot(NamedTuple):
    """What a fold had reached at `sequence` of a stream: the state's bytes, and all of the log up to there.

    `digest` is the stream's there; `taken_at` is in nanoseconds since the epoch, UTC.
    """

    sequence: int
    digest: bytes
    taken_at: int
    state: bytes
    log: bytes
    tip: Tip


class _Header(msgspec.Struct, frozen=True, array_like=True):
    fingerprint: bytes
    sequence: int
    digest: bytes
    taken_at: int
    size_bytes: int
    log: bytes
    checksum: bytes = b""


_HEADERS: Final = msgspec.msgpack.Decoder(_Header)


class Snapshots:
    """The snapshots of one fold, over all the streams that it folds.

    `name` and `version` are the fold's, `schema` is whatever else makes its states what they are. Snapshots under
    another version or schema are not used, and go when the next one is taken. It holds no journal, so that it is made
    once for each fold.

    Raises:
        InvalidName: the name is over `NAME_BYTES_MAX`, or not printable.
    """

    def __init__(self, name: str, *, version: int, schema: bytes, policy: SnapshotPolicy) -> None:
        if not name.isprintable() or len(name.encode()) > NAME_BYTES_MAX:
            raise InvalidName(name=name, reason=f"a fold's name is printable and has at most {NAME_BYTES_MAX} bytes")
        self.policy = policy
        self._name = name.encode()
        self._fingerprint = sha256(f"{_LAYOUT}/{name}/{version}/".encode() + schema).digest()[:16]

    def find(self, journal: Journal, stream: str) -> Snapshot | None:
        """Return the newest snapshot of `stream` that can be used; None when there is none."""
        base = self._base(stream)
        try:
            for key, value in reversed(list(journal.cells.scan(base + _HEADER))):
                header = self._header(key, value)
                if header and (found := _read(journal.cells, base, header)) and _is_of(journal, stream, found):
                    return found
        except JournalError:
            # Whatever is wrong with the journal, reading the events says it.
            return None
        return None

    def save(
        self,
        cells: Cells,
        stream: str,
        *,
        sequence: int,
        digest: bytes,
        taken_at: int,
        state: bytes,
        added: bytes,
        after: Tip,
    ) -> tuple[Commit, Tip]:
        """Keep a snapshot of what is durable, with what the log gained since `after`; return where it ends then.

        Waits for nothing, and the tip is to be used only once the commit is durable. With an empty `after` the log
        begins anew, and all earlier snapshots go.

        Raises:
            PayloadTooLarge: the state is over the policy's `size_bytes_max`; nothing was written.
            ReadOnlyJournal, JournalClosed, JournalForked: as for `Cells.write`.
        """
        if len(state) > self.policy.size_bytes_max:
            what, limit = f"{stream}, its state for a snapshot", self.policy.size_bytes_max
            raise PayloadTooLarge(what=what, size_bytes=len(state), size_bytes_max=limit)
        base = self._base(stream)
        changes: dict[bytes, bytes | None] = dict.fromkeys(self._outlived(cells, base, sequence, after))
        log = after.digest
        for number, part in enumerate(_parts(added)):
            changes[base + _LOG + _part_key.pack(sequence, number)] = part
            log = chain(log, part)
        for number, part in enumerate(_parts(state)):
            changes[base + _STATE + _part_key.pack(sequence, number)] = part
        header = _Header(self._fingerprint, sequence, digest, taken_at, len(state), log)
        header = msgspec.structs.replace(header, checksum=_checksum(header, state))
        changes[base + _HEADER + _sequence_key.pack(sequence)] = msgspec.msgpack.encode(header)
        return cells.write([CellWrite(key, value) for key, value in changes.items()]), Tip(sequence, log)

    def _base(self, stream: str) -> bytes:
        return _prefix(stream) + self._name + b"\0"

    def _header(self, key: bytes, value: bytes) -> _Header | None:
        try:
            header = _HEADERS.decode(value)
        except msgspec.MsgspecError:
            return None
        there = _sequence_key.unpack(key[-_sequence_key.size :]) == (header.sequence,)
        return header if there and header.fingerprint == self._fingerprint else None

    def _outlived(self, cells: Cells, base: bytes, sequence: int, after: Tip) -> Iterator[bytes]:
        """Yield the cells that go when the snapshot at `sequence` is taken."""
        if not after.sequence:
            yield from (key for key, _ in cells.scan(base))
            return
        # What another writer of the same log has put behind its end is not a part of it.
        end = base + _LOG + _part_key.pack(after.sequence, 0xFFFF_FFFF)
        yield from (key for key, _ in cells.scan(base + _LOG, after=end))
        places = [key[-_sequence_key.size :] for key, _ in cells.scan(base + _HEADER)]
        older = [place for place in places if place < _sequence_key.pack(sequence)]
        kept = older[max(0, len(older) - self.policy.keep + 1) :]
        for place in places:
            if place not in kept:
                yield base + _HEADER + place
                yield from (key for key, _ in cells.scan(base + _STATE + place))


def forget(cells: Cells, stream: str) -> Commit:
    """Remove all snapshots of a stream, whoever took them; done when its events are deleted.

    Raises:
        ReadOnlyJournal, JournalClosed, JournalForked: as for `Cells.write`.
    """
    return cells.write([CellWrite(key, None) for key, _ in cells.scan(_prefix(stream))])


def _read(cells: Cells, base: bytes, header: _Header) -> Snapshot | None:
    sequence = header.sequence
    state = b"".join(part for _, part in cells.scan(base + _STATE + _sequence_key.pack(sequence)))
    if len(state) != header.size_bytes or _checksum(header, state) != header.checksum:
        return None
    log, digest = list[bytes](), GENESIS
    for key, part in cells.scan(base + _LOG):
        if _part_key.unpack(key[-_part_key.size :])[0] > sequence:
            break
        log.append(part)
        digest = chain(digest, part)
    if digest != header.log:
        return None
    tip = Tip(sequence, digest)
    return Snapshot(sequence, header.digest, header.taken_at, state, b"".join(log), tip)


def _prefix(stream: str) -> bytes:
    name = stream.encode()
    # A long name is known by its digest. No name holds the zero byte behind it.
    return b"snapshot/" + (sha256(name).digest() if len(name) > _STREAM_BYTES_MAX else name) + b"\0"


def _parts(data: bytes) -> Iterator[bytes]:
    return (data[at : at + CHUNK_BYTES_MAX] for at in range(0, len(data), CHUNK_BYTES_MAX))


def _checksum(header: _Header, state: bytes) -> bytes:
    blank = msgspec.structs.replace(header, checksum=b"")
    return sha256(msgspec.msgpack.encode(blank) + state).digest()[:16]


def _is_of(journal: Journal, stream: str, snapshot: Snapshot) -> bool:
    """Whether the stream went through where the snapshot was taken."""
    head = journal.head(stream)
    if head.sequence <= snapshot.sequence:
        return (head.sequence, head.digest) == (snapshot.sequence, snapshot.digest)
    event = next(iter(journal.read(stream, after=snapshot.sequence - 1)), None)
    return event is not None and event.digest == snapshot.digest
