"""A model that is heard while it speaks: asked for a stream where somebody listens, and answering just the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from .live_turns import Speech

__all__ = ["aloud", "ask_aloud"]

_speech: ContextVar[Speech | None] = ContextVar("clew_speech", default=None)


async def ask_aloud(speech: Speech, ask: Callable[[], Awaitable[ModelResponse]]) -> ModelResponse:
    """Ask a model, letting those hear it who listen; `ask` asks the model that `aloud` returns inside."""
    token = _speech.set(speech if speech.heard else None)
    try:
        response = await ask()
    finally:
        _speech.reset(token)
    speech.finish(
        (number, part.part_kind, part.content)
        for number, part in enumerate(response.parts)
        if isinstance(part, TextPart | ThinkingPart)
    )
    return response


def aloud(model: Model) -> Model | None:
    """Return the model as one that is heard, if somebody listens to the turn that is being taken here."""
    speech = _speech.get()
    # A function model without a function to stream with says so only when it is asked.
    models: Sequence[Model] = getattr(model, "models", (model,))
    if speech is None or any(getattr(one, "stream_function", speech) is None for one in models):
        return None
    return _Aloud(model, speech)


class _Aloud(WrapperModel):
    """A model whose requests are streamed to those who listen; one that cannot stream is asked as ever."""

    def __init__(self, wrapped: Model, speech: Speech) -> None:
        super().__init__(wrapped)
        self._speech = speech

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return what the model answers, as its stream says in the end."""
        begun = False
        try:
            async with self.wrapped.request_stream(messages, model_settings, model_request_parameters) as stream:
                begun = True
                async for event in stream:
                    self._hear(event)
            # Closing the stream may fill something in.
            return stream.get()
        except NotImplementedError:
            if begun:
                raise
        return await self.wrapped.request(messages, model_settings, model_request_parameters)

    def _hear(self, event: ModelResponseStreamEvent) -> None:
        match event:
            case PartStartEvent(part=TextPart() | ThinkingPart() as part):
                self._speech.say(event.index, part.part_kind, part.content)
            case PartDeltaEvent(delta=TextPartDelta() as delta):
                self._speech.say(event.index, "text", delta.content_delta)
            case PartDeltaEvent(delta=ThinkingPartDelta() as delta):
                self._speech.say(event.index, "thinking", delta.content_delta or "")
            case _:
                pass
