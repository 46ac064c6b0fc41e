"""An agent with a script for a model, over the same loop as production."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import Generic, Self, TypeVar

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage

from ...journal import Journal, MemoryJournal
from ...projections import ThreadView
from ..agent import AgentDefinition, Answer, Thread
from ..system import ActorSystem
from .script import Script, Turn, scripted_model

__all__ = ["AgentHarness", "agent_harness"]

D = TypeVar("D")
Out = TypeVar("Out")

RESULT_TIMEOUT_S = 30.0


class AgentHarness(Generic[D, Out]):
    """An agent with a script for a model, over a journal in memory (or yours); a context manager."""

    def __init__(self, definition: AgentDefinition[D, Out], script: Script, journal: Journal | None) -> None:
        self.script = script
        self.journal = MemoryJournal() if journal is None else journal
        self.definition = replace(definition, model=scripted_model(script))
        self.system = ActorSystem(self.journal, agents=[self.definition])

    def run(
        self, prompt: str, *, thread: str = "test", owner: str | None = None, run_id: str | None = None
    ) -> Answer[Out]:
        """Run the agent to its end and return the answer; raises as `Run.result` does."""
        started = self.conversation(thread, owner=owner).run(prompt, run_id=run_id)
        return started.result(timeout_s=RESULT_TIMEOUT_S)

    def conversation(self, key: str = "test", *, owner: str | None = None) -> Thread[Out]:
        """Return a conversation with the agent."""
        return self.system.thread(self.definition, key, owner=owner)

    def thread(self, key: str = "test", *, owner: str | None = None) -> ThreadView:
        """Return a persisted thread at a glance."""
        return self.conversation(key, owner=owner).view()

    def messages(self, key: str = "test", *, owner: str | None = None) -> list[ModelMessage]:
        """Return what was said in a thread."""
        return self.conversation(key, owner=owner).messages()

    def restart(self) -> None:
        """Close the system and open it again over the same journal, as after a restart of the process."""
        self.system.close()
        self.system = ActorSystem(self.journal, agents=[self.definition])

    def __enter__(self) -> Self:
        """Return the harness."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the system."""
        self.system.close()


def agent_harness(
    agent: Agent[D, Out] | AgentDefinition[D, Out], script: Script | Iterable[Turn], *, journal: Journal | None = None
) -> AgentHarness[D, Out]:
    """Return a harness that runs `agent` with `script` in place of its model."""
    definition = agent if isinstance(agent, AgentDefinition) else AgentDefinition(agent=agent)
    return AgentHarness(definition, script if isinstance(script, Script) else Script(script), journal)
