"""What can be asked of the schedules of an actor. Times (`at`) arrive with the command, in nanoseconds, UTC."""

from __future__ import annotations

from typing import Literal

import msgspec

from .spec import Spec

__all__ = ["CancelSchedule", "Missed", "Overlap", "PauseSchedule", "ResumeSchedule", "SetSchedule"]

Overlap = Literal["skip", "queue", "replace"]
"""What becomes of a tick while the last one's run goes on: it is left out, waits for it, or takes its place.

The ticks that one wake catches up with do not overlap each other; a one-shot waits where others are left out.
"""

Missed = Literal["coalesce", "all", "none"]
"""What becomes of the ticks that were due while nobody was awake.

- `coalesce`: they are joined into the newest of them.
- `all`: the newest `missed_max` of them fire, in order; those before are skipped.
- `none`: they are skipped. A tick is missed when it is a minute late, or half of the way to the next one.
"""


class SetSchedule(msgspec.Struct, frozen=True):
    """Do `action` when `spec` says; in place of the schedule of this name, if there is one that differs."""

    name: str
    spec: Spec
    action: msgspec.Raw
    at: int
    overlap: Overlap = "skip"
    missed: Missed = "coalesce"
    missed_max: int = 10


class PauseSchedule(msgspec.Struct, frozen=True):
    """Let a schedule rest until it is resumed."""

    name: str
    at: int


class ResumeSchedule(msgspec.Struct, frozen=True):
    """Let a paused schedule go on, with its next tick from now."""

    name: str
    at: int


class CancelSchedule(msgspec.Struct, frozen=True):
    """End a schedule."""

    name: str
    reason: str
    at: int
