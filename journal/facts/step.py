"""What can happen to a step before it has a result: it begins, waits to be tried again, is in doubt, is settled.

Names, versions and fields are stored for ever. Times are nanoseconds since the epoch, UTC.
"""

from __future__ import annotations

import msgspec

from ..event import event

__all__ = ["STEP_EVENTS", "StepDelayed", "StepDoubted", "StepEvent", "StepSettled", "StepStarted"]


@event("step.started", version=1)
class StepStarted(msgspec.Struct, frozen=True):
    """An attempt at a step is about to run; recorded only where it matters later that it did.

    - `claimed`: the step may run once at the most, so without a result it is in doubt from here on;
    - `approval`: the step that granted it, which is spent by this one and no other;
    - `due`: when the attempt must have ended.
    """

    run: str
    step: str
    attempt: int
    claimed: bool
    approval: str | None
    due: int | None
    at: int


@event("step.delayed", version=1)
class StepDelayed(msgspec.Struct, frozen=True):
    """A step that failed is tried again, and not before `until`."""

    run: str
    step: str
    attempt: int
    until: int
    at: int


@event("step.doubted", version=1)
class StepDoubted(msgspec.Struct, frozen=True):
    """A step that may run once at the most was begun, and what came of it is not known: somebody has to settle it."""

    run: str
    step: str
    at: int


@event("step.settled", version=1)
class StepSettled(msgspec.Struct, frozen=True):
    """Somebody said what came of a step in doubt: `result`, `retry` or `fail`."""

    run: str
    step: str
    outcome: str
    by: str | None
    at: int


StepEvent = StepStarted | StepDelayed | StepDoubted | StepSettled

STEP_EVENTS = (StepStarted, StepDelayed, StepDoubted, StepSettled)
