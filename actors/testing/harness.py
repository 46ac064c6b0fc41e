"""An agent with a script for a model, over the same loop as production."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, Self, TypedDict, TypeVar, cast

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage

from ...journal import Journal, MemoryJournal
from ...projections import ThreadView
from ..agent import AgentDefinition, Answer, Thread
from ..functions import Function, Functions, define_function
from ..system import ActorSystem
from .script import Script, Turn, scripted_model

__all__ = ["AgentHarness", "Dispatch", "agent_harness"]

D = TypeVar("D")
Out = TypeVar("Out")

RESULT_TIMEOUT_S = 30.0


Stubs = Mapping[str, Callable[..., Any]] | Iterable[Function[..., Any]]


class Dispatch(TypedDict):
    """A call of a function of the application: its name, and the arguments it was given."""

    path: str
    args: dict[str, Any]


class AgentHarness(Generic[D, Out]):
    """An agent with a script for a model, over a journal in memory (or yours); a context manager.

    `dispatches` are the calls of the application's functions so far, in their order.
    """

    def __init__(
        self,
        definition: AgentDefinition[D, Out],
        script: Script,
        journal: Journal | None,
        functions: Stubs = (),
    ) -> None:
        self.script = script
        self.dispatches: list[Dispatch] = []
        self._functions = Functions(_declared(functions), observe=self._dispatched)
        self.journal = MemoryJournal() if journal is None else journal
        self.definition = replace(definition, model=scripted_model(script))
        self.system = self._open()

    def _open(self) -> ActorSystem:
        return ActorSystem(self.journal, agents=[self.definition], functions=self._functions)

    def _dispatched(self, path: str, arguments: Mapping[str, Any]) -> None:
        self.dispatches.append(Dispatch(path=path, args=dict(arguments)))

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
        self.system = self._open()

    def __enter__(self) -> Self:
        """Return the harness."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the system."""
        self.system.close()


def agent_harness(
    agent: Agent[D, Out] | AgentDefinition[D, Out],
    script: Script | Iterable[Turn],
    *,
    journal: Journal | None = None,
    functions: Stubs = (),
) -> AgentHarness[D, Out]:
    """Return a harness that runs `agent` with `script` in place of its model.

    `functions` stand in for the functions of the application: a stub for each name, or the functions themselves.
    """
    definition = agent if isinstance(agent, AgentDefinition) else AgentDefinition(agent=agent)
    return AgentHarness(definition, script if isinstance(script, Script) else Script(script), journal, functions)


def _declared(functions: Stubs) -> Iterable[Function[..., Any]]:
    if isinstance(functions, Mapping):
        return [
            define_function(name, stub) for name, stub in cast("Mapping[str, Callable[..., Any]]", functions).items()
        ]
    return functions
