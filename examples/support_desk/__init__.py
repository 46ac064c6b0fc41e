"""A support desk: it reads customer mails, looks their orders up, and files one answer to each.

    shop = open_shop("shop.sqlite")
    agent = build_agent()
    for mail in read_mailbox(default_mailbox()):
        prompt = prompt_of(mail)

The agent is an ordinary pydantic-ai agent. Its tools change the outside world (a SQLite file), so it shows
what durability is for: a tool that runs again after a crash brings the same idempotency key, and counts once.
"""

from .agent import SLOW_TOOL, Answer, build_agent
from .mailbox import Mail, default_mailbox, prompt_of, read_mailbox
from .rules import offline_model
from .shop import FiledAnswer, Order, Refund, RefundRefused, Shipment, Shop, open_shop

__all__ = [
    "SLOW_TOOL",
    "Answer",
    "FiledAnswer",
    "Mail",
    "Order",
    "Refund",
    "RefundRefused",
    "Shipment",
    "Shop",
    "build_agent",
    "default_mailbox",
    "offline_model",
    "open_shop",
    "prompt_of",
    "read_mailbox",
]
