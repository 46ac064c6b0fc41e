"""What a conversation decides about the runs it asks other threads for."""

from __future__ import annotations

from collections.abc import Sequence

from ...journal.facts import NOTHING, ChildEnded, ChildStarted, ErrorFact, MessageSent, ThreadEvent
from ..outbox import Acknowledge, acknowledge, message_of, sent_one
from .commands import CancelRun, EndChild, Requester, StartRun
from .progress import StartChild
from .state import Child, RunState, ThreadState, is_within, wait_key

__all__ = ["close_children", "delivered", "end_child", "start_child", "stop_child", "time_out_children"]


def start_child(thread: ThreadState, run: RunState, command: StartChild) -> Sequence[ThreadEvent]:
    """Ask another thread for a run, acting as this thread's owner; the same child a second time is the same child."""
    if wait_key("child", command.step) in run.waits:
        return ()
    started = ChildStarted(
        command.run, command.step, command.agent, command.thread, command.child_run, command.due, command.at
    )
    asked = StartRun(
        command.child_run,
        command.agent,
        command.prompt,
        thread.owner,
        None,
        command.at,
        concurrent="queue",
        state=command.state,
        requester=Requester(thread.stream, command.run, command.step),
    )
    id_ = _start_id(command.run, command.step)
    return started, sent_one(id_, message_of(command.thread, "start_run", asked), command.at)


def end_child(thread: ThreadState, command: EndChild) -> Sequence[ThreadEvent]:
    """Note how a child ended, if anybody still waits for it."""
    if f"{command.run}/{command.step}" not in thread.children:
        return ()
    ended = ChildEnded(
        command.run, command.step, command.status, command.output, command.error, command.usage, command.at
    )
    return (ended,)


def delivered(thread: ThreadState, command: Acknowledge) -> Sequence[ThreadEvent]:
    """Note that a message was delivered; a child whose start was refused has ended."""
    events: list[ThreadEvent] = [*acknowledge(thread.outbox, command)]
    if events and command.refused is not None:
        events += [
            ChildEnded(child.run, child.step, "refused", NOTHING, command.refused, NOTHING, command.at)
            for child in thread.children.values()
            if command.id == _start_id(child.run, child.step)
        ]
    return events


def time_out_children(thread: ThreadState, at: int) -> Sequence[ThreadEvent]:
    """Return the ends of the children that took too long, which are cancelled."""
    events: list[ThreadEvent] = []
    for child in thread.children.values():
        due = thread.runs[child.run].waits[wait_key("child", child.step)].due
        if due is not None and due <= at:
            error = ErrorFact("ChildTimedOut", f"run {child.child_run} of {child.thread} took longer than it may")
            events.append(ChildEnded(child.run, child.step, "timed_out", NOTHING, error, NOTHING, at))
            events.append(stop_child(thread, child, "it took too long", at))
    return events


def close_children(thread: ThreadState, run: str, step: str, at: int) -> Sequence[ThreadEvent]:
    """Return the ends of the children that a step, or one within it, asked for and does not wait for any more."""
    events: list[ThreadEvent] = []
    for child in thread.children.values():
        if child.run == run and is_within(child.step, step):
            error = ErrorFact("RunCancelled", f"step {step} ended before run {child.child_run} of {child.thread}")
            events.append(ChildEnded(run, child.step, "cancelled", NOTHING, error, NOTHING, at))
            events.append(stop_child(thread, child, "the step that asked for it ended", at))
    return events


def stop_child(thread: ThreadState, child: Child, reason: str, at: int) -> MessageSent:
    """Return the message that cancels a child."""
    stop = message_of(child.thread, "cancel_run", CancelRun(child.child_run, thread.owner, reason, at))
    return sent_one(f"{child.run}/{child.step}/cancel", stop, at)


def _start_id(run: str, step: str) -> str:
    return f"{run}/{step}/start"
