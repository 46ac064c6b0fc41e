"""The analyst: what scripts may call, and rules that write one in place of a model."""

from typing import Any

from pydantic_ai import RunContext, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ...actors.agent import AgentDefinition, code_tool, define_agent, tool_options, tool_step
from .books import Books

CITY = "Graz"


def customers_in(ctx: RunContext[Books], city: str) -> list[dict[str, Any]]:
    """List the customers of a city: id and name."""
    return ctx.deps.customers(city)


def orders_of(ctx: RunContext[Books], customer_id: int) -> dict[str, Any]:
    """List what a customer bought: the orders, and their amounts in cents once more, as a list."""
    orders = ctx.deps.orders(customer_id)
    return {"orders": orders, "cents": [order["cents"] for order in orders]}


def add_up(amounts: list[list[int]]) -> int:
    """Add up lists of amounts."""
    return sum(sum(each) for each in amounts)


def publish(ctx: RunContext[Books], title: str, cents: int) -> str:
    """Publish a report on an amount."""
    # After a crash this runs again with the same key, and the books file it once.
    ctx.deps.publish(tool_step().idempotency_key, title, cents)
    return f"{title}: {cents / 100:.2f}"


def build_analyst(books: Books, model: Model | None = None) -> AgentDefinition[Books, str]:
    """Build the analyst over the books, thinking with `model` or by `rules`."""
    published = Tool(publish, metadata=tool_options(needs_approval=True))
    return define_agent(
        "analyst",
        model=rules() if model is None else model,
        instructions="Answer questions about the shop's books. Compose what you need into one script.",
        tools=[code_tool([customers_in, orders_of, add_up, published])],
        deps_type=Books,
        deps=books,
    )


def rules() -> FunctionModel:
    """Return a model that needs no key: it writes one script, and then says what came of it."""
    return FunctionModel(_think, model_name="analyst-rules")


def _think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    del info
    for part in messages[-1].parts:
        if isinstance(part, ToolReturnPart):
            return ModelResponse([TextPart(part.model_response_str())])
    steps = [
        {"id": "who", "tool": "customers_in", "input": {"city": CITY}},
        {"id": "first", "tool": "orders_of", "input": {"customer_id": {"$from": "who", "$path": "0.id"}}},
        {"id": "second", "tool": "orders_of", "input": {"customer_id": {"$from": "who", "$path": "1.id"}}},
        {"id": "sum", "tool": "add_up", "input": {"amounts": [_cents("first"), _cents("second")]}},
        {"id": "out", "tool": "publish", "input": {"title": f"Sold to {CITY}", "cents": {"$from": "sum"}}},
    ]
    return ModelResponse([ToolCallPart("run_script", {"steps": steps}, tool_call_id=f"c{len(messages)}")])


def _cents(step: str) -> dict[str, str]:
    return {"$from": step, "$path": "cents"}
