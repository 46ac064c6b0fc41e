"""A cashier whose arguments are sealed, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from clew.actors.agent import (
    Thread,
)
from clew.adapters.encryption import AesGcmSeal
from clew.journal import Journal, MemoryJournal, NewEvent
from tests.actors.payments import Payments, awaiting, pay
from tests.actors.support import until

T = "thread/t"
ACCOUNT = "DE-4711"
OLD, NEW = b"o" * 32, b"n" * 32

Keys = dict[str, bytes]


def cashier(keys: Keys | None = None, *, current: str = "old", **options: Any) -> Payments:
    """A cashier that seals what it asks about."""
    return Payments(pay("c1", 5, ACCOUNT), seal=AesGcmSeal(keys or {"old": OLD}, current=current), **options)


def asked(payments: Payments) -> MemoryJournal:
    """A journal in which a payment waits for people."""
    journal = MemoryJournal()
    with payments.open(journal) as system:
        awaiting(payments, system)
    return journal


def stored(journal: Journal, *, before: str | None = None) -> bytes:
    """All that is recorded, up to the first event about this step."""
    found = b""
    for event in journal.read_all():
        if before is not None and f'"step":"{before}"'.encode() in event.canonical:
            return found
        found += event.canonical
    return found


def ended(thread: Thread[Any], run: str = "r") -> str:
    """Wait until a run has ended, and return how."""
    until(lambda: thread.status(run) in ("done", "failed", "cancelled"))
    return thread.status(run)


def settled(thread: Thread[Any]) -> list[tuple[str | None, str | None]]:
    return [(asked.decision, asked.outcome) for asked in thread.view().approvals]


def changed(journal: Journal, name: str, change: Callable[[dict[str, Any]], None]) -> MemoryJournal:
    """A journal in which somebody has changed the first event of this name."""
    copy, found = MemoryJournal(), False
    for event in journal.read_all():
        canonical = event.canonical
        if event.type.name == name and not found:
            record = msgspec.json.decode(canonical)
            change(record["data"])
            canonical, found = msgspec.json.encode(record), True
        copy.append(event.stream, [NewEvent(canonical)], expected=event.sequence - 1).wait()
    assert found
    return copy
