"""What can happen to a question that a person decides.

Names, versions and fields are stored for ever. Times are nanoseconds since the epoch, UTC.
"""

from __future__ import annotations

import msgspec

from ..event import event

__all__ = [
    "APPROVAL_EVENTS",
    "ApprovalEvent",
    "ApprovalNotified",
    "ApprovalRequested",
    "ApprovalResolved",
    "ApprovalSettled",
]


@event("approval.requested", version=1)
class ApprovalRequested(msgspec.Struct, frozen=True):
    """A tool call waits for a decision; `step` is the step that waits, and names the approval within its run.

    `arguments` are what the tool would be called with, sealed where the agent has a key. `fingerprint` stands for tool,
    arguments, principal (who would act) and policy version together: the grant is good for exactly that.
    With `notify`, somebody is to be told of the settlement.
    """

    run: str
    step: str
    tool: str
    call: str
    arguments: msgspec.Raw
    fingerprint: str
    principal: str
    policy: str
    notify: bool
    expires_at: int
    at: int


@event("approval.resolved", version=1)
class ApprovalResolved(msgspec.Struct, frozen=True):
    """The decision, which is final: `approved`, `rejected`, `expired` or `cancelled`.

    `arguments` are null unless they were edited; `fingerprint` is that of what was approved.
    """

    run: str
    step: str
    decision: str
    by: str | None
    reason: str
    arguments: msgspec.Raw
    fingerprint: str
    at: int


@event("approval.settled", version=1)
class ApprovalSettled(msgspec.Struct, frozen=True):
    """What became of it in the end.

    `approved` (its call has its result), `rejected`, `expired`, `cancelled`,
    `unknown` (there is no such tool any more) or `unreadable` (the arguments cannot be unsealed).
    """

    run: str
    step: str
    outcome: str
    at: int


@event("approval.notified", version=1)
class ApprovalNotified(msgspec.Struct, frozen=True):
    """Who was to be told of the settlement has been told."""

    run: str
    step: str
    at: int


ApprovalEvent = ApprovalRequested | ApprovalResolved | ApprovalSettled | ApprovalNotified

APPROVAL_EVENTS = (ApprovalRequested, ApprovalResolved, ApprovalSettled, ApprovalNotified)
