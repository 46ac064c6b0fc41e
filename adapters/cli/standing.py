"""How a run stands that has no answer yet, or never will, in words."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from urllib.parse import quote, unquote

from ...projections import RunView, ThreadView, WaitView
from .render import counted, time_of

__all__ = ["approval_id", "how_to_decide", "standing", "stream_of", "waiting_for"]


def standing(run: RunView) -> str:
    """Return where a run is, in one sentence."""
    if run.status == "queued" and run.queued_at is not None and run.queued_until is not None:
        since, until = time_of(run.queued_at), time_of(run.queued_until)
        return f"run {run.run} is queued since {since}, at the longest until {until}"
    if run.started_at is None:
        return f"run {run.run} is {run.status} before it was begun{_why(run.error)}"
    status = run.status.replace("_", " ")
    return f"run {run.run} is {status} after {counted(run.steps, 'step')}{_why(run.error or run.pausing)}"


def waiting_for(run: RunView) -> Iterator[str]:
    """Yield what an open run waits for, and until when."""
    for step, wait in run.waits.items():
        yield f"{step} {_what(wait)}{_until(wait)}"
    if run.deadline is not None and run.ended_at is None:
        yield f"it must end by {time_of(run.deadline)}"
    if run.recoveries and run.ended_at is None:
        yield f"its process ended {counted(run.recoveries, 'time')} since its last step"


def how_to_decide(view: ThreadView, run: RunView, journal: str) -> Iterator[str]:
    """Yield the command for each decision that a run waits for."""
    for asked in view.pending:
        if asked.run == run.run:
            yield f"clew approve {shlex.join([journal, approval_id(view.stream, asked.id)])}  (or clew reject)"


def approval_id(stream: str, name: str) -> str:
    """Return the name of an approval among those of all threads, from the one within its own."""
    return f"thread/{quote(stream.partition('/')[2], safe='')}/{name}"


def stream_of(approval: str) -> str | None:
    """Return the thread that an approval is in, from its name among those of all; None for what names none."""
    category, _, rest = approval.partition("/")
    key, slash, _ = rest.partition("/")
    return f"thread/{unquote(key)}" if category == "thread" and key and slash else None


def _what(wait: WaitView) -> str:
    match wait.kind:
        case "approval":
            return f"waits for a decision about {wait.about}"
        case "signal":
            return f"waits for the signal {wait.about}"
        case "child":
            return f"waits for {wait.about}"
        case "doubt":
            return "may have taken effect or not: somebody has to settle it"
        case _:
            return "failed and is tried again"


def _until(wait: WaitView) -> str:
    if wait.due is None:
        return ""
    return f" at {time_of(wait.due)}" if wait.kind == "retry" else f", until {time_of(wait.due)}"


def _why(reason: str | None) -> str:
    return f": {reason}" if reason else ""
