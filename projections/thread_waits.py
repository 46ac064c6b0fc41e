"""What the steps of a conversation wait for, and what they got, as its view shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..journal.facts import (
    ApprovalRequested,
    ApprovalResolved,
    ApprovalSettled,
    ChildEnded,
    ChildStarted,
    SignalAwaited,
    SignalTaken,
    SignalTimedOut,
    StepDelayed,
    StepDoubted,
    StepSettled,
)
from .asked import ApprovalView, ChildView
from .conversation_view import ThreadView
from .runs import WaitView

__all__ = ["WAIT_FOLDS"]


def _delayed(view: ThreadView, event: StepDelayed) -> None:
    _wait(view, event.run, event.step, WaitView("retry", "", event.at, event.until))


def _doubted(view: ThreadView, event: StepDoubted) -> None:
    _wait(view, event.run, event.step, WaitView("doubt", "", event.at))


def _awaited(view: ThreadView, event: SignalAwaited) -> None:
    _wait(view, event.run, event.step, WaitView("signal", event.name, event.at, event.due))


def _wait(view: ThreadView, run: str, step: str, wait: WaitView) -> None:
    view.known_run(run).waits[step] = wait


def _settled(view: ThreadView, event: StepSettled | SignalTaken | SignalTimedOut) -> None:
    _settle(view, event.run, event.step)


def _settle(view: ThreadView, name: str, step: str) -> None:
    """Note that a step got what it waited for, so that its run goes on."""
    run = view.run(name)
    if run is not None and run.got(step):
        view.go_on(run)
    elif run is not None and run.suspended:
        view.status = run.status


def _approval_requested(view: ThreadView, event: ApprovalRequested) -> None:
    view.approvals.append(ApprovalView.of(event))
    _wait(view, event.run, event.step, WaitView("approval", event.tool, event.at, event.expires_at))


def _approval_resolved(view: ThreadView, event: ApprovalResolved) -> None:
    if (asked := view.approval(event.run, event.step)) is not None:
        asked.resolve(event)
    # Where its run ends, nothing goes on.
    if event.decision != "cancelled":
        _settle(view, event.run, event.step)


def _approval_settled(view: ThreadView, event: ApprovalSettled) -> None:
    if (asked := view.approval(event.run, event.step)) is not None:
        asked.outcome = event.outcome


def _child_started(view: ThreadView, event: ChildStarted) -> None:
    view.children.append(ChildView.of(event))
    _wait(view, event.run, event.step, WaitView("child", event.thread, event.at, event.due))


def _child_ended(view: ThreadView, event: ChildEnded) -> None:
    if (child := view.child(event.run, event.step)) is not None:
        child.status = event.status
        child.error = f"{event.error.type}: {event.error.message}" if event.error else None
    _settle(view, event.run, event.step)


WAIT_FOLDS: dict[type[msgspec.Struct], Callable[[ThreadView, Any], None]] = {
    StepDelayed: _delayed,
    StepDoubted: _doubted,
    StepSettled: _settled,
    SignalAwaited: _awaited,
    SignalTaken: _settled,
    SignalTimedOut: _settled,
    ApprovalRequested: _approval_requested,
    ApprovalResolved: _approval_resolved,
    ApprovalSettled: _approval_settled,
    ChildStarted: _child_started,
    ChildEnded: _child_ended,
}
"""What each of these facts changes in a view."""
