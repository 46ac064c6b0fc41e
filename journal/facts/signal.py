"""What can happen to signals: named messages from outside that a run may wait for.

Names, versions and fields are stored for ever. Times are nanoseconds since the epoch, UTC.
"""

from __future__ import annotations

import msgspec

from ..event import event

__all__ = ["SIGNAL_EVENTS", "SignalAwaited", "SignalEvent", "SignalReceived", "SignalTaken", "SignalTimedOut"]


@event("signal.received", version=1)
class SignalReceived(msgspec.Struct, frozen=True):
    """A signal arrived, and stays until a wait takes it; `id` makes sending it twice safe."""

    id: str
    name: str
    payload: msgspec.Raw
    by: str | None
    at: int


@event("signal.awaited", version=1)
class SignalAwaited(msgspec.Struct, frozen=True):
    """A step waits for the next signal of a name, until `due` (null: as long as it takes)."""

    run: str
    step: str
    name: str
    due: int | None
    at: int


@event("signal.taken", version=1)
class SignalTaken(msgspec.Struct, frozen=True):
    """A wait got its signal, which nobody else gets."""

    run: str
    step: str
    id: str
    at: int


@event("signal.timed_out", version=1)
class SignalTimedOut(msgspec.Struct, frozen=True):
    """A wait ended without a signal."""

    run: str
    step: str
    at: int


SignalEvent = SignalReceived | SignalAwaited | SignalTaken | SignalTimedOut

SIGNAL_EVENTS = (SignalReceived, SignalAwaited, SignalTaken, SignalTimedOut)
