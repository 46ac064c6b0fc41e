"""Actors that could not be woken several times in a row are left alone, until something about them changes.

The fact is kept in a cell, so that the next start of the system knows it too. Their streams can be listed, read and
deleted like any others.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from hashlib import sha256
from typing import Final

import msgspec

from ..journal import CellWrite, Journal, JournalError
from .errors import ActivationFailed, ActorQuarantined

__all__ = ["ACTIVATIONS_MAX", "Quarantine", "Quarantined"]

ACTIVATIONS_MAX: Final = 5
"""How often in a row an actor may fail to wake up before it is left alone."""

_PREFIX: Final = b"quarantine/"
_STREAM_BYTES_MAX: Final = 400


class Quarantined(msgspec.Struct, frozen=True):
    """An actor that is left alone: how often it failed to wake up, since when, why, and under which code of its kind.

    `sequence` is where its stream could not be folded; `since` is in nanoseconds since the epoch, UTC.
    """

    stream: str
    failures: int
    sequence: int
    reason: str
    since: int
    code: str


_RECORDS: Final = msgspec.msgpack.Decoder(Quarantined)


class Quarantine:
    """Counts the activations that failed in a row, over all actors of a system; may be used from any thread.

    A system that is opened tries an actor in quarantine once more when it is asked; it wakes one by itself only if the
    code of its kind is another one.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._failing: dict[str, Quarantined] = {}
        self._shut: set[str] = set()
        for _, value in journal.cells.scan(_PREFIX):
            # A cell that cannot be read counts for nothing: the actor is tried again, and fails or does not.
            with suppress(msgspec.MsgspecError):
                record = _RECORDS.decode(value)
                self._failing[record.stream] = record

    def listed(self) -> list[Quarantined]:
        """Return the actors in quarantine, by stream, unless their stream was deleted."""
        with self._lock:
            found = [one for _, one in sorted(self._failing.items()) if one.failures >= ACTIVATIONS_MAX]
        return [one for one in found if not self._deleted(one.stream)]

    def check(self, stream: str) -> None:
        """Refuse to wake an actor that has failed too often.

        Raises:
            ActorQuarantined: it did.
        """
        with self._lock:
            known = self._failing[stream] if stream in self._shut else None
        if known and not self._deleted(stream):
            raise _refusal(known)

    def leaves_alone(self, stream: str, code: str) -> ActorQuarantined | None:
        """Return why an actor is not woken when a system is opened; None when it may be."""
        with self._lock:
            known = self._failing.get(stream)
        return _refusal(known) if known and known.failures >= ACTIVATIONS_MAX and known.code == code else None

    def failed(self, error: ActivationFailed, *, code: str, at: int) -> None:
        """Count an activation that failed; the last that is allowed is kept for the next start."""
        stream = error.stream
        with self._lock:
            known = self._failing.get(stream)
            failures, since = (known.failures + 1, known.since) if known and known.code == code else (1, at)
            record = Quarantined(stream, failures, error.sequence, error.reason, since, code)
            self._failing[stream] = record
            if failures >= ACTIVATIONS_MAX:
                self._shut.add(stream)
                self._keep(stream, msgspec.msgpack.encode(record))

    def release(self, stream: str) -> None:
        """Forget the failures of an actor: it is awake, or the next message to it may try again."""
        if stream in self._failing:
            with self._lock:
                self._failing.pop(stream, None)
                self._shut.discard(stream)
                self._keep(stream, None)

    def _deleted(self, stream: str) -> bool:
        """Whether there is nothing left to wake; then it is forgotten."""
        deleted = self._journal.head(stream).deleted
        if deleted:
            self.release(stream)
        return deleted

    def _keep(self, stream: str, value: bytes | None) -> None:
        # It is a note for the next start; what stands in its way is told by whoever appends.
        with suppress(JournalError):
            self._journal.cells.write([CellWrite(_key(stream), value)])


def _refusal(one: Quarantined) -> ActorQuarantined:
    return ActorQuarantined(stream=one.stream, sequence=one.sequence, reason=one.reason, failures=one.failures)


def _key(stream: str) -> bytes:
    name = stream.encode()
    # A long name is known by its digest; the value carries the name.
    return _PREFIX + (sha256(name).digest() if len(name) > _STREAM_BYTES_MAX else name)
