"""What a system knows: the kinds of its actors, and the agents whose conversations are threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from typing_extensions import TypeVar as TypeVarWithDefault

from ..journal import category_of
from .decider import EventSourcedActor
from .errors import UnknownKind

if TYPE_CHECKING:
    from pydantic_ai import Agent

    from .agent import AgentDefinition
    from .system import ActorSystem

__all__ = ["AnyKind", "Kinds", "kinds_of"]

Out = TypeVar("Out")
State = TypeVarWithDefault("State", default=Any)

AnyKind = EventSourcedActor[Any, Any, Any, Any]


class Kinds:
    """The kinds of actors of a system by category, and its agents by name.

    Raises:
        ValueError: two kinds share a category.
    """

    def __init__(self, kinds: Iterable[AnyKind], definitions: Mapping[str, AgentDefinition[Any, Any]]) -> None:
        listed = list(kinds)
        self.definitions = definitions
        self._by_category = {kind.category: kind for kind in listed}
        if len(self._by_category) != len(listed):
            raise ValueError(f"two actors share a category: {', '.join(kind.category for kind in listed)}")

    @property
    def known(self) -> tuple[str, ...]:
        """The categories."""
        return tuple(self._by_category)

    def get(self, category: str) -> AnyKind | None:
        """Return a kind, or None."""
        return self._by_category.get(category)

    def of(self, stream: str) -> AnyKind:
        """Return the kind of the actor with this stream.

        Raises:
            UnknownKind: it was not given to this system.
        """
        kind = self.get(category_of(stream))
        if kind is None:
            raise UnknownKind(name=category_of(stream), known=self.known)
        return kind

    def check(self, kind: AnyKind) -> None:
        """Refuse a kind that is none of these.

        Raises:
            UnknownKind: it was not given to this system.
        """
        if self.get(kind.category) is not kind:
            raise UnknownKind(name=kind.category, known=self.known)

    def definition(self, agent: Agent[Any, Out] | AgentDefinition[Any, Out, State]) -> AgentDefinition[Any, Out, State]:
        """Return the definition of an agent of the system.

        Raises:
            UnknownKind: it was not given to this system.
        """
        definition = self.definitions.get(agent.name or "")
        if definition is None or agent not in (definition, definition.agent):
            raise UnknownKind(name=agent.name or "an agent without a name", known=tuple(self.definitions))
        return cast("AgentDefinition[Any, Out, State]", definition)


def kinds_of(system: ActorSystem, actors: Iterable[AnyKind], agents: Iterable[Any]) -> Kinds:
    """Return what a system with these actors and agents knows: with agents, conversations and their schedules too."""
    kinds, definitions = list(actors), dict[str, "AgentDefinition[Any, Any]"]()
    if given := list(agents):
        # Only a system with agents pays for importing pydantic-ai.
        from .agenda import AGENDA  # noqa: PLC0415
        from .agent import agent_kind, register  # noqa: PLC0415

        definitions = register(given)
        kinds += [agent_kind(system, definitions), AGENDA]
    return Kinds(kinds, definitions)
