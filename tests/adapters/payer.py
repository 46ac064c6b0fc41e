"""An agent as a user's module declares it, whose calls wait for people, for time and for signals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic_ai import Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew.actors.agent import PendingApproval, define_agent, tool_options, tool_step
from clew.adapters.encryption import AesGcmSeal


def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call the tool that is asked for, such as `pay 5`, then say what came of it."""
    part = messages[-1].parts[0]
    if isinstance(part, ToolReturnPart):
        return ModelResponse([TextPart(part.model_response_str())])
    assert isinstance(part, UserPromptPart)
    tool, amount = str(part.content).split()
    return ModelResponse([ToolCallPart(tool, {"amount": int(amount)}, tool_call_id="c")])


def note() -> int:
    """Write down that a tool began; return how often one has."""
    path = Path(os.environ.get("CALLS", "started.txt"))
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{tool_step().name}\n")
    return len(path.read_text(encoding="utf-8").splitlines())


def pay(amount: int) -> str:
    """Pay, once somebody approves it."""
    note()
    return f"paid {amount}"


def hurry(amount: int) -> str:
    """Pay, if somebody approves it at once."""
    note()
    return f"paid {amount}"


def retry(amount: int) -> str:
    """Pay at the second attempt."""
    if note() == 1:
        raise ConnectionError("not now")
    return f"paid {amount}"


async def listen(amount: int) -> str:
    """Wait for a signal."""
    return str(await tool_step().wait_for_signal("paid"))


def make(**options: Any) -> Any:
    """The agent."""
    tools = [
        Tool(pay, metadata=tool_options(needs_approval=True)),
        Tool(hurry, metadata=tool_options(needs_approval=True, approval_timeout_s=0.2)),
        Tool(retry, metadata=tool_options(delay_s=1.2)),
        Tool(listen),
    ]
    return define_agent("payer", model=FunctionModel(think, model_name="rules"), tools=tools, **options)


agent = make()


def boss_alone(asked: PendingApproval, by: str | None) -> bool:
    """Who may decide."""
    return by == "boss"


strict = make(approvers=boss_alone)

sealed = make(seal=AesGcmSeal({"k": b"k" * 32}, current="k"))
