"""The agents of a system by name, and typed access to them where they are declared as a class."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import TypeVar

from .errors import UnknownKind

if TYPE_CHECKING:
    from .agent import AgentDefinition

__all__ = ["AGENT_NAME", "AgentSet", "Agents_co", "agent_set_of"]


AGENT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What an agent may be called; runs are recorded under it."""


class AgentSet(Mapping[str, "AgentDefinition[Any, Any]"]):
    """The agents of a system, as the attributes of a class, so that a type checker knows each one.

    ```python
    class Team(AgentSet):
        support = define_agent("support", model="test")


    with ActorSystem("./data", agents=Team()) as system:
        system.thread(system.agents.support, "customer-42").run("Hello")
    ```

    Those that need something to be made are set in `__init__`. Attributes that begin with `_`, and what is no agent,
    are yours. As a mapping it has the definitions by the names that runs are recorded under; a list of agents becomes
    such a set too, whose attributes are these names. It is settled when it is first looked at.

    Raises:
        TypeError (when the class is made): an attribute hides a method of the mapping.
        ValueError, TypeError (when it is first looked at): two agents share a name, or one cannot be driven.
        UnknownKind (on `set[name]`; it is a `KeyError`): there is no such agent; names those that there are.
    """

    def __init_subclass__(cls) -> None:
        """Refuse an agent that could not be told from a method."""
        super().__init_subclass__()
        _check_methods(cls.__name__, vars(cls))

    def __getitem__(self, name: str) -> AgentDefinition[Any, Any]:
        if name not in self._definitions:
            raise UnknownKind(name=name, known=tuple(self._definitions))
        return self._definitions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._definitions)

    def __len__(self) -> int:
        return len(self._definitions)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._definitions)})"

    if not TYPE_CHECKING:
        # Hidden from type checkers: with it, a misspelled attribute of a typed set would pass.
        def __getattr__(self, name: str) -> AgentDefinition[Any, Any]:
            if name.startswith("_"):
                raise AttributeError(name)
            try:
                return self[name]
            except UnknownKind as unknown:
                raise AttributeError(str(unknown), name=name, obj=self) from None

    @cached_property
    def _definitions(self) -> dict[str, AgentDefinition[Any, Any]]:
        declared = self._declared()
        if not declared:
            # A system without agents does not pay for importing pydantic-ai.
            return {}
        from .agent import register  # noqa: PLC0415  (as above)

        return register(declared)

    def _declared(self) -> list[Any]:
        """Return the agents that are attributes, those of a base class first."""
        from pydantic_ai import Agent  # noqa: PLC0415  (as above)

        from .agent import AgentDefinition  # noqa: PLC0415  (as above)

        attributes = dict[str, object]()
        for scope in (*map(vars, reversed(type(self).__mro__)), vars(self)):
            attributes.update(scope)
        named = (value for name, value in attributes.items() if not name.startswith("_"))
        return [value for value in named if isinstance(value, Agent | AgentDefinition)]


def _check_methods(set_: str, attributes: Mapping[str, object]) -> None:
    for name in ("get", "items", "keys", "values"):
        if name in attributes:
            raise TypeError(f"{set_}.{name} hides a method of AgentSet; give the attribute another name")


Agents_co = TypeVar("Agents_co", bound=AgentSet, default=AgentSet, covariant=True)
"""The set of agents that a system was given."""


class _Listed(AgentSet):
    """Agents_co that were given as a list."""

    def __init__(self, agents: Iterable[Any]) -> None:
        self._listed = list(agents)

    def _declared(self) -> list[Any]:
        return self._listed


def agent_set_of(agents: AgentSet | Iterable[object]) -> AgentSet:
    """Return a set of agents as it is, and a list of them as a set.

    Raises:
        TypeError: it is neither, or a set that was given an attribute which hides a method.
    """
    if isinstance(agents, AgentSet):
        _check_methods(type(agents).__name__, vars(agents))
        return agents
    if isinstance(agents, type):
        raise TypeError(f"agents is a list of agents or an AgentSet itself, not a class: write {agents.__name__}()")
    if isinstance(agents, str) or not isinstance(cast("object", agents), Iterable):
        raise TypeError(f"agents is a list of agents or an AgentSet, not {type(agents).__name__}")
    return _Listed(agents)
