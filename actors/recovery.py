"""How an actor finds its state again: the newest snapshot that can be used, and the events behind it."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from ..journal import Journal, JournalClosed, JournalForked, StreamDeleted
from ..journal.snapshot import Tip
from .command_ids import CommandIds
from .decider import EventSourcedActor
from .errors import ActivationFailed

__all__ = ["Recovered", "recover"]

S = TypeVar("S")
E = TypeVar("E", bound=msgspec.Struct)


class Recovered(NamedTuple, Generic[S]):
    """What an actor was: its state at `sequence`, and the ids of its commands.

    `tip` and `size_bytes` are those of the snapshot that it was found by.
    """

    state: S
    sequence: int
    ids: CommandIds
    tip: Tip
    size_bytes: int


def recover(kind: EventSourcedActor[S, Any, E, Any], stream: str, journal: Journal) -> Recovered[S]:
    """Fold the stream of an actor, from its newest snapshot on where there is one.

    Raises:
        ActivationFailed: an event cannot be read or folded; names its sequence.
        StreamDeleted: its events were deleted.
        JournalClosed, JournalForked: the journal cannot be read any more.
    """
    begin = _snapshot(kind, stream, journal) or _beginning(kind, stream)
    state, sequence = begin.state, begin.sequence
    evolve, seen = kind.decider.evolve, begin.ids.recent.setdefault
    try:
        for page in journal.pages(stream, kind.catalog, after=sequence):
            for cause, event in zip(page.causes, page.events, strict=True):
                state = evolve(state, cast("E", event))
                sequence += 1
                if cause:
                    seen(cause, sequence)
    except (StreamDeleted, JournalClosed, JournalForked):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ActivationFailed(stream=stream, sequence=sequence + 1, reason=reason) from error
    return begin._replace(state=state, sequence=sequence)


def _snapshot(kind: EventSourcedActor[S, Any, E, Any], stream: str, journal: Journal) -> Recovered[S] | None:
    snapshots, codec = kind.snapshots, kind.state_codec
    # Where there are fewer events than one is taken for, it is quicker to fold them than to look.
    if snapshots is None or codec is None or journal.head(stream).sequence < snapshots.policy.worth:
        return None
    found = snapshots.find(journal, stream)
    if found is None:
        return None
    try:
        state = codec.decode(found.state)
    except Exception:  # noqa: BLE001  (the type is the user's; a snapshot that cannot be used is passed over)
        return None
    return Recovered(state, found.sequence, CommandIds(found.log), found.tip, len(found.state))


def _beginning(kind: EventSourcedActor[S, Any, E, Any], stream: str) -> Recovered[S]:
    try:
        state = kind.initial(stream)
    except Exception as error:
        reason = f"its initial state: {type(error).__name__}: {error}"
        raise ActivationFailed(stream=stream, sequence=0, reason=reason) from error
    return Recovered(state, 0, CommandIds(), Tip(), 0)
