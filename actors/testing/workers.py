"""Agents whose models throw dice: what a simulated thread is busy with."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic_ai import Tool
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ..agent import AgentDefinition, agent_as_tool, define_agent, tool_options, tool_step
from ..errors import SignalTimedOut
from .dice import dice
from .provider import invalid_for_provider
from .purses import PURSE, Fill
from .script import final_turn, tool_calls_turn

if TYPE_CHECKING:
    from .world import World

__all__ = ["Workers"]

TURNS_MAX = 2
CALLS_MAX = 2

TOOLS = {"book": 4, "count": 4, "pay": 4, "claim": 2, "flaky": 3, "wait": 2, "gift": 2, "nudge": 1, "ask_helper": 1}
"""What the model may call, and how often in comparison."""

LOST = 0.5
"""The chance of a flaky tool's answer to be lost."""


class Unlucky(Exception):
    """A tool did what it should, and the answer was lost on the way."""


class Workers:
    """An agent with tools of every sort, and a helper it may ask; their models depend on the conversation alone.

    `refused` are requests that no provider would take.
    """

    def __init__(self, world: World, seed: int, threads: tuple[str, ...]) -> None:
        self.refused: list[str] = []
        self._world = world
        self._seed = seed
        self._threads = threads
        helper = FunctionModel(self._think, model_name="dice")
        self.helper = define_agent("helper", model=helper, tools=[self.count])
        self.worker: AgentDefinition[Any, str] = define_agent(
            "worker",
            model=FunctionModel(self._think, model_name="dice"),
            tools=[
                self.book,
                self.count,
                Tool(self.pay, metadata=tool_options(needs_approval=True)),
                Tool(self.claim, metadata=tool_options(at_most_once=True)),
                Tool(self.flaky, metadata=tool_options(attempts=3, delay_s=5)),
                self.wait,
                self.gift,
                self.nudge,
                agent_as_tool(self.helper, timeout_s=3600),
            ],
            queue_max=2,
            queue_timeout_s=6 * 3600,
            initial_state={"count": 0},
        )

    @property
    def agents(self) -> list[AgentDefinition[Any, Any]]:
        """The agents of the system."""
        return [self.worker, self.helper]

    async def _think(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.refused += invalid_for_provider(messages)
        start, prompt = _last_prompt(messages)
        turn = sum(isinstance(message, ModelResponse) for message in messages[start:])
        chance = dice(self._seed, prompt, turn)
        await asyncio.sleep(chance.choice([0, 0, 0.5, 20]))
        tools = [tool for tool in info.function_tools if tool.name in TOOLS]
        if turn >= TURNS_MAX or chance.random() < turn / (TURNS_MAX + 1):
            return final_turn(f"done: {prompt}")
        names = chance.choices([tool.name for tool in tools], [TOOLS[tool.name] for tool in tools], k=CALLS_MAX)
        calls = [(f"{prompt}-{turn}-{number}", name) for number, name in enumerate(names)]
        return tool_calls_turn(*[(id_, name, {"prompt": id_} if name == "ask_helper" else {}) for id_, name in calls])

    def _outside(self) -> bool:
        return self._world.effect(tool_step().idempotency_key)

    def book(self) -> str:
        """Do something outside."""
        self._outside()
        return "booked"

    async def count(self) -> int:
        """Count in the thread's state."""
        self._outside()
        tool_step().update_state(lambda state: {"count": (state or {"count": 0})["count"] + 1})
        await asyncio.sleep(1)
        return tool_step().get_state()["count"]

    async def pay(self) -> str:
        """Do something outside that somebody approved."""
        await asyncio.sleep(0.01)
        self._outside()
        return "paid"

    async def claim(self) -> str:
        """Do something outside that may be done once at the most."""
        await asyncio.sleep(0.01)
        self._outside()
        await asyncio.sleep(0.01)
        return "claimed"

    async def flaky(self) -> str:
        """Do something outside, of which the first answer may be lost."""
        if self._outside() and dice(self._seed, tool_step().idempotency_key).random() < LOST:
            raise Unlucky("no answer")
        return "at last"

    async def wait(self) -> str:
        """Wait for somebody to say that it goes on."""
        try:
            return str(await tool_step().wait_for_signal("go", timeout_s=3600))
        except SignalTimedOut:
            return "nobody came"

    def gift(self) -> str:
        """Put a cent into a purse."""
        tool_step().send(PURSE, "a", Fill(1))
        return "given"

    def nudge(self) -> str:
        """Let another thread go on."""
        tool_step().signal(dice(self._seed, tool_step().idempotency_key).choice(self._threads), "go", "nudged")
        return "nudged"


def _last_prompt(messages: list[ModelMessage]) -> tuple[int, str]:
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart) and isinstance(part.content, str):
                    return place, part.content
    raise AssertionError("a conversation begins with a prompt")
