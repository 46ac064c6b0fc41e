"""Compaction: the older part of a conversation becomes one brief, and a model is sent that and what came since.

1. what a recorded brief stands for is found again in the conversation, whichever run made it;
2. where what came since is more messages than may be, the older ones are cut off (`compaction_cut`);
3. a model summarises the old brief and them, as text (`compaction_text`), in a recorded step (`compaction_brief`).

Only requests are changed. The journal, and what users read of a thread, hold every message as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
from pydantic import TypeAdapter
from pydantic_ai import RunContext
from pydantic_ai.direct import model_request
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.usage import RequestUsage, RunUsage

from .compaction_brief import BRIEF, COVERS, Brief, Made, brief_of
from .compaction_cut import PartDigests, cut_at, split_at
from .compaction_text import BRIEF_CHARS_MAX, INSTRUCTIONS, asked_text, brief_text, transcript
from .failures import describe
from .recorded import Asked, Produced
from .sealing import Plain
from .used import price
from .wire import dump_message, valid_for_provider

if TYPE_CHECKING:
    from .scope import Drive

__all__ = ["Compaction", "Compactor", "with_brief"]

log = logging.getLogger("clew")

_USAGE: TypeAdapter[RequestUsage] = TypeAdapter(RequestUsage)


@dataclass(frozen=True, kw_only=True)
class Compaction:
    """When and how the older part of a conversation is replaced by a brief in what a model is sent.

    - `max_messages`: above that many, all but the last `keep_recent` (half of them by default) become one brief. A
      call and its results are never torn apart, so one or two more may be kept; so is the user's last message.
    - `model` writes the brief: a model, or its name; by default the model that the agent was declared with.
    - `instructions` tell it how, in place of ours.

    Raises:
        ValueError: a number is out of range.
        TypeError: `model` is neither a model nor a name.
    """

    max_messages: int
    keep_recent: int | None = None
    model: Model | str | None = None
    instructions: str | None = None

    def __post_init__(self) -> None:
        """Check it where it is declared."""
        if self.max_messages < 2:  # noqa: PLR2004  (a brief and a message)
            raise ValueError(f"compaction: max_messages is at least 2, not {self.max_messages}")
        if not 1 <= self.kept < self.max_messages:
            raise ValueError(
                f"compaction: keep_recent is from 1 to {self.max_messages - 1} with max_messages={self.max_messages}, "
                f"not {self.keep_recent}"
            )
        if self.model is not None and not isinstance(self.model, Model | str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"compaction: model is a model or the name of one, not {type(self.model).__name__}")

    @property
    def kept(self) -> int:
        """How many messages are kept at least."""
        return -(-self.max_messages // 2) if self.keep_recent is None else self.keep_recent


class _Split(NamedTuple):
    """A conversation with the place behind what its brief stands for: 0 where there is none."""

    messages: list[ModelMessage]
    since: int
    brief: Brief | None

    @property
    def size(self) -> int:
        """How many messages a model would be sent as they are."""
        return len(self.messages) - self.since


class Compactor:
    """Shortens the requests of one driven run.

    `brief` is the last one that was recorded before it, and `prompts` are those of the thread's runs up to this one.
    """

    def __init__(
        self, compaction: Compaction, model: Model | str | None, brief: Brief | None, prompts: Sequence[msgspec.Raw]
    ) -> None:
        self._compaction = compaction
        self._model = compaction.model or model
        self._brief = brief
        self._digests = PartDigests()
        self._prompts: list[object] = [msgspec.json.decode(prompt) for prompt in prompts]
        self._not_before = 0

    async def shorten(
        self, drive: Drive, ctx: RunContext[Any], messages: Sequence[ModelMessage]
    ) -> Sequence[ModelMessage]:
        """Return what to send in place of `messages`; waits for a new brief where one is due.

        A brief that cannot be made is not the end of the run: the messages are sent as they are, and it is tried again
        when they have become more by a further half of `max_messages`, or in the next run.
        """
        options = self._compaction
        if self._brief is None and len(messages) <= options.max_messages:
            return messages
        if not isinstance(messages[-1], ModelRequest):
            # The provider goes on with a response that it broke off.
            return messages
        split = self._split(valid_for_provider(messages))
        if split.size > options.max_messages and split.size >= self._not_before:
            # A brief in the place of a single message would save nothing.
            cut = cut_at(split.messages, least=split.since or 1, keep=options.kept)
            if cut is not None:
                split = await self._renew(drive, ctx, split, cut)
        if split.brief is None:
            return messages
        older, recent = split.messages[: split.since], split.messages[split.since :]
        return with_brief(split.brief.text, older, recent, self._prompts)

    def _split(self, messages: list[ModelMessage]) -> _Split:
        brief = self._brief
        if brief is None or self._digests.of_first(messages, brief.parts) != brief.covers:
            # Somebody else trimmed the messages, so it is not known what the brief would stand for.
            return _Split(messages, 0, None)
        apart, since = split_at(messages, brief.parts)
        return _Split(apart, since, brief)

    async def _renew(self, drive: Drive, ctx: RunContext[Any], split: _Split, cut: int) -> _Split:
        """Return the conversation with a brief of all that is before the cut, or as it was."""
        older = split.messages[:cut]
        parts = sum(len(message.parts) for message in older)
        covers = self._digests.of_first(older, parts) or ""
        model = self._model or _unwrapped(cast("Model", ctx.model))
        record = transcript(
            split.messages[split.since : cut],
            earlier=None if split.brief is None else split.brief.text,
            withhold=not isinstance(drive.terms.seal, Plain),
        )

        async def body() -> Produced:
            asked = ModelRequest([UserPromptPart(asked_text(record))], instructions=self._instructions)
            response = await model_request(model, [asked])
            return Produced(msgspec.Raw(msgspec.json.encode(_made(response, parts, min(len(record), BRIEF_CHARS_MAX)))))

        name = drive.steps.names.step(ctx.run_id, f"{BRIEF}{ctx.run_step}")
        request = {COVERS: covers, "model": model if isinstance(model, str) else model.model_name}
        outcome = await drive.steps.turn(Asked(name, request, body, describe), drive.turn)
        brief, why = None, "" if outcome.error is None else f"{outcome.error.type}: {outcome.error.message}"
        if outcome.error is None:
            ctx.usage.incr(_used(outcome.result))
            brief, why = brief_of(outcome.result, covers), "what the model wrote was refused"
        if brief is None:
            if outcome.ran:
                log.warning("%s, run %s: no %s, so more is sent: %s", drive.steps.stream, drive.run_id, name, why)
            self._not_before = split.size + -(-self._compaction.max_messages // 2)
            return split
        self._brief = brief
        return _Split(split.messages, cut, brief)

    @property
    def _instructions(self) -> str:
        return self._compaction.instructions or INSTRUCTIONS


def with_brief(
    brief: str, older: Sequence[ModelMessage], recent: Sequence[ModelMessage], prompts: Collection[object]
) -> list[ModelMessage]:
    """Return a brief and the recent messages as a provider takes them; `prompts` is what the user has asked.

    System prompts are kept. Where the recent messages begin in the middle of an answer, what the user asked for stands
    in front of it, as every conversation has to begin with the user.
    """
    said = {part.content: part for message in older for part in _system(message)}
    head: list[ModelRequestPart] = [*said.values(), SystemPromptPart(brief_text(brief))]
    if not isinstance(recent[0], ModelRequest):
        head += _asked_last(older, prompts)
    return [ModelRequest(head), *recent]


def _system(message: ModelMessage) -> list[SystemPromptPart]:
    parts = message.parts if isinstance(message, ModelRequest) else ()
    return [part for part in parts if isinstance(part, SystemPromptPart) and part.scope == "conversation"]


def _asked_last(older: Sequence[ModelMessage], prompts: Collection[object]) -> list[UserPromptPart]:
    """Return what the user asked last.

    pydantic-ai joins a prompt with the results in front of it, where there was no answer in between, and puts what a
    tool shows beside its result there too; so among results, only what is known for a prompt is one.
    """
    for message in reversed(older):
        joined = any(isinstance(part, ToolReturnPart) for part in message.parts)
        asked = [
            part
            for part, dumped in zip(message.parts, dump_message(message)["parts"], strict=True)
            if isinstance(part, UserPromptPart) and (not joined or dumped["content"] in prompts)
        ]
        if asked:
            return asked
    return []


def _made(response: ModelResponse, parts: int, chars_max: int) -> Made:
    # Priced here, inside the step: a later price list changes nothing about what was recorded.
    price(response)
    used = cast("dict[str, Any]", _USAGE.dump_python(response.usage, mode="json"))
    held = msgspec.Raw(msgspec.json.encode({key: value for key, value in used.items() if value}))
    text = (response.text or "").strip()
    if not text:
        return Made(parts, refused="it is empty", usage=held)
    if len(text) > chars_max:
        return Made(parts, refused=f"it has {len(text)} characters, for {chars_max}", usage=held)
    return Made(parts, text, usage=held)


def _used(result: msgspec.Raw) -> RunUsage:
    """Return what a recorded step used, as the loop counts it."""
    used = RunUsage(requests=1)
    used.incr(_USAGE.validate_json(bytes(msgspec.json.decode(result, type=Made).usage)))
    return used


def _unwrapped(model: Model) -> Model:
    """Return the model of the run without what makes its turns steps: a brief is a step already."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    return model
