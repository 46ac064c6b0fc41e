"""What tests of long results share: an agent whose tool returns what it is given, and turns that read on."""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolReturnPart
from pydantic_ai.models.function import AgentInfo

from clew.actors.agent import AgentDefinition, ResultCap, define_agent
from clew.actors.testing import AgentHarness, tool_call_turn
from clew.journal.facts import ArtifactStored
from tests.actors.harnesses import facts

LONG = "".join(f"line {number:05}\n" for number in range(2_000))
CAP = ResultCap(chars_max=400)


def reader(*values: Any, cap: ResultCap | None = CAP, **options: Any) -> AgentDefinition[Any, str]:
    """An agent whose tool `look` returns these values, one after another."""
    left = list(values)

    async def look() -> Any:
        return left.pop(0)

    return define_agent("reader", model="test", tools=[look], result_cap=cap, **options)


def read_on(**arguments: Any) -> Any:
    """A turn that reads on in the artifact that the last result names."""

    def turn(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        named = next(part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart))
        id_, offset = id_in(str(named))
        return tool_call_turn(f"read-{len(messages)}", "read_artifact", {"id": id_, "offset": offset, **arguments})

    return turn


def id_in(text: str) -> tuple[str, int]:
    """The id and the offset in the note behind a result that was cut."""
    call = text.rpartition("read_artifact(")[2]
    return call.partition('id="')[2].partition('"')[0], int(call.partition("offset=")[2].partition(")")[0] or 0)


def artifacts(harness: AgentHarness[Any, Any]) -> list[ArtifactStored]:
    return facts(harness, ArtifactStored)
