"""The support desk of the demo: the example's agent, with every call of its model and its tools noted as it begins."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from ...actors.agent import AgentDefinition, this_run, tool_step
from ...examples.support_desk import (
    Answer,
    FiledAnswer,
    Mail,
    Order,
    Refund,
    RefundRefused,
    Shipment,
    Shop,
    build_agent,
    default_mailbox,
    offline_model,
    open_shop,
    read_mailbox,
)

__all__ = ["Begin", "Desk", "open_desk", "read_mails"]

CARRIER_DELAY_S: Final = 0.2

Begin = Callable[[str], None]
"""Told of each call before it happens: the step's name, unique over all threads (`thread/KEY/RUN/STEP`)."""

Desk = AgentDefinition[Shop, Answer]


def open_desk(folder: Path, *, model: str | None, begin: Begin) -> Desk:
    """Return the desk over the shop in `folder`, which is made if needed; `begin` is told of each call."""
    path = folder / "shop.sqlite"
    open_shop(path)
    thinking = _NotedModel(offline_model() if model is None else model, begin)
    shop = _NotedShop(path, carrier_delay_s=CARRIER_DELAY_S, begin=lambda: begin(tool_step().idempotency_key))
    return AgentDefinition(agent=build_agent(thinking), deps=shop)


def read_mails(count: int) -> list[Mail]:
    """Return the first mails of the example's mailbox."""
    return read_mailbox(default_mailbox())[:count]


class _NotedModel(WrapperModel):
    """A model whose requests are noted as they begin."""

    def __init__(self, wrapped: Any, begin: Begin) -> None:  # noqa: ANN401  (a model, or the name of one)
        super().__init__(wrapped)
        self._begin = begin

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        self._note(messages)
        return await super().request(messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        self._note(messages)
        async with super().request_stream(messages, model_settings, model_request_parameters, run_context) as response:
            yield response

    def _note(self, messages: list[ModelMessage]) -> None:
        # Each mail is a thread of one run, so the turns are as many as the responses so far, and one.
        turn = 1 + sum(isinstance(message, ModelResponse) for message in messages)
        run = this_run()
        self._begin(f"thread/{run.thread}/{run.run}/llm:turn:{turn}")


@dataclass(frozen=True)
class _NotedShop(Shop):
    """The shop, through which every tool goes: each of them makes exactly one of these calls."""

    begin: Callable[[], None] = field(kw_only=True)

    def find_order(self, order_id: str) -> Order | None:
        self.begin()
        return super().find_order(order_id)

    def orders_of(self, email: str, *, orders_max: int = 20) -> list[Order]:
        self.begin()
        return super().orders_of(email, orders_max=orders_max)

    def find_shipment(self, order_id: str) -> Shipment | None:
        self.begin()
        return super().find_shipment(order_id)

    def refund(self, key: str, *, order_id: str, cents: int, reason: str) -> Refund | RefundRefused:
        self.begin()
        return super().refund(key, order_id=order_id, cents=cents, reason=reason)

    def file_answer(self, key: str, *, recipient: str, subject: str, body: str) -> FiledAnswer:
        self.begin()
        return super().file_answer(key, recipient=recipient, subject=subject, body=body)
