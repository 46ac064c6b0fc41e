"""Conversations made by hand, one command after the other, through the same decider as the real ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from clew.actors import Activation, EventSourcedActor
from clew.actors.thread import (
    AlarmFired,
    CancelRun,
    CompleteStep,
    FailRun,
    FailStep,
    FinishRun,
    HaltRun,
    ResumeRun,
    StartRun,
    ThreadCommand,
    ThreadState,
    thread_decider,
)
from clew.journal import MemoryJournal, RecordedEvent
from clew.journal.facts import THREAD_EVENTS, ErrorFact, ThreadEvent

THREAD = EventSourcedActor[ThreadState, ThreadCommand, ThreadEvent, ThreadState](
    category="thread",
    decider=thread_decider,
    events=THREAD_EVENTS,
    initial_for=lambda stream: ThreadState(stream=stream),
    alarm=AlarmFired,
    state_type=ThreadState,
)

BOOM = ErrorFact("Boom", "it broke")


def raw(value: object) -> msgspec.Raw:
    """Return a value as raw JSON."""
    return msgspec.Raw(msgspec.json.encode(value))


def start(
    run: str = "r1", *, owner: str | None = None, title: str | None = None, prompt: object = "hello", at: int = 1
) -> StartRun:
    return StartRun(run, "agent", raw(prompt), owner, title, at)


def complete(
    step: str = "llm:turn:1",
    *,
    run: str = "r1",
    result: object = "ok",
    tail: object = None,
    usage: object = None,
    state: object = None,
    at: int = 2,
) -> CompleteStep:
    recorded_state = None if state is None else raw(state)
    return CompleteStep(run, step, {}, raw(result), at, raw(tail), raw(usage), recorded_state)


def fail_step(
    step: str = "llm:turn:1", *, run: str = "r1", attempt: int = 1, final: bool = False, at: int = 2
) -> FailStep:
    return FailStep(run, step, {}, attempt, final, BOOM, at)


def finish(
    run: str = "r1", *, stopped: str = "final", output: object = "bye", usage: object = None, tail: object = None
) -> FinishRun:
    return FinishRun(run, stopped, raw(output), raw({} if usage is None else usage), raw(tail), 9)


def fail(run: str = "r1") -> FailRun:
    return FailRun(run, BOOM, 9)


def cancel(run: str = "r1", *, owner: str | None = None) -> CancelRun:
    return CancelRun(run, owner, "enough", 9)


def halt(run: str = "r1", *, step: str = "llm:turn:1") -> HaltRun:
    return HaltRun(run, step, 3, "result", "one", "two", 9)


def resume(run: str = "r1", *, owner: str | None = None) -> ResumeRun:
    return ResumeRun(run, owner, 10)


def given(*commands: ThreadCommand, stream: str = "thread/t") -> ThreadState:
    """Return the conversation after these commands, all of which must be taken."""
    state = ThreadState(stream=stream)
    for command in commands:
        state = evolved(state, decide(state, command))
    return state


def decide(state: ThreadState, command: ThreadCommand) -> Sequence[ThreadEvent]:
    return thread_decider.decide(state, command)


def evolved(state: ThreadState, events: Sequence[ThreadEvent]) -> ThreadState:
    for event in events:
        state = thread_decider.evolve(state, event)
    return state


class Story:
    """A conversation in a journal of its own, made by commands."""

    def __init__(self, *commands: ThreadCommand) -> None:
        self.journal = MemoryJournal(clock=lambda: 77)
        self._thread: Activation[Any, Any, Any, Any] = Activation(THREAD, "t", self.journal)
        self._count = 0
        self.tell(*commands)

    def tell(self, *commands: ThreadCommand) -> Story:
        """Let more happen; a refusal is raised."""
        for command in commands:
            self._count += 1
            handled = self._thread.handle(command, f"c{self._count}")
            if handled.error is not None:
                raise handled.error
        return self

    @property
    def events(self) -> list[RecordedEvent]:
        """What is recorded."""
        return list(self.journal.read("thread/t"))
