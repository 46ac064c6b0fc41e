"""What a conversation asked others for: decisions of people, and runs of other threads."""

from __future__ import annotations

import msgspec

from ..journal.facts import NOTHING, ApprovalRequested, ApprovalResolved, ChildStarted

__all__ = ["ApprovalView", "ChildView"]


class ApprovalView(msgspec.Struct):
    """A tool call that waits, or waited, for a decision; `id` is what it is resolved by, `RUN/STEP`.

    `arguments` are as the model gave them, `edited` as they were approved instead (null: as they were). `fingerprint`
    is that of what was asked, and then of what was approved. `decision` is None while it is pending, then `approved`,
    `rejected`, `expired` or `cancelled`, which is final; `outcome` is what became of it in the end.
    """

    id: str
    run: str
    step: str
    tool: str
    call: str
    arguments: msgspec.Raw
    fingerprint: str
    principal: str
    asked_at: int
    expires_at: int
    decision: str | None = None
    by: str | None = None
    reason: str = ""
    edited: msgspec.Raw = NOTHING
    decided_at: int | None = None
    outcome: str | None = None

    @classmethod
    def of(cls, event: ApprovalRequested) -> ApprovalView:
        """Return the question as it was asked."""
        return cls(
            id=f"{event.run}/{event.step}",
            run=event.run,
            step=event.step,
            tool=event.tool,
            call=event.call,
            arguments=event.arguments,
            fingerprint=event.fingerprint,
            principal=event.principal,
            asked_at=event.at,
            expires_at=event.expires_at,
        )

    def resolve(self, event: ApprovalResolved) -> None:
        """Note the decision."""
        self.decision, self.by, self.reason = event.decision, event.by, event.reason
        self.fingerprint, self.decided_at = event.fingerprint, event.at
        self.edited = event.arguments


class ChildView(msgspec.Struct):
    """A run `child_run` of another thread that a step waits, or waited, for.

    `status` is running, done, failed, cancelled, refused, timed_out, or `abandoned`: the run that asked for it ended
    first, and asked it to stop.
    """

    thread: str
    child_run: str
    agent: str
    run: str
    step: str
    started_at: int
    status: str = "running"
    error: str | None = None

    @classmethod
    def of(cls, event: ChildStarted) -> ChildView:
        """Return the child as it was asked for."""
        return cls(event.thread, event.child_run, event.agent, event.run, event.step, event.at)
