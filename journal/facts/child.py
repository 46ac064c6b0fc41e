"""What can happen between a run and the runs it asks other threads for.

Names, versions and fields are stored for ever. Times are nanoseconds since the epoch, UTC.
"""

from __future__ import annotations

import msgspec

from ..event import event
from .error import ErrorFact

__all__ = ["CHILD_EVENTS", "ChildEnded", "ChildEvent", "ChildStarted"]


@event("child.started", version=1)
class ChildStarted(msgspec.Struct, frozen=True):
    """A step asked another thread for a run, and waits for its end until `due`; then the child is cancelled."""

    run: str
    step: str
    agent: str
    thread: str
    child_run: str
    due: int
    at: int


@event("child.ended", version=1)
class ChildEnded(msgspec.Struct, frozen=True):
    """How a child ended: `done`, `failed`, `cancelled`, `refused` or `timed_out`."""

    run: str
    step: str
    status: str
    output: msgspec.Raw
    error: ErrorFact | None
    usage: msgspec.Raw
    at: int


ChildEvent = ChildStarted | ChildEnded

CHILD_EVENTS = (ChildStarted, ChildEnded)
