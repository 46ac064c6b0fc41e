"""What can happen to a run besides its steps: waiting its turn, waiting for something, being found again.

Names, versions and fields are stored for ever. Times are nanoseconds since the epoch, UTC.
"""

from __future__ import annotations

import msgspec

from ..event import event

__all__ = [
    "RUN_EVENTS",
    "RunDeadlineSet",
    "RunEvent",
    "RunParked",
    "RunPaused",
    "RunQueued",
    "RunRecovered",
    "RunRequested",
    "RunSuspended",
    "RunWoken",
]


@event("run.queued", version=1)
class RunQueued(msgspec.Struct, frozen=True):
    """A run waits until the thread is free, at the longest until `expires_at`; it may take `timeout` ns then."""

    run: str
    agent: str
    prompt: msgspec.Raw
    expires_at: int
    timeout: int | None
    at: int


@event("run.requested", version=1)
class RunRequested(msgspec.Struct, frozen=True):
    """A run was asked for by a step of a run of another thread, which is told how it ends."""

    run: str
    parent: str
    parent_run: str
    parent_step: str
    at: int


@event("run.deadline_set", version=1)
class RunDeadlineSet(msgspec.Struct, frozen=True):
    """A run must have ended by `due`, wherever it is then."""

    run: str
    due: int
    at: int


@event("run.suspended", version=1)
class RunSuspended(msgspec.Struct, frozen=True):
    """Nothing of a run can go on before one of these steps gets what it waits for; nothing of it is in memory."""

    run: str
    waiting: list[str]
    at: int


@event("run.woken", version=1)
class RunWoken(msgspec.Struct, frozen=True):
    """A suspended run goes on because it is time to."""

    run: str
    at: int


@event("run.paused", version=1)
class RunPaused(msgspec.Struct, frozen=True):
    """Somebody asked a run to stop before its next step, until it is resumed."""

    run: str
    by: str | None
    reason: str
    at: int


@event("run.recovered", version=1)
class RunRecovered(msgspec.Struct, frozen=True):
    """A run was found open after a crash of its process, and goes on."""

    run: str
    at: int


@event("run.parked", version=1)
class RunParked(msgspec.Struct, frozen=True):
    """A run was found open after a crash again and again, and is left alone until somebody resumes it."""

    run: str
    recoveries: int
    reason: str
    at: int


RunEvent = RunQueued | RunRequested | RunDeadlineSet | RunSuspended | RunWoken | RunPaused | RunRecovered | RunParked

RUN_EVENTS = (
    RunQueued,
    RunRequested,
    RunDeadlineSet,
    RunSuspended,
    RunWoken,
    RunPaused,
    RunRecovered,
    RunParked,
)
