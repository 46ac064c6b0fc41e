"""A boss that has a clerk as a tool, and what both were asked and told."""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolReturnPart
from pydantic_ai.models.function import AgentInfo

from clew.actors import ActorSystem
from clew.actors.agent import AgentDefinition, Thread, agent_as_tool, define_agent, tool_step
from clew.actors.testing import (
    Script,
    VirtualClock,
    final_turn,
    scripted_model,
    tool_call_turn,
    tool_calls_turn,
)
from clew.journal import Journal
from clew.journal.facts import ChildStarted
from tests.actors.payments import results_of, said
from tests.actors.support import WAIT_S
from tests.actors.ticking import facts, settled

P = "thread/top"


class Family:
    """A boss that asks a clerk: `calls` are the clerk's prompts, all asked at once; the clerk answers, or as told.

    Told `wait`, the clerk waits for the signal `go`; told `ask`, it asks people two things; told `fail`, it fails.
    """

    def __init__(self, *calls: str, timeout_s: float = 300.0, **options: Any) -> None:
        self.clock = VirtualClock()
        self.greeted = 0
        self.clerk_script, self.boss_script = Script([self._clerk] * 50), Script([self._boss] * 20)
        self._calls = calls

        async def wait() -> str:
            return str(await tool_step().wait_for_signal("go"))

        async def ask() -> str:
            return f"{(await tool_step().approve('one?')).approved} {(await tool_step().approve('two?')).approved}"

        async def greet() -> str:
            self.greeted += 1
            return "hi"

        async def fail() -> str:
            raise OSError("never")

        tools: list[Any] = [wait, ask, fail]
        self.clerk: AgentDefinition[Any, str] = define_agent(
            "clerk", model=scripted_model(self.clerk_script), tools=tools, **options
        )
        self.boss: AgentDefinition[Any, str] = define_agent(
            "boss",
            model=scripted_model(self.boss_script),
            tools=[greet, agent_as_tool(self.clerk, timeout_s=timeout_s)],
        )

    def _clerk(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompt, last = said(messages)[-1], messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return final_turn(f"got {last.content}")
        return tool_call_turn("x", prompt, {}) if prompt in ("wait", "ask", "fail") else final_turn(prompt.upper())

    def _boss(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        if turn == 0:
            return tool_call_turn("g", "greet", {})
        calls = [(f"c{n}", "ask_clerk", {"prompt": prompt}) for n, prompt in enumerate(self._calls, 1)]
        return tool_calls_turn(*calls) if turn == 1 else final_turn("done")

    def open(self, journal: Journal) -> ActorSystem:
        return ActorSystem(journal, agents=[self.boss, self.clerk], clock=self.clock, idle_s=0.01)

    def top(self, system: ActorSystem, owner: str | None = "ann") -> Thread[str]:
        return system.thread(self.boss, "top", owner=owner)

    def begun(self, system: ActorSystem) -> list[Thread[str]]:
        """Start the boss, and return the threads of the clerk once all of them wait."""
        self.top(system).run("go", run_id="r").started(timeout_s=WAIT_S)
        settled(system, lambda: len(self.children(system)) == len(self._calls))
        return self.children(system)

    def children(self, system: ActorSystem) -> list[Thread[str]]:
        """The threads of the clerk, in the order in which they were asked for."""
        asked = facts(system.journal, P, ChildStarted)
        keys = [fact.thread.partition("/")[2] for fact in asked]
        return [
            system.thread(self.clerk, key, owner="ann") for key in keys if system.journal.head(f"thread/{key}").sequence
        ]

    @property
    def told(self) -> dict[str, str]:
        """What the boss's model was told came of its calls."""
        return results_of(self.boss_script.requests[-1])
