"""The run that is driven here: its steps, and what only pydantic-ai's loop needs to know of them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta

import msgspec
from pydantic_ai.messages import ModelMessage, ModelRequest
from pydantic_ai.usage import RunUsage

from .approval import ApprovalTerms
from .artifact_text import NO_LIMITS, ResultLimits
from .budget import Budget
from .compaction import Compactor
from .control import NO_CONTROL, RunControl
from .digests import RequestDigests
from .knowledge import Quoted
from .live_turns import LiveTurns
from .options import ToolPolicy
from .steps import ONCE, RunSteps, driving
from .wire import Tail
from .writes import CheckState, ReadState, read_plain

__all__ = ["Drive", "RunStopped", "current_drive", "drive_scope"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RunStopped(Exception):
    """The run takes no further turn, for the reason `stopped`; `messages` is the conversation, `usage` what it used."""

    def __init__(self, stopped: str, messages: Sequence[ModelMessage], usage: RunUsage) -> None:
        self.stopped = stopped
        self.messages = messages
        self.usage = usage
        super().__init__(f"the run stopped: {stopped}")


class Drive:
    """What belongs to one driven run beside its steps: its tail, its digests, its clock on messages."""

    def __init__(
        self,
        steps: RunSteps,
        run_id: str,
        prompt: msgspec.Raw,
        turns_max: int | None,
        *,
        terms: ApprovalTerms,
        turn: ToolPolicy = ONCE,
        check_state: CheckState | None = None,
        read_state: ReadState = read_plain,
        live: LiveTurns | None = None,
        compactor: Compactor | None = None,
        limits: ResultLimits = NO_LIMITS,
        budget: Budget | None = None,
        control: RunControl = NO_CONTROL,
    ) -> None:
        self.steps = steps
        self.run_id = run_id
        self.tail = Tail(run_id, prompt)
        self.digests = RequestDigests()
        self.results: dict[str, msgspec.Raw] = {}
        self.turns_max = turns_max
        self.terms = terms
        self.turn = turn
        self.check_state = check_state
        self.read_state = read_state
        self.live = LiveTurns() if live is None else live
        self.compactor = compactor
        self.limits = limits
        self.budget = budget
        self.control = control
        self.instructions: str | None = None
        self.skills: str | None = None
        self.quoted: Quoted | None = None
        self._stamped: dict[int, ModelMessage] = {}

    def restamp(self, messages: Sequence[ModelMessage], run_id: str | None) -> None:
        """Give the run's own requests the time of the last recorded step, so that replay gives the same ones."""
        at = _EPOCH + timedelta(microseconds=self.steps.clock // 1000)
        for message in messages:
            if isinstance(message, ModelRequest) and message.run_id == run_id and id(message) not in self._stamped:
                message.timestamp = at
                for part in message.parts:
                    if hasattr(part, "timestamp"):
                        setattr(part, "timestamp", at)  # noqa: B010  (not every kind of part has one)
                self._stamped[id(message)] = message


_drive: ContextVar[Drive | None] = ContextVar("clew_drive", default=None)


@contextmanager
def drive_scope(drive: Drive) -> Generator[None]:
    """Make the agents that run inside record their steps in this drive."""
    token = _drive.set(drive)
    try:
        with driving(drive.steps):
            yield
    finally:
        _drive.reset(token)


def current_drive() -> Drive | None:
    """Return the drive around this code, or None outside of one."""
    return _drive.get()
