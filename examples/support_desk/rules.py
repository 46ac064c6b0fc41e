"""A model that works offline: written rules in the place of a language model.

No language model is used here, and no network, clock or chance: the same messages always get the same reply.
The rules read what a model would read, the mail and the tool results so far, and reply with tool calls.

The first wish in this table that a mail has is the one that counts, read from the subject and from what its
sender wrote, not from what they quote. The orders named are looked up, all in one turn; if none is, those of
the sender. Then, in one turn each: the tools in the table, `file_answer`, and the final output.

| Wish    | When the mail                   | Tool                   | Action                          |
|---------|---------------------------------|------------------------|---------------------------------|
| spam    | sells, no order                 | no look-up either      | ignored                         |
| absent  | is an automatic reply, no order | no look-up either      | ignored                         |
| angry   | is furious, or threatens        |                        | escalated                       |
| broken  | says that something broke       | refund, if sent        | refunded; escalated above limit |
| cancel  | wants to cancel                 | refund, if not sent    | as broken; answered if too late |
| address | is about the address            |                        | escalated; answered if too late |
| invoice | wants an invoice                |                        | answered                        |
| where   | misses a parcel                 | check_carrier, if sent | answered; escalated if lost     |
| thanks  | thanks, no order, no question   | no look-up either      | ignored                         |
| other   | is none of these                |                        | escalated                       |

Before that: no order found, or several and none named, is answered with a question. An order of someone else,
or a tool that failed, is escalated. So is a mail without a sender or with too many orders, without an answer.
"""

from collections.abc import AsyncIterator
from typing import Final

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from .case import Case, read_case
from .letters import ANGRY, OTHER, STRANGER, TROUBLE, Verdict, about, letter, not_found, which_of
from .shop import REFUND_CENTS_MAX, Order

_ORDERS_MAX: Final = 8

_IGNORED: Final = {
    "spam": "It is spam.",
    "absent": "It is an automatic reply.",
    "thanks": "It says thank you, and needs no answer.",
}


def offline_model() -> FunctionModel:
    """Give the model that follows the written rules, in one piece or as a stream."""
    return FunctionModel(_respond, stream_function=_stream, model_name="support-desk-rules")


async def _respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    turn = 1 + sum(isinstance(message, ModelResponse) for message in messages)
    calls = _next_calls(read_case(messages), output_tool=info.output_tools[0].name)
    for n, call in enumerate(calls, start=1):
        # Counted, where pydantic-ai would draw a random id.
        call.tool_call_id = f"call_{turn}_{n}"
    return ModelResponse(parts=calls)


async def _stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[DeltaToolCalls]:
    response = await _respond(messages, info)
    for n, call in enumerate(response.tool_calls):
        yield {n: DeltaToolCall(call.tool_name, call.args_as_json_str(), tool_call_id=call.tool_call_id)}


def _next_calls(case: Case, *, output_tool: str) -> list[ToolCallPart]:
    def final(action: str, order_ids: list[str], summary: str) -> list[ToolCallPart]:
        answer = {"action": action, "order_ids": order_ids, "summary": summary}
        return [ToolCallPart(output_tool, answer)]

    if case.wish in _IGNORED:
        return final("ignored", [], _IGNORED[case.wish])
    if not case.sender:
        return final("escalated", [], "There is no address to answer to.")
    if len(case.order_ids) > _ORDERS_MAX:
        return final("escalated", [], f"It names {len(case.order_ids)} orders.")
    if not case.called("find_order", "orders_of"):
        return _look_up(case)
    if (work := _work(case)) and not case.called(work[0].tool_name):
        return work
    verdicts = _verdicts(case)
    if not case.called("file_answer"):
        return [_answer(case, verdicts)]
    order_ids = list(case.order_ids) or [order.id for order in case.orders]
    return final(_action(verdicts), order_ids, " ".join(verdict.text for verdict in verdicts))


def _look_up(case: Case) -> list[ToolCallPart]:
    if case.order_ids:
        return [ToolCallPart("find_order", {"order_id": order_id}) for order_id in case.order_ids]
    return [ToolCallPart("orders_of", {"email": case.sender})]


def _work(case: Case) -> list[ToolCallPart]:
    if _before_orders(case):
        return []
    if case.wish == "where":
        return [ToolCallPart("check_carrier", {"order_id": order.id}) for order in case.orders if order.sent]
    return [
        ToolCallPart("refund", {"order_id": order.id, "cents": order.total_cents, "reason": case.wish})
        for order in case.orders
        if _refundable(case.wish, order)
    ]


def _refundable(wish: str, order: Order) -> bool:
    due = (wish == "broken" and order.sent) or (wish == "cancel" and order.status == "processing")
    return due and order.total_cents <= REFUND_CENTS_MAX


def _verdicts(case: Case) -> list[Verdict]:
    if verdict := _before_orders(case):
        return [verdict]
    found = {order.id for order in case.orders}
    missing = tuple(order_id for order_id in case.order_ids if order_id not in found)
    verdicts = [
        about(
            case.wish,
            order,
            shipment=case.shipments.get(order.id),
            refunded_cents=case.refunded_cents.get(order.id, 0),
        )
        for order in case.orders
    ]
    return [*verdicts, not_found(missing)] if missing else verdicts


def _before_orders(case: Case) -> Verdict | None:
    orders = case.orders
    if case.trouble:
        return TROUBLE
    if case.wish == "angry":
        return ANGRY
    if any(order.email.lower() != case.sender for order in orders):
        return STRANGER
    if case.wish == "other":
        return OTHER
    if not orders:
        return not_found(case.order_ids)
    if not case.order_ids and len(orders) > 1:
        return which_of(orders)
    return None


def _action(verdicts: list[Verdict]) -> str:
    # Of several orders, the one that needs a person counts most.
    return min((verdict.action for verdict in verdicts), key=["escalated", "refunded", "answered"].index)


def _answer(case: Case, verdicts: list[Verdict]) -> ToolCallPart:
    subject = case.subject if case.subject.lower().startswith("re:") else f"Re: {case.subject}"
    body = letter(case.name, verdicts)
    return ToolCallPart("file_answer", {"to": case.sender, "subject": subject, "body": body})
