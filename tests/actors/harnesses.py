"""What the tests of the agent loop share."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ToolReturnPart

from clew.actors.testing import (
    AgentHarness,
)
from clew.journal.facts import StepCompleted
from clew.projections import conversation


def facts(harness: AgentHarness[Any, Any], kind: type) -> list[Any]:
    decoded = [conversation.catalog.decode(event) for event in harness.journal.read("thread/test")]
    return [event for event in decoded if isinstance(event, kind)]


def steps_of(harness: AgentHarness[Any, Any]) -> list[str]:
    return [event.step for event in facts(harness, StepCompleted)]


def returned(harness: AgentHarness[Any, Any]) -> list[object]:
    """The results the model was sent last, in their order."""
    return [part.content for part in harness.script.requests[-1][-1].parts if isinstance(part, ToolReturnPart)]


def calculator() -> tuple[Agent[None, str], Counter[str]]:
    calls: Counter[str] = Counter()
    agent = Agent("test", name="calculator", instructions="Calculate.")

    @agent.tool_plain
    async def add(a: int, b: int) -> int:
        calls["add"] += 1
        return a + b

    return agent, calls


class City(BaseModel):
    name: str
    people: int
