"""What time brings to a conversation: deadlines, expiries, retries, schedules."""

from __future__ import annotations

from collections.abc import Sequence

from ...journal.facts import ErrorFact, RunFailed, RunWoken, ThreadEvent
from .approvals import expire_approvals
from .children import time_out_children
from .draft import Draft
from .runs import end_run, expire
from .scheduling import fire_schedules
from .signals import time_out_signals
from .state import ThreadState, retries_due

__all__ = ["RUN_TIMED_OUT", "alarm"]

RUN_TIMED_OUT = "RunTimedOut"
"""The type of the error of a run that took longer than it may."""


def alarm(thread: ThreadState, at: int) -> Sequence[ThreadEvent]:
    """Return everything that is due; a second alarm for the same changes nothing."""
    draft = Draft(thread)
    for queued in thread.queue:
        if queued.expires_at <= at:
            draft.extend(expire(draft.thread, queued, at))
    draft.extend(expire_approvals(draft.thread, at))
    draft.extend(time_out_signals(draft.thread, at))
    draft.extend(time_out_children(draft.thread, at))
    _open_run(draft, at)
    if draft.thread.schedules.active:
        fire_schedules(draft, at)
    return draft.events


def _open_run(draft: Draft, at: int) -> None:
    name = draft.thread.open_run
    if name is None:
        return
    run = draft.thread.runs[name]
    if run.deadline is not None and run.deadline <= at:
        seconds = (run.deadline - run.started_at) / 1e9
        error = ErrorFact(RUN_TIMED_OUT, f"the run had not ended after {seconds:g} s, the most it may take")
        end_run(draft, RunFailed(name, error, at), at)
    elif any(due <= at for due in retries_due(run)):
        draft.add(RunWoken(name, at))
