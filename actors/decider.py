"""The pure half of an actor: what a command becomes, what an event changes, what is left to do.

Nothing here touches a clock, chance, a file or another actor; time arrives with the command.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ..journal import Catalog, Upcaster, event_type, stream_name
from ..journal.snapshot import SnapshotPolicy, Snapshots
from .effect import Effect
from .state_codec import StateCodec

__all__ = ["Decider", "EventSourcedActor", "Performer", "fold"]

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E", bound=msgspec.Struct)
A = TypeVar("A")


def _no_effects(_: object) -> tuple[Effect, ...]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Decider(Generic[S, C, E, A]):
    """Five functions that say everything an actor decides.

    - `decide(state, command)` returns the events the command becomes; none when it changes nothing. It refuses by
      raising `CommandRejected`.
    - `evolve(state, event)` returns the state after a fact. It cannot refuse.
    - `answer(state, events)` returns the reply: from the state after the command and the events it became.
    - `effects(state)` returns the work that is open in this state. It is a function of the state alone, so live,
      after a crash and after a passivation the open work is the same.

    `initial` is the state before the first event. States are never changed in place.
    """

    initial: S
    decide: Callable[[S, C], Sequence[E]]
    evolve: Callable[[S, E], S]
    answer: Callable[[S, Sequence[E]], A]
    effects: Callable[[S], Sequence[Effect]] = _no_effects


def fold(decider: Decider[S, C, E, A], events: Iterable[E], state: S | None = None) -> S:
    """Return the state after `events`, from `state` or from the beginning."""
    reached = decider.initial if state is None else state
    for event in events:
        reached = decider.evolve(reached, event)
    return reached


class Performer(Protocol):
    """Does the work of an effect, outside the actor; may be awaited for long and may be started again."""

    def __call__(self, effect: Effect, actor: Any, /) -> Awaitable[object]:  # noqa: ANN401  (an ActorRef of this kind)
        """Do it. What it has to say it tells `actor` as commands, or returns one command."""
        ...


@dataclass(frozen=True, kw_only=True)
class EventSourcedActor(Generic[S, C, E, A]):
    """A kind of actor: a category and a decider, with the event types its streams hold.

    Each actor of the kind is one stream, `category/id`. `perform(effect, actor)` does the work of its effects; a
    command that it returns is told to the actor. `mailbox_size` bounds what may wait for one actor. `initial_for`
    makes the initial state of an actor that wants to know its own stream, in place of the decider's `initial`.

    With a `state_type` (whatever msgspec can decode: a struct, a dataclass, `dict[str, int]`) the state is kept in
    snapshots as `snapshot` says, and waking an actor costs what is new since the last one. Raise `version` when
    `evolve`, an upcaster or the initial state changes: the snapshots of other versions are not used. A state that would
    not come back exactly as it is, in a value or a type, ends the snapshots of the kind; the system reports it once.
    """

    category: str
    decider: Decider[S, C, E, A]
    events: Sequence[type[msgspec.Struct]]
    upcasters: Sequence[Upcaster] = ()
    perform: Performer | None = None
    initial_for: Callable[[str], S] | None = None
    mailbox_size: int = 1000
    version: int = 1
    state_type: Any = None
    snapshot: SnapshotPolicy | None = SnapshotPolicy()  # noqa: RUF009  (it is frozen)
    catalog: Catalog = field(init=False, repr=False, compare=False)
    state_codec: StateCodec[S] | None = field(init=False, repr=False, compare=False)
    snapshots: Snapshots | None = field(init=False, repr=False, compare=False)
    code: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the declaration, so that a mistake shows where it was made."""
        stream_name(self.category, "x")
        if self.mailbox_size < 1:
            raise ValueError(f"{self.category}: mailbox_size is at least 1, not {self.mailbox_size}")
        if self.version < 1:
            raise ValueError(f"{self.category}: the version is a whole number from 1, not {self.version!r}")
        codec = None if self.state_type is None else StateCodec[S](self.category, self.state_type)
        object.__setattr__(self, "catalog", Catalog(*self.events, upcasters=self.upcasters))
        object.__setattr__(self, "state_codec", codec)
        object.__setattr__(self, "snapshots", self._snapshots(codec))
        object.__setattr__(self, "code", self._code(codec))

    def initial(self, stream: str) -> S:
        """Return the state of the actor of this stream before its first event."""
        return self.decider.initial if self.initial_for is None else self.initial_for(stream)

    def _snapshots(self, codec: StateCodec[S] | None) -> Snapshots | None:
        if codec is None or self.snapshot is None:
            return None
        return Snapshots(f"actor {self.category}", version=self.version, schema=codec.schema, policy=self.snapshot)

    def _code(self, codec: StateCodec[S] | None) -> str:
        """Return a digest of what can be known of the code that folds: with another one a fold may end differently."""
        names = sorted(map(event_type, self.events))
        steps = sorted((step.name, step.version) for step in self.upcasters)
        known = (self.category, self.version, names, steps, "" if codec is None else codec.schema)
        return sha256(msgspec.msgpack.encode(known)).hexdigest()[:16]
