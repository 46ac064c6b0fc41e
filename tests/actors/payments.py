"""An agent that pays where people let it, the book of what it paid, and a model that can be asked from any point on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic_ai import Tool
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo

from clew.actors import ActorSystem, Reply
from clew.actors.agent import Approvals, DecidedApproval, PendingApproval, Thread, define_agent, tool_options, tool_step
from clew.actors.testing import Script, VirtualClock, final_turn, invalid_for_provider, scripted_model, tool_calls_turn
from clew.journal import Journal
from tests.actors.support import until

TURNS_MAX = 30

Call = tuple[str, str, dict[str, Any]]


def pay(call_id: str, amount: int, to: str = "bob") -> Call:
    """A call of the model."""
    return call_id, "pay", {"amount": amount, "to": to}


LOOK: Call = ("f", "look", {})
"""A call that nobody has to approve."""

Decide = Callable[[str], Reply[DecidedApproval]]
"""Decides an approval by its id."""


def rejecting(thread: Thread[Any] | Approvals, reason: str = "no") -> Decide:
    """What refuses a call."""
    return lambda id_: thread.reject(id_, reason)


class Payments:
    """A cashier: `calls` are what its model asks for when it is told to pay; any other prompt it only answers.

    `paid` is the book: what the tool did, by the key of the call.
    """

    def __init__(
        self,
        *calls: Call,
        needs_approval: bool | Callable[[dict[str, Any]], bool] = True,
        tool: dict[str, Any] | None = None,
        name: str = "cashier",
        **options: Any,
    ) -> None:
        self.calls = calls or (pay("c1", 5),)
        self.paid: list[tuple[str, int]] = []
        self.looked: list[str] = []
        self.script = Script([self.respond] * TURNS_MAX)
        self.clock = VirtualClock()
        how = tool_options(needs_approval=needs_approval, **(tool or {}))
        tools: list[Any] = [Tool(self.pay, metadata=how), self.look]
        self.agent = define_agent(name, model=scripted_model(self.script), tools=tools, **options)

    def pay(self, amount: int, to: str) -> str:
        """Pay somebody."""
        self.paid.append((tool_step().idempotency_key, amount))
        return f"paid {amount} to {to}"

    async def look(self) -> str:
        """Look at what is there."""
        self.looked.append(tool_step().idempotency_key)
        return "there is enough"

    def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Ask for the calls when told to pay, then say what came of them."""
        assert invalid_for_provider(messages) == []
        parts = messages[-1].parts
        asked = any(isinstance(part, UserPromptPart) for part in parts)
        results = [] if asked else [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
        if not results and said(messages)[-1].startswith("pay"):
            taken = sum(isinstance(message, ModelResponse) for message in messages)
            calls = [(id_ if not taken else f"{id_}-{taken}", name, input_) for id_, name, input_ in self.calls]
            return tool_calls_turn(*calls)
        return final_turn("; ".join(results) or f"you said {said(messages)[-1]}")

    def open(self, journal: Journal | Any, **options: Any) -> ActorSystem:
        """Open a system with the cashier."""
        return ActorSystem(journal, agents=[self.agent], clock=self.clock, **options)

    def thread(self, system: ActorSystem, key: str = "t", owner: str | None = "ann") -> Thread[str]:
        """Return a conversation with the cashier."""
        return system.thread(self.agent, key, owner=owner)

    @property
    def amounts(self) -> list[int]:
        """What was paid, in the order of the amounts."""
        return sorted(amount for _, amount in self.paid)


def said(messages: list[ModelMessage]) -> list[str]:
    """What the user said, in order."""
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, UserPromptPart)]


def results_of(messages: list[ModelMessage]) -> dict[str, str]:
    """What the model was told came of its calls last, by their ids."""
    return {part.tool_call_id: str(part.content) for part in messages[-1].parts if isinstance(part, ToolReturnPart)}


def waiting(thread: Thread[Any], run: str = "r", *, number: int = 1) -> list[PendingApproval]:
    """Wait until a run is suspended with so many approvals pending, and return them by their ids."""
    until(lambda: thread.status(run) == "awaiting_input" and len(thread.approvals()) == number)
    return sorted(thread.approvals(), key=lambda asked: asked.id)


def awaiting(payments: Payments, system: ActorSystem, key: str = "t", *, number: int = 1) -> list[PendingApproval]:
    """Tell the cashier to pay, and wait until it waits for people."""
    thread = payments.thread(system, key)
    thread.run("pay", run_id="r").started(timeout_s=10)
    return waiting(thread, number=number)


def asleep(system: ActorSystem) -> bool:
    """Whether no actor is awake."""
    return system.live == 0
