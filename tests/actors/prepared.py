"""An agent that looks and pays, whose turns are prepared, and a model that notes what it was asked with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent, ModelResponse
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew.actors import ActorSystem
from clew.actors.agent import (
    AgentDefinition,
    TurnStart,
    define_agent,
    replay,
)
from clew.journal import MemoryJournal
from clew.journal.facts import StepCompleted
from clew.projections import conversation
from tests.actors.support import WAIT_S

CALLS: Counter[str] = Counter()


def look(at: str = "sea") -> str:
    CALLS["look"] += 1
    return f"the {at}"


def pay(usd: int = 1) -> str:
    CALLS["pay"] += 1
    return f"paid {usd}"


def always(change: Any) -> Callable[[TurnStart], Any]:
    """Change each turn in the same way."""
    return lambda start: change


class Seen:
    """A model that notes what it was asked with, and takes the turn of that number."""

    def __init__(self, *turns: ModelResponse) -> None:
        self.turns = turns
        self.tools: list[list[str]] = []
        self.settings: list[dict[str, Any]] = []
        self.instructions: list[str | None] = []
        self.sent: list[list[ModelMessage]] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.tools.append([tool.name for tool in info.function_tools])
        self.settings.append(dict(info.model_settings or {}))
        self.instructions.append(info.instructions)
        self.sent.append(messages)
        return self.turns[len(self.tools) - 1]

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self, model_name="seen")


def run_it(definition: AgentDefinition[Any, Any], *prompts: str) -> tuple[list[Any], MemoryJournal]:
    """Run and replay it; what is replayed calls nothing, and ends as it was recorded."""
    journal = MemoryJournal()
    with ActorSystem(journal, agents=[definition]) as system:
        thread = system.thread(definition, "test")
        answers = [thread.run(prompt).result(timeout_s=WAIT_S) for prompt in prompts]
        called = CALLS.copy()
        assert replay(thread, definition).digests_equal
        assert called == CALLS
    return answers, journal


def looker(seen: Seen, **options: Any) -> AgentDefinition[None, str]:
    return define_agent("looker", model=seen.model, instructions="Look.", tools=[look, pay], **options)


def bring_your_own(seen: Seen, **options: Any) -> AgentDefinition[None, str]:
    agent = Agent(seen.model, name="looker", instructions="Look.", tools=[look, pay])
    return AgentDefinition(agent=agent, **options)


def requests_of(journal: MemoryJournal) -> list[Any]:
    """What is recorded of requests, and the tails."""
    steps = [e for e in decoded(journal) if isinstance(e, StepCompleted)]
    return [(step.step, step.request, bytes(step.tail)) for step in steps]


def decoded(journal: MemoryJournal) -> list[Any]:
    return [conversation.catalog.decode(event) for event in journal.read("thread/test")]
