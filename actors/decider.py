"""The pure half of an actor: what a command becomes, what an event changes, what is left to do.

Nothing here touches a clock, chance, a file or another actor; time arrives with the command.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ..journal import Catalog, Upcaster, stream_name
from .effect import Effect

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
    """

    category: str
    decider: Decider[S, C, E, A]
    events: Sequence[type[msgspec.Struct]]
    upcasters: Sequence[Upcaster] = ()
    perform: Performer | None = None
    initial_for: Callable[[str], S] | None = None
    mailbox_size: int = 1000
    catalog: Catalog = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the declaration, so that a mistake shows where it was made."""
        stream_name(self.category, "x")
        if self.mailbox_size < 1:
            raise ValueError(f"{self.category}: mailbox_size is at least 1, not {self.mailbox_size}")
        object.__setattr__(self, "catalog", Catalog(*self.events, upcasters=self.upcasters))

    def initial(self, stream: str) -> S:
        """Return the state of the actor of this stream before its first event."""
        return self.decider.initial if self.initial_for is None else self.initial_for(stream)
