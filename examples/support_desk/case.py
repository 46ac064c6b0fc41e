"""What the offline rules read: a mail, what its sender wants, and what the tools have found out so far."""

import re
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart

from .shop import Order, Shipment

_WISHES: Final = {
    "spam": r"\bseo\b|casino|lottery|unsubscribe",
    "absent": r"automatic reply|out of office|abwesenheitsnotiz",
    "angry": r"unacceptable|outrag|disgrace|lawyer|chargeback|\bscam",
    "broken": r"broke|damage|crack|shatter|smashed|defekt|kaputt|cassée?\b|abîmée?\b|\brot[ao]s?\b",
    "cancel": r"cancel|storn|annul",
    "address": r"address|adresse|direcci",
    "invoice": r"invoice|receipt|rechnung|facture|factura",
    "where": r"\bwhere\b|when will|waiting|track|not arrived|\bwo (ist|bleibt)\b|\boù\b|\bdónde\b",
    "thanks": r"\bthank|\bdanke|\bmerci\b|\bgracias\b",
}
# No `\b` at the ends of a number: in Japanese or Chinese text there may be no space.
_ORDER_ID: Final = (
    r"(?:(?<![A-Za-z])FH[- ]?|#|\b(?:order|bestellung|commande|pedido) (?:no\.? ?|nr\.? ?|number )?)"
    r"([0-9]{4})(?![0-9])"
)
_QUOTE: Final = r"(?m)^(?:.*:\n)?(?:>.*(?:\n|$))+"


@dataclass(frozen=True, slots=True)
class RefundResult:
    """How much the tool gave back."""

    order_id: str
    refunded_cents: int


# Validated, as a result is a plain value when it comes from a journal.
_FOUND: Final[TypeAdapter[Order | str]] = TypeAdapter(Order | str)
_PLACED: Final = TypeAdapter(list[Order])
_SHIPMENT: Final[TypeAdapter[Shipment | str]] = TypeAdapter(Shipment | str)
_REFUND: Final = TypeAdapter(RefundResult)


@dataclass(frozen=True, slots=True)
class Case:
    """A mail, what its sender wants, and the tool results of this run."""

    sender: str
    name: str
    subject: str
    wish: str
    order_ids: tuple[str, ...]
    returns: tuple[ToolReturnPart, ...]

    def called(self, *tools: str) -> bool:
        """Whether one of the tools was called, with success or not."""
        return any(part.tool_name in tools for part in self.returns)

    @property
    def trouble(self) -> bool:
        """Whether a tool failed, or was not allowed to run."""
        return any(part.outcome != "success" for part in self.returns)

    @property
    def orders(self) -> list[Order]:
        """The orders that were found."""
        named = [_FOUND.validate_python(result) for result in self._results("find_order")]
        placed = [order for result in self._results("orders_of") for order in _PLACED.validate_python(result)]
        return [order for order in named if isinstance(order, Order)] + placed

    @property
    def shipments(self) -> dict[str, Shipment]:
        """What the carrier said, by order number."""
        said = [_SHIPMENT.validate_python(result) for result in self._results("check_carrier")]
        return {shipment.order_id: shipment for shipment in said if isinstance(shipment, Shipment)}

    @property
    def refunded_cents(self) -> dict[str, int]:
        """What was given back, by order number."""
        given = [_REFUND.validate_python(result) for result in self._results("refund")]
        return {refund.order_id: refund.refunded_cents for refund in given}

    def _results(self, tool: str) -> list[object]:
        return [part.content for part in self.returns if part.tool_name == tool and part.outcome == "success"]


def read_case(messages: list[ModelMessage]) -> Case:
    """Read the last mail in the messages, and the tool results after it."""
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    parts = [part for request in requests for part in request.parts]
    start = max(n for n, part in enumerate(parts) if isinstance(part, UserPromptPart))
    head, _, text = _prompt(parts[start]).partition("\n\n")
    headers = dict(line.split(": ", 1) for line in head.split("\n") if ": " in line)
    sender = re.fullmatch(r"(.*?) ?<([^<>]+@[^<>]+)>", headers.get("From", ""))
    subject = headers.get("Subject", "")
    own = f"{subject}\n{re.sub(_QUOTE, '', text)}"
    order_ids = _order_ids(own) or _order_ids(text)
    return Case(
        sender=sender[2] if sender else "",
        name=sender[1] if sender else "",
        subject=subject,
        wish=_wish(own, order_ids),
        order_ids=order_ids,
        returns=tuple(part for part in parts[start:] if isinstance(part, ToolReturnPart)),
    )


def _prompt(part: object) -> str:
    if not isinstance(part, UserPromptPart):
        return ""
    content = [part.content] if isinstance(part.content, str) else part.content
    return "\n".join(text for text in content if isinstance(text, str))


def _order_ids(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"FH-{number}" for number in re.findall(_ORDER_ID, text, re.IGNORECASE)))


def _wish(text: str, order_ids: tuple[str, ...]) -> str:
    wishes = [wish for wish, words in _WISHES.items() if re.search(words, text, re.IGNORECASE)]
    if order_ids or "?" in text:
        wishes = [wish for wish in wishes if wish not in {"spam", "absent", "thanks"}]
    return wishes[0] if wishes else "other"
