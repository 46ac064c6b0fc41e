"""The approvals of all threads, for somebody who decides them without owning the threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...projections import approvals_inbox, fold_rows, pending_approvals
from ..errors import UnknownApproval
from ..reply import Reply
from .decision import Approve, DecidedApproval, PendingApproval, Reject, parse_global_id
from .questions import Place, Questions

if TYPE_CHECKING:
    from ..system import ActorSystem

__all__ = ["Approvals"]


class Approvals:
    """What waits for a decision that `by` may make, over all threads of a system; cheap to make, safe to share.

    Each agent's `approvers` say who may decide its calls; without any, it is the owner of the thread. What `by` may
    not decide does not exist here. Approvals go by the ids that `pending` shows: `thread/KEY/RUN/approval:CALL`.
    """

    def __init__(self, system: ActorSystem, *, by: str | None) -> None:
        self._system = system
        self._questions = Questions(system)
        self._by = by

    def pending(self) -> list[PendingApproval]:
        """Return what waits for a decision, by thread and run.

        Looks at the whole journal, but for what the projection `approvals_inbox` has kept: give that to the system
        (`projections=[approvals_inbox]`) where there are many threads.
        """
        rows = fold_rows(self._system.journal, approvals_inbox)
        return self._questions.of_all(pending_approvals(rows), self._by)

    def approve(self, id: str, *, arguments: Mapping[str, Any] | None = None) -> Reply[DecidedApproval]:  # noqa: A002  (the field's word)
        """Let a call be made; see `Thread.approve`."""
        return self.decide(id, Approve(arguments))

    def reject(self, id: str, reason: str) -> Reply[DecidedApproval]:  # noqa: A002  (as above)
        """Refuse a call; see `Thread.reject`."""
        return self.decide(id, Reject(reason))

    def decide(self, id: str, decision: Approve | Reject) -> Reply[DecidedApproval]:  # noqa: A002  (as above)
        """Decide an approval; see `Thread.decide`."""
        found = parse_global_id(id)
        if found is None:
            raise UnknownApproval(thread="approvals", approval=id)
        return self._questions.decide(Place(id, *found), decision, self._by)
