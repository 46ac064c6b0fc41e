"""How a tool reaches its thread: one accessor, whatever `deps` the agent has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from ...journal import encode_exact, stream_name
from ...journal.facts import SignalTaken
from ..errors import SignalTimedOut
from ..functions import Function
from ..outbox import Outgoing, message_of
from ..schedule import CancelSchedule, Overlap, Schedules, SetSchedule, Spec, set_schedule
from ..thread import AwaitSignal, SendSignal
from .approval import ApprovalTerms, Decision, ask_a_question
from .child import ChildAnswer, ask_a_child
from .message import memory_of, message_to
from .options import APPROVAL_S
from .steps import RunSteps, current_steps
from .writes import CheckState, ReadState, Writes, read_plain

if TYPE_CHECKING:
    from ..decider import EventSourcedActor

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

    async def wait_for_signal(self, name: str, *, timeout_s: float | None = None) -> Any:
        """Wait for the next signal of this name, and return its payload as JSON values.

        The wait is recorded: the run is let go of and nothing of it is in memory, for days if need be. When the signal
        is there the run goes on; a tool that waits runs again from its beginning and passes its recorded waits.
        Each signal is taken by one wait; one that came before counts.

        The run is let go of by a cancel, which `except Exception` does not catch, but a bare `except` does, or a
        `return` in a `finally`. Code that goes on after it has no answer: nothing of that is recorded, its step takes
        nothing more, and the system reports `PauseSwallowed`; what it does by itself cannot be held back.

        Raises:
            SignalTimedOut: none came within `timeout_s`.
        """
        steps = self._steps
        step = steps.names.wait(f"signal:{name}")

        def ask(at: int) -> AwaitSignal:
            due = None if timeout_s is None else at + round(timeout_s * 1e9)
            return AwaitSignal(steps.run, step, name, due, at)

        answer = await steps.wait(step, ask)
        if isinstance(answer, SignalTaken):
            return msgspec.json.decode(steps.waits.payloads[answer.id])
        raise SignalTimedOut(thread=steps.stream, run=steps.run, signal=name)

    def _seed(self, name: str) -> bytes:
        return sha256(f"{self._steps.stream}\0{self._steps.run}\0{self._name}\0{name}".encode()).digest()


class ToolStep(RunNow):
    """The step a tool is running in.

    A tool that changes something outside passes `idempotency_key` on: after a crash in the middle, the tool runs
    again with the same key. A tool that goes on after the cancel of its wait is ended by whatever it does here.
    """

    def __init__(
        self,
        steps: RunSteps,
        name: str,
        *,
        check_state: CheckState | None = None,
        read_state: ReadState = read_plain,
        terms: ApprovalTerms | None = None,
    ) -> None:
        super().__init__(steps, name)
        self._terms = terms
        self._at = steps.turn_at
        self.writes = Writes(f"the state set by {name}", check_state, read_state)

    @property
    def name(self) -> str:
        """The step's name within its run, `tool:NAME:CALL_ID`."""
        return self._name

    @property
    def idempotency_key(self) -> str:
        """The step's name, unique over all threads: the same for every attempt at this call, and for no other."""
        self._steps.check_here()
        return f"{self._steps.stream}/{self._steps.run}/{self._name}"

    @property
    def now(self) -> datetime:
        """When the model asked for this call, UTC: the same for every attempt."""
        return _EPOCH + timedelta(microseconds=self._at // 1000)

    def get_state(self) -> Any:
        """Return the thread's synced state as JSON values; None before it was first set.

        What this step set is seen at once; what other steps set is seen once they are recorded.
        """
        return self._changes.look(self._steps.state)

    def set_state(self, value: Any) -> None:
        """Replace the thread's synced state; it becomes true together with this step's result, or not at all.

        Raises:
            NotRepresentable: the value is not made of JSON's own types, so it would come back different; names the
                path. Turn a model into a dict first, a tuple into a list.
            InvalidState: the value does not fit the state's model; names the path.
        """
        self._changes.set_state(value)

    def update_state(self, change: Callable[[Any], Any]) -> None:
        """Change the thread's synced state by a function of what it is, together with this step's result.

        `change` gets the state (None before it was first set) and returns the new one. It is called when the step is
        recorded, so that tools which run beside each other lose none of each other's changes; and by `get_state`. So
        it computes, and touches nothing else.
        """
        self._changes.update_state(change)
        self._changes.apply(self._steps.state)

    def send(self, kind: EventSourcedActor[Any, Any, Any, Any], id: str, command: msgspec.Struct) -> None:  # noqa: A002  (the field's word)
        """Send a command to another actor, together with this step's result: delivered at least once, applied once.

        Commands to the same actor are delivered in order. A refusal does not come back here; it is recorded.

        Raises:
            TypeError: the kind does not say under which name others know this command (`EventSourcedActor.commands`).
        """
        self._changes.messages.append(message_to(kind, id, command))

    def remember(self, text: str) -> None:
        """Have the memory of the thread's owner remember a text, together with this step's result, once.

        It is the command `remember` to the actor `memory/OWNER`: with an `id`, the `text`, the `thread` and `run` that
        it comes from, and `at`, in nanoseconds since the epoch, UTC.

        Raises:
            NoMemory: the thread has no owner, or no actor of this system remembers.
            InvalidMessage: the command of that actor has other fields; says which.
        """
        if self._steps.kind_of is None:
            raise RuntimeError("remember() is for tools of an agent that a thread drives")
        id_ = f"{self.idempotency_key}:{len(self.writes.messages)}"
        fields = {"id": id_, "text": text, "thread": self.thread, "run": self.run, "at": _ns(self.now)}
        self.writes.messages.append(memory_of(self.owner, fields, self._steps.kind_of))

    def signal(self, thread: str, name: str, payload: Any = None) -> None:
        """Give a thread (by its key) a signal, together with this step's result; acts as this thread's owner.

        Raises:
            NotRepresentable: the payload is not made of JSON's own types.
        """
        held = encode_exact(payload, what=f"the payload of signal {name!r}")
        number = len(self.writes.messages)
        sent = SendSignal(f"{self.idempotency_key}:{number}", name, held, self._steps.owner, _ns(self.now))
        self.writes.messages.append(message_of(stream_name("thread", thread), "signal", sent))

    def schedule(self, name: str, spec: Spec, prompt: str, *, overlap: Overlap = "skip") -> None:
        """Have a run started in this thread at each tick, together with this step's result: see `thread.schedules`.

        Raises:
            InvalidSchedule: it is malformed, too large, or can never be due; names what to correct.
        """
        if self._steps.make_run is None:
            raise RuntimeError("schedule() is for tools of an agent that a thread drives")
        action = msgspec.Raw(msgspec.json.encode(self._steps.make_run(prompt)))
        wanted = SetSchedule(name, spec, action, _ns(self.now), overlap)
        # Refused here, where it was asked for; what else is scheduled counts when the step is recorded.
        set_schedule(Schedules(), wanted)
        self._changes.schedules.append(wanted)

    def unschedule(self, name: str) -> None:
        """End a schedule of this thread, together with this step's result."""
        self._changes.schedules.append(CancelSchedule(name, f"ended by {self._name}", _ns(self.now)))

    @property
    def schedules(self) -> tuple[SetSchedule | CancelSchedule, ...]:
        """The schedules that this step has set or ended so far."""
        return tuple(self.writes.schedules)

    async def call(self, function: str | Function[..., Any], arguments: Mapping[str, Any] | None = None) -> Any:
        """Call a function of the application with these arguments, by name: see `ActorSystem(functions=[...])`.

        It is part of this step: when the tool runs again, it is called again. It may use `tool_step` as the tool does.

        Raises:
            UnknownFunction: none of this name is registered; names those that are.
            InvalidInput: it does not take these arguments; names the path.
        """
        self._steps.check_here()
        return await self._steps.functions.call(function, {} if arguments is None else arguments)

    async def call_agent(self, agent: str, prompt: str, *, timeout_s: float, initial_state: Any = None) -> ChildAnswer:
        """Ask an agent of this system in a thread of its own, and wait for the end of its run: see `agent_as_tool`.

        `initial_state` is what the synced state of that thread begins with.

        Raises:
            NotRepresentable: the initial state is not made of JSON's own types.
        """
        return await ask_a_child(self._steps, agent, prompt, timeout_s, initial_state)

    async def approve(self, question: Any, *, timeout_s: float = APPROVAL_S) -> Decision:
        """Ask people something in the middle of a tool, and wait for what they decide.

        Like `wait_for_signal`, the tool runs again from its beginning once the decision is there. Where the whole call
        is in question, give the tool `needs_approval` instead: then nothing of it runs before the decision. Here, a
        bare `except` around the question catches the cancel that lets go of the run, and what follows runs undecided.

        Raises:
            NotRepresentable: the question is not made of JSON's own types.
        """
        if self._terms is None:
            raise RuntimeError("approve() is for tools of an agent that a thread drives")
        return await ask_a_question(self._steps, self._terms, self._name, question, timeout_s)

    @property
    def _changes(self) -> Writes:
        """The writes of a step that may still change something."""
        self._steps.check_here()
        return self.writes

    @property
    def messages(self) -> tuple[Outgoing, ...]:
        """The commands to others that this step has sent so far."""
        return tuple(self.writes.messages)


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


def _ns(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000


def enter(step: ToolStep) -> None:
    """Make `step` the one that `tool_step` returns in this task."""
    _current.set(step)
