"""A system that takes decisions and acts on none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent

from ...actors import ActorSystem
from ...actors.agent import AgentDefinition

if TYPE_CHECKING:
    from ...actors import Effect
    from ...actors.local import LocalActor

__all__ = ["RecordingSystem", "stand_in"]


class RecordingSystem(ActorSystem):
    """Records what is decided and leaves the work that it opens to whoever opens the journal next."""

    def start_effect(self, actor: LocalActor, effect: Effect, done: Callable[[], None]) -> _Left:
        """Leave it."""
        done()
        return _Left()


class _Left:
    """Work that was never begun."""

    def cancel(self) -> None:
        """Nothing is to be stopped."""


def stand_in(name: str) -> AgentDefinition[Any, Any]:
    """Return an agent of this name that cannot run, for whose calls anybody may decide.

    Whoever may write to the files of a journal can decide what they like; there is no use in pretending otherwise.
    """
    # It has to have a model, which is never asked.
    agent: Agent[Any, Any] = Agent("test", name=name)
    return AgentDefinition(agent=agent, approvers=lambda _, __: True)
