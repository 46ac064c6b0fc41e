"""What people decide about a tool call that waits for them, and what they see of it before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

__all__ = ["Approve", "DecidedApproval", "PendingApproval", "Reject", "global_id", "parse_global_id"]


@dataclass(frozen=True)
class Approve:
    """The call may be made; with `arguments`, it is made with these in place of the model's."""

    arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Reject:
    """The call is not made, and the model is told why."""

    reason: str


@dataclass(frozen=True)
class PendingApproval:
    """A tool call that waits for a decision until `expires_at`; times are nanoseconds since the epoch, UTC.

    `id` is what it is decided by: `RUN/approval:CALL` in its own thread, `thread/KEY/RUN/approval:CALL` elsewhere.
    `arguments` are what the tool would be called with; None where they cannot be unsealed here. `fingerprint` stands
    for what is approved: the tool, the arguments, who would act (`principal`) and the policy's version. `path` are the
    steps (`RUN/STEP`) through which the thread that was asked delegated to the one that waits; empty for its own.
    """

    id: str
    thread: str
    run: str
    agent: str
    tool: str
    arguments: Any
    fingerprint: str
    principal: str
    asked_at: int
    expires_at: int
    path: tuple[str, ...] = ()


@dataclass(frozen=True)
class DecidedApproval:
    """What was decided, by whom, and why: `approved` or `rejected`. It is final.

    `fingerprint` is that of what was approved. `outcome` is what had become of the call when this was asked; None
    while it is still to be made.
    """

    id: str
    thread: str
    run: str
    decision: str
    by: str | None
    reason: str
    fingerprint: str
    outcome: str | None


def global_id(stream: str, run: str, step: str) -> str:
    """Return the name of an approval among those of all threads; a slash in the thread's key is written `%2F`."""
    return f"thread/{quote(stream.partition('/')[2], safe='')}/{run}/{step}"


def parse_global_id(id_: str) -> tuple[str, str, str] | None:
    """Return the stream, the run and the step of an approval by its name; None for what names none."""
    category, _, rest = id_.partition("/")
    key, _, rest = rest.partition("/")
    run, _, step = rest.partition("/")
    if category != "thread" or not (key and run and step) or global_id(f"thread/{unquote(key)}", run, step) != id_:
        return None
    return f"thread/{unquote(key)}", run, step
