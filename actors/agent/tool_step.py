"""How a tool reaches its thread: one accessor, whatever `deps` the agent has."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random
from typing import Any
from uuid import UUID

import msgspec

from ...journal import encode_exact
from .steps import RunSteps, current_steps

__all__ = ["RunNow", "ToolStep", "this_run", "tool_step"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RunNow:
    """The run that is being driven: who, where, and a clock and chance that are the same on replay.

    Use it in instructions, output functions, validators and hooks, which run again on replay, in place of the
    machine's clock and random numbers.
    """

    def __init__(self, steps: RunSteps, name: str) -> None:
        self._steps = steps
        self._name = name

    @property
    def thread(self) -> str:
        """The key of the thread."""
        return self._steps.stream.partition("/")[2]

    @property
    def run(self) -> str:
        """The id of the run within the thread."""
        return self._steps.run

    @property
    def owner(self) -> str | None:
        """Who owns the thread."""
        return self._steps.owner

    @property
    def now(self) -> datetime:
        """The time of the last recorded step, UTC; the run's start before the first."""
        return _EPOCH + timedelta(microseconds=self._steps.clock // 1000)

    def uuid(self, name: str) -> UUID:
        """Return the id called `name` of this step: always the same one, so another draw does not shift it."""
        return UUID(bytes=self._seed(name)[:16], version=4)

    def random(self, name: str) -> Random:
        """Return the random generator called `name` of this step, which always draws the same numbers."""
        return Random(self._seed(name))  # noqa: S311  (repeatable on purpose; not for secrets)

    def _seed(self, name: str) -> bytes:
        return sha256(f"{self._steps.stream}\0{self._steps.run}\0{self._name}\0{name}".encode()).digest()


class ToolStep(RunNow):
    """The step a tool is running in.

    A tool that changes something outside passes `idempotency_key` on: after a crash in the middle, the tool runs
    again with the same key.
    """

    def __init__(self, steps: RunSteps, name: str) -> None:
        super().__init__(steps, name)
        self._at = steps.turn_at
        self._written: msgspec.Raw | None = None

    @property
    def name(self) -> str:
        """The step's name within its run, `tool:NAME:CALL_ID`."""
        return self._name

    @property
    def idempotency_key(self) -> str:
        """The step's name, unique over all threads: the same for every attempt at this call, and for no other."""
        return f"{self._steps.stream}/{self._steps.run}/{self._name}"

    @property
    def now(self) -> datetime:
        """When the model asked for this call, UTC: the same for every attempt."""
        return _EPOCH + timedelta(microseconds=self._at // 1000)

    def get_state(self) -> Any:
        """Return the thread's synced state as JSON values; None before it was first set.

        What this step set is seen at once; what other steps set is seen once they are recorded.
        """
        raw = self._written if self._written is not None else self._steps.state
        return None if raw is None else msgspec.json.decode(raw)

    def set_state(self, value: Any) -> None:
        """Replace the thread's synced state; it becomes true together with this step's result, or not at all.

        Raises:
            NotRepresentable: the value is not made of JSON's own types, so it would come back different; names the
                path. Turn a model into a dict first, a tuple into a list.
        """
        self._written = encode_exact(value, what=f"the state set by {self._name}")

    @property
    def written(self) -> msgspec.Raw | None:
        """The state that this step set, or None."""
        return self._written


_current: ContextVar[ToolStep | None] = ContextVar("clew_tool_step", default=None)


def tool_step() -> ToolStep:
    """Return the step that the running tool is in; works in sync and async tools.

    Raises:
        RuntimeError: not called from a tool that a thread runs.
    """
    step = _current.get()
    if step is None:
        raise RuntimeError("tool_step() is for tools while a thread runs them; nothing runs one here")
    return step


def this_run() -> RunNow:
    """Return the run that is being driven here.

    Raises:
        RuntimeError: not called while a thread drives an agent.
    """
    steps = current_steps()
    if steps is None:
        raise RuntimeError("this_run() is for code that a thread drives; nothing drives one here")
    return RunNow(steps, "run")


def enter(step: ToolStep) -> None:
    """Make `step` the one that `tool_step` returns in this task."""
    _current.set(step)
