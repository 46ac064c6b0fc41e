"""Delivering what one actor sends to another: at least once, applied once, in order for each receiver.

Any kind of actor can send. It keeps an `Outbox` in its state, has `MessageSent` and `MessageDelivered` among its events
and `Acknowledge` among its commands, and hands all of them to `clew.actors.outbox`:

```python
def decide(purse: Purse, command: Pay | Acknowledge):
    if isinstance(command, Acknowledge):
        return acknowledge(purse.outbox, command)
    return Withdrawn(command.cents), *sent(f"pay:{command.id}", [message_of(command.to, "deposit", ...)], command.at)

def evolve(purse: Purse, event: Withdrawn | MessageSent | MessageDelivered):
    if isinstance(event, MessageSent | MessageDelivered):
        return replace(purse, outbox=evolve_outbox(purse.outbox, event))
    ...

def effects(purse: Purse):
    return deliveries(purse.outbox)
```

The receiver's kind names the commands that it takes: `EventSourcedActor(commands={"deposit": Deposit}, ...)`. The host
does the rest, for every kind:

1. the receiver is asked, under the id `SENDER#MESSAGE`, which it remembers as long as its stream lasts;
2. what it took or refused is acknowledged to the sender, and the next message to it is on its way.

After a crash between the two the receiver is asked again. If it recorded something it answers as it did the first time.
If it did not (it refused, or had nothing to do) it has no memory of the id, and decides again by what is true then: as
if the message had come later. Nobody was told of the first decision, so no harm is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from itertools import count
from typing import Any, Final, Protocol

from ..journal import InvalidName, NotRepresentable, PayloadTooLarge, StreamDeleted
from ..journal.facts import ErrorFact
from ..journal.journal import CAUSE_BYTES_MAX
from .clock import Clock
from .errors import ActivationFailed, CommandRejected, MailboxFull, SystemClosed, UnknownKind, UnknownThread
from .outbox import Acknowledge, Deliver, Outgoing

__all__ = ["TEXT_LENGTH_MAX", "DeliveryHost", "deliver", "pause_s"]

PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 30.0
"""How long a message waits until it is tried again: at first, and at the most; each time for twice as long."""

LONG_PAUSE_S: Final = 1.0
LONG_PAUSE_S_MAX: Final = 300.0
"""The same where somebody has to do something first: register the kind, mend the receiver."""

DOUBLINGS_MAX: Final = 20

TEXT_LENGTH_MAX: Final = 10_000
"""Characters that are kept of why a message was refused."""

# The same message would meet the same answer again, and nothing was written.
_REFUSALS = (CommandRejected, UnknownThread, InvalidName, NotRepresentable, PayloadTooLarge, StreamDeleted)
_FAULTS = (UnknownKind, ActivationFailed)
_LOAD = (MailboxFull, SystemClosed)


class DeliveryHost(Protocol):
    """What a delivery needs from the system."""

    @property
    def clock(self) -> Clock:
        """What time it is."""
        ...

    def hand_over(self, message: Outgoing, command_id: str) -> Awaitable[object]:
        """Ask the receiver of a message."""
        ...

    def report(self, stream: str, what: str, error: BaseException) -> None:
        """Tell whoever watches over the system that something failed."""
        ...


class Sender(Protocol):
    """The actor whose message it is."""

    @property
    def stream(self) -> str:
        """Its stream."""
        ...

    def ask(self, command: Any, *, command_id: str | None = None) -> Awaitable[object]:  # noqa: ANN401  (its own)
        """Send it a command."""
        ...


async def deliver(work: Deliver, sender: Sender, host: DeliveryHost) -> None:
    """Hand a message over and acknowledge it to its sender; returns once both are durable.

    A refusal is acknowledged with its reason, and so is what can never be taken: a name or fields that the receiver's
    kind does not know, an address that is none, a receiver that was deleted. Whatever else stands in the way (a full
    mailbox or disk, a kind that is not registered, a receiver that cannot be woken, a fault in its code) is tried again
    for as long as it takes, later each time; it is reported once, unless it is only load.
    """
    message = work.message
    trouble = Trouble(sender.stream, f"message {work.id} to {message.to} is not delivered yet", host)
    asked_as = _command_id(f"{sender.stream}#{work.id}")
    refused: ErrorFact | None = None
    try:
        await trouble.outlast(lambda: host.hand_over(message, asked_as))
    except _REFUSALS as refusal:
        text = str(refusal).encode(errors="replace").decode()[:TEXT_LENGTH_MAX]
        refused = ErrorFact(type(refusal).__name__, text)
    acknowledged = Acknowledge(work.id, refused, host.clock())
    await trouble.outlast(lambda: sender.ask(acknowledged, command_id=_command_id(f"delivered:{work.id}")))


class Trouble:
    """What stands in the way of a message, each kind of it reported once."""

    def __init__(self, stream: str, what: str, host: DeliveryHost) -> None:
        self._stream = stream
        self._what = what
        self._host = host
        self._known: set[type[Exception]] = set()

    async def outlast(self, ask: Callable[[], Awaitable[object]]) -> None:
        """Ask again and again until there is an answer.

        Raises:
            CommandRejected, UnknownThread, JournalError: the answer is a refusal.
        """
        for attempt in count():
            try:
                await ask()
            except _REFUSALS:
                raise
            except Exception as error:  # noqa: BLE001  (a fault of the receiver's code must not lose the message)
                self._report(error)
                await asyncio.sleep(pause_s(error, attempt))
            else:
                return

    def _report(self, error: Exception) -> None:
        if type(error) not in self._known and not isinstance(error, _LOAD):
            self._known.add(type(error))
            self._host.report(self._stream, self._what, error)


def pause_s(error: Exception, attempt: int) -> float:
    """Return how long a message waits, in seconds, after something stood in its way; attempts count from 0."""
    first, longest = (LONG_PAUSE_S, LONG_PAUSE_S_MAX) if isinstance(error, _FAULTS) else (PAUSE_S, PAUSE_S_MAX)
    return min(longest, first * 2.0 ** min(attempt, DOUBLINGS_MAX))


def _command_id(text: str) -> str:
    """Return a command's id; a text that is too long for one is known by its digest."""
    data = text.encode()
    return text if len(data) <= CAUSE_BYTES_MAX else sha256(data).hexdigest()
