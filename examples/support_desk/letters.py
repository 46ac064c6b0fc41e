"""What the offline rules decide and write about each order, once the tools have found out."""

from dataclasses import dataclass
from typing import Final, Literal

from .shop import Order, Shipment


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided, and the sentences that tell the customer."""

    action: Literal["answered", "refunded", "escalated"]
    text: str


ANGRY: Final = Verdict("escalated", "We are sorry that we let you down. A colleague will call you today.")
STRANGER: Final = Verdict(
    "escalated", "The order you name was not placed with your mail address. A colleague will look into it."
)
TROUBLE: Final = Verdict("escalated", "Something went wrong at our end. A colleague will write to you.")
OTHER: Final = Verdict("escalated", "Thank you for your mail. A colleague will read it and write to you.")


def not_found(order_ids: tuple[str, ...]) -> Verdict:
    """Ask for the order number, as none or a wrong one was given."""
    missing = " and ".join(order_ids) or "placed with your mail address"
    return Verdict(
        "answered",
        f"We found no order {missing}. Please send us the number in your confirmation; it starts with FH-.",
    )


def which_of(orders: list[Order]) -> Verdict:
    """Ask which of several orders is meant."""
    listed = "\n".join(f"- {_name(order)}, placed on {order.placed_on}" for order in orders)
    return Verdict("answered", f"Which of your orders do you mean?\n{listed}")


def about(wish: str, order: Order, *, shipment: Shipment | None, refunded_cents: int) -> Verdict:
    """Decide on one order, given the carrier's word about it and what was refunded in this run."""
    match wish:
        case "broken" | "cancel" if refunded_cents:
            return Verdict("refunded", f"We have refunded {_euros(refunded_cents)} for {_name(order)}.")
        case "cancel" if order.status == "cancelled":
            return Verdict("answered", f"{_name(order)} is cancelled already.")
        case "cancel" if order.sent:
            return Verdict("answered", f"{_name(order)} has left us. Send it back unopened and we refund it.")
        case "address" if order.sent:
            return Verdict("answered", f"{_name(order)} has left us. Please ask the carrier to redirect it.")
        case "address" if order.status == "processing":
            return Verdict("escalated", f"A colleague will change the address of {_name(order)}.")
        case "invoice":
            paid = f"placed on {order.placed_on}, {_euros(order.total_cents)} paid"
            return Verdict("answered", f"Invoice: {_name(order)}, {paid}.")
        case "where":
            return _whereabouts(order, shipment)
        case _:
            return Verdict("escalated", f"A colleague will look into {_name(order)} and write to you.")


def letter(name: str, verdicts: list[Verdict]) -> str:
    """Write the body of the answer."""
    greeting = f"Hello {name}," if name else "Hello,"
    return "\n\n".join([greeting, *(verdict.text for verdict in verdicts), "Fernhill Lamps"])


def _whereabouts(order: Order, shipment: Shipment | None) -> Verdict:
    if order.status == "cancelled":
        return Verdict("answered", f"{_name(order)} was cancelled, so nothing is on its way.")
    if not order.sent:
        return Verdict("answered", f"{_name(order)} is being packed and has not left us yet.")
    if shipment is None:
        return Verdict("escalated", f"The carrier has not got {_name(order)}. A colleague will search.")
    parcel = f"{shipment.carrier}, parcel {shipment.parcel}"
    if shipment.status == "delivered":
        said = f"{parcel}, says that {_name(order)} was delivered on {shipment.due_on}"
        return Verdict("escalated", f"{said}. A colleague will search for it.")
    due = f"due on {shipment.due_on}"
    return Verdict("answered", f"{_name(order)} is {shipment.status} with {parcel}, {due}.")


def _name(order: Order) -> str:
    return f"{order.id} ({order.item})"


def _euros(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02} EUR"
