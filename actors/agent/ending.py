"""How the end of a run, or its being halted, gets into the journal."""

from __future__ import annotations

from ...journal.facts import RunFailed, RunFinished
from ..errors import ReplayDivergence
from ..ref import ActorRef
from ..thread import FailRun, FinishRun, HaltRun, ThreadCommand, ThreadState

__all__ = ["halt", "record_end"]

HALTED_LENGTH_MAX = 10_000
"""Characters that are kept of what was recorded, and of what was asked for in its place, when a run is halted."""


async def record_end(thread: ActorRef[ThreadCommand, ThreadState], end: RunFinished | RunFailed, at: int) -> None:
    """Record how a run ended."""
    await thread.ask(_command(end, at), command_id=f"{end.run}/end")


def halt(found: ReplayDivergence, at: int) -> HaltRun:
    """Return the command that halts a run where it does not do what is recorded."""
    expected, actual = found.expected[:HALTED_LENGTH_MAX], found.actual[:HALTED_LENGTH_MAX]
    return HaltRun(found.run, found.step, found.sequence, found.field, expected, actual, at)


def _command(end: RunFinished | RunFailed, at: int) -> FinishRun | FailRun:
    if isinstance(end, RunFailed):
        return FailRun(end.run, end.error, at)
    return FinishRun(end.run, end.stopped, end.output, end.usage, end.tail, at)
