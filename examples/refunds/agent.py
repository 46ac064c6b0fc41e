"""The agent: what it may do with the ledger, who has to approve it, and the rules that think for it."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ...actors.agent import AgentDefinition, RunNow, tool_options, tool_step
from .ledger import Ledger

MANAGER: Final = "manager"
"""Who approves refunds; nobody else may."""

Way = Literal["refund", "pay_cash"]
"""How money goes out: the tool's name."""

Cents = Annotated[int, Field(gt=0, le=100_000)]


def build_refunds(
    ledger: Ledger, model: Model | None = None, *, deps_for: Callable[[RunNow], Ledger] | None = None
) -> AgentDefinition[Ledger, str]:
    """Build the refund desk over a ledger, thinking with `model` or by `rules`; `deps_for` gives each run a ledger."""
    agent = Agent(
        rules() if model is None else model,
        name="refunds",
        deps_type=Ledger,
        instructions="Give money back as you are asked to: by refund, or in cash. Say what came of it.",
    )
    agent.tool(metadata=tool_options(needs_approval=True))(refund)
    agent.tool(metadata=tool_options(needs_approval=True, at_most_once=True))(pay_cash)
    return AgentDefinition(
        agent=agent,
        deps=ledger if deps_for is None else None,
        deps_for=deps_for,
        approvers=lambda _, by: by == MANAGER,
    )


def refund(ctx: RunContext[Ledger], order_id: str, cents: Cents) -> dict[str, Any]:
    """Give money back to the card that an order was paid with.

    Args:
        ctx: The run, with the ledger.
        order_id: The number of the order.
        cents: How much.
    """
    # After a crash this runs again with the same key, and the ledger gives the first movement again.
    return asdict(ctx.deps.refund(tool_step().idempotency_key, order_id, cents))


def pay_cash(ctx: RunContext[Ledger], order_id: str, cents: Cents) -> dict[str, Any]:
    """Give money back from the drawer.

    Args:
        ctx: The run, with the ledger.
        order_id: The number of the order.
        cents: How much.
    """
    # A drawer knows no keys, so this never runs twice: after a crash in it, somebody has to look.
    return asdict(ctx.deps.pay_cash(order_id, cents))


def prompt_of(way: Way, order_id: str, cents: int) -> str:
    """Write the request that `rules` read."""
    return f"{way} {order_id} {cents}"


def rules() -> FunctionModel:
    """Return a model that needs no key: it calls the tool it is asked for, and then says what came of it."""
    return FunctionModel(_think, model_name="refund-rules")


def _think(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
    del info
    last = messages[-1]
    parts = last.parts if isinstance(last, ModelRequest) else ()
    for part in parts:
        if isinstance(part, ToolReturnPart):
            return ModelResponse([TextPart(part.model_response_str())])
    asked = next(part.content for part in parts if isinstance(part, UserPromptPart))
    way, order_id, cents = str(asked).split()
    return ModelResponse([ToolCallPart(way, {"order_id": order_id, "cents": int(cents)}, tool_call_id=f"c-{order_id}")])
