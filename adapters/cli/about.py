"""What a recorded event of a conversation is about, in a few words on one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from ...journal import RecordedEvent, category_of
from ...journal.facts import (
    ApprovalRequested,
    ApprovalResolved,
    ApprovalSettled,
    ChildEnded,
    ChildStarted,
    MessageDelivered,
    MessageSent,
    RunCancelled,
    RunDeadlineSet,
    RunParked,
    RunPaused,
    RunQueued,
    RunRequested,
    RunSuspended,
    SignalAwaited,
    SignalReceived,
    SignalTaken,
    StepDelayed,
    StepFailed,
    StepSettled,
    StepStarted,
)
from .facts import CATALOG, call_text, error_text
from .render import shorten, time_of

__all__ = ["about"]

_LENGTH_MAX: Final = 120
"""Of arguments, so much is shown; they may be of any size."""


class _Named(msgspec.Struct):
    """What most events of a conversation say about themselves."""

    run: str = ""
    step: str = ""


def about(event: RecordedEvent) -> str:
    """Return the step or run that an event is about, and what else matters of it; nothing for a stranger's event."""
    # In another category an event of the same name is somebody else's.
    ours = category_of(event.stream) == "thread" and CATALOG.knows(event)
    fact = CATALOG.decode(event) if ours else None
    words = _WORDS.get(type(fact))
    if words is not None:
        return words(fact)
    try:
        named = msgspec.json.decode(event.data, type=_Named)
    except msgspec.MsgspecError:
        return ""
    return named.step or named.run


def _queued(fact: RunQueued) -> str:
    return f"{fact.run}, at the longest until {time_of(fact.expires_at)}"


def _requested(fact: RunRequested) -> str:
    return f"{fact.run} by {fact.parent}, run {fact.parent_run}, {fact.parent_step}"


def _deadline(fact: RunDeadlineSet) -> str:
    return f"{fact.run} must end by {time_of(fact.due)}"


def _suspended(fact: RunSuspended) -> str:
    return f"{fact.run} waits for {', '.join(fact.waiting)}"


def _stopped(fact: RunPaused | RunCancelled) -> str:
    return f"{fact.run}{_by(fact.by)}{_why(fact.reason)}"


def _parked(fact: RunParked) -> str:
    return f"{fact.run}{_why(fact.reason)}"


def _step_failed(fact: StepFailed) -> str:
    return f"{fact.step} #{fact.attempt}: {error_text(fact.error)}"


def _step_started(fact: StepStarted) -> str:
    once = ", once at the most" if fact.claimed else ""
    due = f", until {time_of(fact.due)}" if fact.due is not None else ""
    return f"{fact.step} #{fact.attempt}{once}{due}"


def _delayed(fact: StepDelayed) -> str:
    return f"{fact.step} is tried again at {time_of(fact.until)}"


def _step_settled(fact: StepSettled) -> str:
    return f"{fact.step} as {fact.outcome}{_by(fact.by)}"


def _asked(fact: ApprovalRequested) -> str:
    call = shorten(call_text({"tool_name": fact.tool, "args": msgspec.json.decode(fact.arguments)}), _LENGTH_MAX)
    return f"{fact.step} for {call} until {time_of(fact.expires_at)}"


def _resolved(fact: ApprovalResolved) -> str:
    edited = "" if bytes(fact.arguments) == b"null" else f" as {shorten(bytes(fact.arguments).decode(), _LENGTH_MAX)}"
    return f"{fact.step} {fact.decision}{edited}{_by(fact.by)}{_why(fact.reason)}"


def _settled(fact: ApprovalSettled) -> str:
    return f"{fact.step} {fact.outcome}"


def _received(fact: SignalReceived) -> str:
    return f"{fact.name}{_by(fact.by)}"


def _awaited(fact: SignalAwaited) -> str:
    due = f" until {time_of(fact.due)}" if fact.due is not None else ""
    return f"{fact.step} for {fact.name}{due}"


def _taken(fact: SignalTaken) -> str:
    return f"{fact.step} got {fact.id}"


def _child_started(fact: ChildStarted) -> str:
    return f"{fact.step} waits for {fact.thread}, run {fact.child_run}, until {time_of(fact.due)}"


def _child_ended(fact: ChildEnded) -> str:
    return f"{fact.step} {fact.status}{f': {error_text(fact.error)}' if fact.error else ''}"


def _sent(fact: MessageSent) -> str:
    return f"{fact.command} to {fact.to}"


def _delivered(fact: MessageDelivered) -> str:
    return f"{fact.id}{f' refused: {error_text(fact.refused)}' if fact.refused else ''}"


def _by(by: str | None) -> str:
    return f" by {by}" if by is not None else ""


def _why(reason: str) -> str:
    return f": {reason}" if reason else ""


_WORDS: Final[dict[type[Any], Callable[[Any], str]]] = {
    RunQueued: _queued,
    RunRequested: _requested,
    RunDeadlineSet: _deadline,
    RunSuspended: _suspended,
    RunPaused: _stopped,
    RunCancelled: _stopped,
    RunParked: _parked,
    StepFailed: _step_failed,
    StepStarted: _step_started,
    StepDelayed: _delayed,
    StepSettled: _step_settled,
    ApprovalRequested: _asked,
    ApprovalResolved: _resolved,
    ApprovalSettled: _settled,
    SignalReceived: _received,
    SignalAwaited: _awaited,
    SignalTaken: _taken,
    ChildStarted: _child_started,
    ChildEnded: _child_ended,
    MessageSent: _sent,
    MessageDelivered: _delivered,
}
"""Of all other events the step or the run says enough."""
