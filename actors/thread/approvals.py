"""What a conversation decides about questions for people: asked once, decided once, spent once."""

from __future__ import annotations

from collections.abc import Sequence

from ...journal.facts import (
    NOTHING,
    ApprovalEvent,
    ApprovalNotified,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalSettled,
)
from ..errors import AlreadyDecided, CommandRejected, InvalidDecision, UnknownApproval
from .commands import NoteNotified, ResolveApproval
from .progress import RequestApproval
from .state import Approval, ThreadState, approval_key

__all__ = [
    "AGENT",
    "DECISIONS",
    "close_approvals",
    "close_questions",
    "expire_approvals",
    "notified",
    "request",
    "resolve",
    "settle_call",
]

DECISIONS = ("approved", "rejected")

CALL_ENDED = "the call ended before anybody decided"

AGENT = "agent:"
"""How the principal of an agent begins; none of them decides anything."""


def request(thread: ThreadState, command: RequestApproval) -> Sequence[ApprovalEvent]:
    """Ask; the same question a second time is the same question."""
    if approval_key(command.run, command.step) in thread.approvals:
        return ()
    return (
        ApprovalRequested(
            run=command.run,
            step=command.step,
            tool=command.tool,
            call=command.call,
            arguments=command.arguments,
            fingerprint=command.fingerprint,
            principal=command.principal,
            policy=command.policy,
            notify=command.notify,
            expires_at=command.expires_at,
            at=command.at,
        ),
    )


def resolve(thread: ThreadState, command: ResolveApproval) -> Sequence[ApprovalEvent]:
    """Take a decision, which is final: the same one again changes nothing, and another one is refused.

    A grant is for the arguments that were asked about, or for edited ones with the fingerprint of those.
    """
    if command.decision not in DECISIONS:
        raise InvalidDecision(thread=thread.stream, decision=repr(command.decision))
    edited = bytes(command.arguments) != b"null"
    if edited and (command.decision != "approved" or command.fingerprint is None):
        raise CommandRejected(f"{thread.stream}: edited arguments come with an approval and their fingerprint, or not.")
    if command.by is not None and command.by.startswith(AGENT):
        raise CommandRejected(f"{thread.stream}: {command.by} is an agent, and agents decide no approvals.")
    asked = thread.approvals.get(approval_key(command.run, command.step))
    if asked is None:
        raise UnknownApproval(thread=thread.stream, approval=approval_key(command.run, command.step))
    if asked.decision is not None:
        same = not asked.edited if command.fingerprint is None else command.fingerprint == asked.fingerprint
        if same and asked.decision == command.decision:
            return ()
        raise AlreadyDecided(
            thread=thread.stream, approval=approval_key(asked.run, asked.step), decision=asked.decision, by=asked.by
        )
    if asked.expires_at <= command.at:
        # The alarm is late; whoever decides learns from the answer that it was too late.
        return _expired(asked, command.at)
    fingerprint = asked.fingerprint if command.fingerprint is None else command.fingerprint
    if not edited and fingerprint != asked.fingerprint:
        raise CommandRejected(
            f"{thread.stream}: approval {approval_key(asked.run, asked.step)} is not about what was looked at: "
            "the fingerprints differ. Look at it again; it still waits."
        )
    resolved = ApprovalResolved(
        command.run,
        command.step,
        command.decision,
        command.by,
        command.reason,
        command.arguments,
        fingerprint,
        command.at,
    )
    if command.decision == "approved":
        return (resolved,)
    return resolved, ApprovalSettled(command.run, command.step, "rejected", command.at)


def notified(thread: ThreadState, command: NoteNotified) -> Sequence[ApprovalEvent]:
    """Note that who was to be told has been told."""
    asked = thread.approvals.get(approval_key(command.run, command.step))
    if asked is None or asked.outcome is None or asked.notified or not asked.notify:
        return ()
    return (ApprovalNotified(command.run, command.step, command.at),)


def expire_approvals(thread: ThreadState, at: int) -> Sequence[ApprovalEvent]:
    """Return what becomes of the questions that nobody decided in time."""
    late = [asked for asked in thread.approvals.values() if asked.decision is None and asked.expires_at <= at]
    return [event for asked in late for event in _expired(asked, at)]


def close_approvals(thread: ThreadState, run: str, at: int, *, unreadable: bool = False) -> Sequence[ApprovalEvent]:
    """Return what becomes of the questions of a run that ends, `unreadable` where that is why: none stays open."""
    events: list[ApprovalEvent] = []
    for asked in thread.approvals.values():
        if asked.run == run and asked.outcome is None:
            granted_for_nothing = asked.decision == "approved" and not asked.spent and not asked.within
            outcome = "unreadable" if unreadable else "unknown" if granted_for_nothing else "cancelled"
            events += _settled(asked, outcome, "the run ended before anybody decided", at)
    return events


def close_questions(thread: ThreadState, run: str, call: str, but: str | None, at: int) -> Sequence[ApprovalEvent]:
    """Return what becomes of the questions that a call with a result asked in the middle of it, all `but` one."""
    return [
        event
        for asked in thread.approvals.values()
        if (asked.run, asked.call, asked.outcome) == (run, call, None) and asked.within and asked.step != but
        for event in _settled(asked, "approved", CALL_ENDED, at)
    ]


def settle_call(thread: ThreadState, run: str, step: str | None, outcome: str, at: int) -> Sequence[ApprovalEvent]:
    """Return the settlement of the approval that a call with a result had, if it had one."""
    if step is None:
        return ()
    asked = thread.approvals.get(approval_key(run, step))
    if asked is None or asked.outcome is not None:
        return ()
    return _settled(asked, outcome, CALL_ENDED, at)


def _settled(asked: Approval, outcome: str, reason: str, at: int) -> Sequence[ApprovalEvent]:
    """Settle; nobody decides any more what nobody decided so far, and it is no grant."""
    run, step = asked.run, asked.step
    if asked.decision is not None:
        return (ApprovalSettled(run, step, outcome, at),)
    closed = ApprovalResolved(run, step, "cancelled", None, reason, NOTHING, asked.fingerprint, at)
    return closed, ApprovalSettled(run, step, "cancelled" if outcome == "approved" else outcome, at)


def _expired(asked: Approval, at: int) -> Sequence[ApprovalEvent]:
    reason = "approval timed out"
    return (
        ApprovalResolved(asked.run, asked.step, "expired", None, reason, NOTHING, asked.fingerprint, at),
        ApprovalSettled(asked.run, asked.step, "expired", at),
    )
