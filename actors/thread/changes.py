"""Small changes to a conversation, of which facts are made up."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from .state import RunState, RunStatus, ThreadState, Wait, wait_key

__all__ = [
    "APPROVALS_KEPT",
    "ended",
    "settle",
    "wake",
    "with_approval",
    "with_run",
    "with_step",
    "with_wait",
    "without",
    "without_requester",
]

APPROVALS_KEPT = 100
"""How many approvals of ended runs a thread remembers, to answer who decides a second time."""


def without(of: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the same without a key."""
    return {name: value for name, value in of.items() if name != key} if key in of else of


def with_run(thread: ThreadState, name: str, /, **changes: Any) -> ThreadState:  # noqa: ANN401  (fields of RunState)
    """Return the conversation with fields of a run changed."""
    return replace(thread, runs={**thread.runs, name: replace(thread.runs[name], **changes)})


def with_approval(thread: ThreadState, key: str, /, **changes: Any) -> ThreadState:  # noqa: ANN401  (of Approval)
    """Return the conversation with fields of an approval changed, if it is remembered."""
    if key not in thread.approvals:
        return thread
    return replace(thread, approvals={**thread.approvals, key: replace(thread.approvals[key], **changes)})


def with_step(thread: ThreadState, name: str, step: str, outcome: int) -> ThreadState:
    """Return the conversation after an attempt at a step, which is neither waited for nor in doubt any more."""
    run = thread.runs[name]
    waits = run.waits
    for key in (wait_key("retry", step), wait_key("doubt", step)):
        if key in waits and not waits[key].settled:
            waits = {**waits, key: replace(waits[key], settled=True)}
    steps, claimed = {**run.steps, step: outcome}, without(run.claimed, step)
    return with_run(thread, name, steps=steps, claimed=claimed, waits=waits, recoveries=0)


def with_wait(thread: ThreadState, name: str, wait: Wait) -> ThreadState:
    """Return the conversation in which a step waits."""
    return with_run(thread, name, waits={**thread.runs[name].waits, wait_key(wait.kind, wait.step): wait})


def settle(thread: ThreadState, name: str, kind: str, step: str) -> ThreadState:
    """Note that a step got what it waited for, so that its run goes on."""
    run, key = thread.runs[name], wait_key(kind, step)
    if key not in run.waits:
        return thread
    return wake(with_run(thread, name, waits={**run.waits, key: replace(run.waits[key], settled=True)}), name)


def wake(thread: ThreadState, name: str) -> ThreadState:
    """Have a suspended run go on, unless somebody paused it: then it does when it is resumed."""
    run = thread.runs[name]
    if run.status is not RunStatus.SUSPENDED or run.pausing:
        return thread
    return with_run(thread, name, status=RunStatus.RUNNING, waiting=())


def ended(thread: ThreadState, name: str, status: RunStatus) -> ThreadState:
    """Return the conversation after the end of a run."""
    # What the steps were is in the journal; an ended run needs them no more.
    run = thread.runs[name]
    thread = replace(
        without_requester(thread, name),
        runs={**thread.runs, name: RunState(agent=run.agent, status=status, started_at=run.started_at)},
        open_run=None,
        signal_waits=tuple(wait for wait in thread.signal_waits if wait.run != name),
        children={key: child for key, child in thread.children.items() if child.run != name},
    )
    return _forget_approvals(thread)


def _forget_approvals(thread: ThreadState) -> ThreadState:
    if len(thread.approvals) <= APPROVALS_KEPT:
        return thread
    over = [key for key, asked in thread.approvals.items() if asked.notified or not asked.notify]
    gone = set(over[: len(thread.approvals) - APPROVALS_KEPT])
    return replace(thread, approvals={key: asked for key, asked in thread.approvals.items() if key not in gone})


def without_requester(thread: ThreadState, run: str) -> ThreadState:
    """Return the conversation in which nobody waits to be told how a run ends."""
    return replace(thread, requesters=without(thread.requesters, run)) if thread.requesters else thread
