"""A run of another agent that a tool waits for: asked for once, in a thread of its own."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from ...journal import encode_exact, stream_name
from ...journal.facts import ChildEnded
from ..thread import StartChild
from .steps import RunSteps

__all__ = ["ChildAnswer", "ask_a_child"]


class ChildAnswer(NamedTuple):
    """How a run that a tool asked for ended: its status, its output as JSON values, its error, what it used."""

    status: str
    output: Any
    error: str | None
    usage: Any


async def ask_a_child(steps: RunSteps, agent: str, prompt: str, timeout_s: float, initial_state: Any) -> ChildAnswer:
    """Ask an agent for a run from the step that this code runs in, and return how it ended.

    The thread's key follows from the step, so whoever asks again, after a crash or on another attempt, finds the same.
    """
    step = steps.names.wait("child")
    key = sha256(f"{steps.stream}/{steps.run}/{step}".encode()).hexdigest()[:24]
    thread, held = stream_name("thread", f"child-{key}"), msgspec.Raw(msgspec.json.encode(prompt))
    state = encode_exact(initial_state, what=f"the initial state of agent {agent!r}")

    def ask(at: int) -> StartChild:
        return StartChild(steps.run, step, agent, thread, "run", held, at + round(timeout_s * 1e9), at, state)

    ended = await steps.wait(step, ask)
    if not isinstance(ended, ChildEnded):
        raise TypeError(f"{step} got {type(ended).__name__} in place of the end of a child: a bug of Clew")
    error = None if ended.error is None else f"{ended.error.type}: {ended.error.message}"
    return ChildAnswer(ended.status, msgspec.json.decode(ended.output), error, msgspec.json.decode(ended.usage))
