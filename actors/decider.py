"""The pure half of an actor: what a command becomes, what an event changes, what is left to do.

Nothing here touches a clock, chance, a file or another actor; time arrives with the command.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ..journal import Catalog, Upcaster, event_type, stream_name
from ..journal.snapshot import SnapshotPolicy, Snapshots
from .effect import Effect
from .errors import InvalidMessage
from .state_codec import StateCodec

__all__ = ["Decider", "EventSourcedActor", "Performer", "fold"]

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E", bound=msgspec.Struct)
A = TypeVar("A")


def _no_effects(_: object) -> tuple[Effect, ...]:
    return ()


def _never(_: object) -> int | None:
    return None


@dataclass(frozen=True, kw_only=True)
class Decider(Generic[S, C, E, A]):
    """Six functions that say everything an actor decides.

    - `decide(state, command)` returns the events the command becomes; none when it changes nothing. It refuses by
      raising `CommandRejected`.
    - `evolve(state, event)` returns the state after a fact. It cannot refuse.
    - `answer(state, events)` returns the reply: from the state after the command and the events it became.
    - `effects(state)` returns the work that is open in this state. It is a function of the state alone, so live,
      after a crash and after a passivation the open work is the same.
    - `due(state)` returns when the actor wants to be woken by its alarm, in nanoseconds since the epoch, UTC, or None.
      It too is a function of the state alone: the alarm moves with the events that change it, and is gone when they
      say so. A time that has passed means now.

    `initial` is the state before the first event. States are never changed in place.
    """

    initial: S
    decide: Callable[[S, C], Sequence[E]]
    evolve: Callable[[S, E], S]
    answer: Callable[[S, Sequence[E]], A]
    effects: Callable[[S], Sequence[Effect]] = _no_effects
    due: Callable[[S], int | None] = _never


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

    `commands` are the commands that other actors may send it (see `clew.actors.delivery`), msgspec structs by their
    names. A name is stored with each message, for ever, and so are the fields: read what was sent by earlier versions.

    `alarm(at)` makes the command that an alarm is; a kind whose decider has a `due` needs one. It is sent at or soon
    after the due, `at` is the time then (nanoseconds since the epoch, UTC), and the actor is woken for it if it sleeps,
    also after a restart. It is sent again, later each time, until the events of the actor move its due; so take care
    of all that is due at `at`. What comes when nothing is due any more is not decided.

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
    alarm: Callable[[int], C] | None = None
    commands: Mapping[str, type[C]] = field(default_factory=dict[str, type[C]], hash=False)
    mailbox_size: int = 1000
    version: int = 1
    state_type: Any = None
    snapshot: SnapshotPolicy | None = SnapshotPolicy()  # noqa: RUF009  (it is frozen)
    catalog: Catalog = field(init=False, repr=False, compare=False)
    state_codec: StateCodec[S] | None = field(init=False, repr=False, compare=False)
    snapshots: Snapshots | None = field(init=False, repr=False, compare=False)
    code: str = field(init=False, repr=False, compare=False)
    _readers: Mapping[str, msgspec.json.Decoder[C]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the declaration, so that a mistake shows where it was made."""
        stream_name(self.category, "x")
        if self.mailbox_size < 1:
            raise ValueError(f"{self.category}: mailbox_size is at least 1, not {self.mailbox_size}")
        if self.version < 1:
            raise ValueError(f"{self.category}: the version is a whole number from 1, not {self.version!r}")
        if self.decider.due is not _never and self.alarm is None:
            raise ValueError(
                f"{self.category}: its decider has a due, so it needs an `alarm`: the command that is sent then"
            )
        codec = None if self.state_type is None else StateCodec[S](self.category, self.state_type)
        object.__setattr__(self, "_readers", self._command_readers())
        object.__setattr__(self, "catalog", Catalog(*self.events, upcasters=self.upcasters))
        object.__setattr__(self, "state_codec", codec)
        object.__setattr__(self, "snapshots", self._snapshots(codec))
        object.__setattr__(self, "code", self._code(codec))

    def initial(self, stream: str) -> S:
        """Return the state of the actor of this stream before its first event."""
        return self.decider.initial if self.initial_for is None else self.initial_for(stream)

    def command(self, stream: str, name: str, payload: msgspec.Raw) -> C:
        """Return the command that a message to the actor of `stream` is.

        Raises:
            InvalidMessage: the kind takes none of this name, or the fields do not fit; it says where.
        """
        reader = self._readers.get(name)
        if reader is None:
            known = ", ".join(self.commands) or "none"
            raise InvalidMessage(stream=stream, command=name, reason=f"{self.category} takes {known}")
        try:
            return reader.decode(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidMessage(stream=stream, command=name, reason=str(error)) from error

    def _command_readers(self) -> Mapping[str, msgspec.json.Decoder[C]]:
        for name, command in self.commands.items():
            if not name or not name.isprintable():
                raise ValueError(f"{self.category}: {name!r} names no command: give it a name of printable text")
            if not (isinstance(command, type) and issubclass(command, msgspec.Struct)):
                raise TypeError(f"{self.category}: the command {name!r} is a msgspec.Struct, not {command!r}")
        return {name: msgspec.json.Decoder(command) for name, command in self.commands.items()}

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
