"""When an awake actor's state is kept in a snapshot: of what is durable alone, and off the way of its commands."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

from ..journal import Commit, Head, Journal
from ..journal.snapshot import Snapshots, Tip
from .command_ids import CommandIds
from .recovery import Recovered
from .state_codec import StateCodec

__all__ = ["Saver"]

S = TypeVar("S")


class _Due(NamedTuple):
    """A state that is to be kept once its commit is durable (None: it is already)."""

    state: Any
    sequence: int
    digest: bytes
    commit: Commit | None


class Saver(Generic[S]):
    """Takes the snapshots of one awake actor. Nothing rests on them, and one that fails is tried again later.

    `next_at` is the sequence at which the next one is due.
    """

    __slots__ = ("_codec", "_due", "_ids", "_journal", "_saving", "_snapshots", "_stream", "_tip", "next_at")

    def __init__(
        self, snapshots: Snapshots, codec: StateCodec[S], stream: str, journal: Journal, recovered: Recovered[S]
    ) -> None:
        self._snapshots = snapshots
        self._codec = codec
        self._stream = stream
        self._journal = journal
        self._ids: CommandIds = recovered.ids
        self._tip = recovered.tip
        self._due: _Due | None = None
        self._saving: tuple[Commit, Tip] | None = None
        self.next_at = recovered.tip.sequence + snapshots.policy.spacing(recovered.size_bytes)

    @property
    def due(self) -> bool:
        """Whether a state waits to be kept."""
        return self._due is not None

    def note(self, state: S, sequence: int, commit: Commit | None) -> None:
        """Have this state kept when its commit is durable (None: it is already)."""
        end = self._journal.head(self._stream) if commit is None else Head(commit.stream, sequence, commit.digest)
        # Another writer may have gone on since; then there is no digest of this place at hand.
        if end.sequence == sequence:
            self._due = _Due(state, sequence, end.digest, commit)
        self.next_at = sequence + self._snapshots.policy.every

    def leave(self, state: S, sequence: int) -> None:
        """Have the last state of an actor that goes to sleep kept, if there is enough that is new."""
        if self._settled() and sequence - self._tip.sequence >= self._snapshots.policy.worth:
            self.note(state, sequence, None)

    def save(self, at: int) -> Commit | None:
        """Write the snapshot that is due, and return its commit; None when there is nothing to write now.

        Waits for nothing but reading cells. `at` is the time in nanoseconds since the epoch, UTC.

        Raises:
            NotRepresentable: the state would come back different; no more snapshots are taken of actors of this kind.
            PayloadTooLarge: the state is too large; it is tried again much later.
            JournalError: the journal takes no cells.
        """
        due = self._due
        if due is None or (due.commit is not None and not due.commit.done):
            return None
        self._due = None
        if self._codec.refused or not self._settled() or (due.commit is not None and due.commit.error is not None):
            return None
        try:
            data = self._codec.encode(due.state)
        except Exception:
            self._codec.refused = True
            raise
        self.next_at = due.sequence + self._snapshots.policy.spacing(len(data))
        self._saving = self._snapshots.save(
            self._journal.cells,
            self._stream,
            sequence=due.sequence,
            digest=due.digest,
            taken_at=at,
            state=data,
            added=self._ids.pack(after=self._tip.sequence, until=due.sequence),
            after=self._tip,
        )
        return self._saving[0]

    def _settled(self) -> bool:
        """Take note of how the last write ended; False while it is under way."""
        if self._saving is not None:
            commit, tip = self._saving
            if not commit.done:
                return False
            self._saving = None
            if commit.error is None:
                self._tip = tip
        return True
