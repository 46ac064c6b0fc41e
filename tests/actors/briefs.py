"""Models that write briefs, for tests of compaction, and what is recorded of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from clew.journal import Journal
from clew.journal.facts import StepCompleted, StepFailed
from clew.projections import conversation

Written = str | Exception | Callable[[str], str]


class Writer:
    """Writes briefs, and keeps the records it got; by default brief number N says so."""

    def __init__(self, *written: Written) -> None:
        self.records: list[str] = []
        self.instructions: list[str | None] = []
        self._written = written

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self.respond, model_name="writer")

    async def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        # What a strict provider would refuse: parts of tools without their schemas.
        kinds = {part.part_kind for message in messages for part in message.parts}
        assert kinds == {"user-prompt"}
        assert not info.function_tools
        [request] = messages
        [part] = request.parts
        assert isinstance(part, UserPromptPart)
        self.instructions.append(info.instructions)
        self.records.append(str(part.content))
        number = len(self.records)
        written = self._written[number - 1] if number <= len(self._written) else f"brief {number}"
        if isinstance(written, Exception):
            raise written
        text = written if isinstance(written, str) else written(self.records[-1])
        return ModelResponse([TextPart(text)], usage=RequestUsage(input_tokens=100, output_tokens=10))


def brief_in(messages: Sequence[ModelMessage]) -> str | None:
    """The brief that a request begins with, without what is said around it."""
    first = messages[0]
    assert isinstance(first, ModelRequest)
    briefs = [p.content for p in first.parts if isinstance(p, SystemPromptPart) and p.content.startswith("Brief of")]
    assert len(briefs) <= 1
    return briefs[0].rpartition("\n\n")[2] if briefs else None


def steps_in(journal: Journal, stream: str = "thread/test") -> list[str]:
    """The steps of a thread, in order; one that failed with a mark behind it."""
    decoded: list[Any] = [conversation.catalog.decode(event) for event in journal.read(stream)]
    named = [event for event in decoded if isinstance(event, StepCompleted | StepFailed)]
    return [event.step if isinstance(event, StepCompleted) else f"{event.step}!" for event in named]
