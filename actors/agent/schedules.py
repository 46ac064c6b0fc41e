"""Schedules as their users hold them: of one thread, or of an agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from ...journal import Journal, stream_name
from ..agenda import AGENDA
from ..clock import Clock, random_id
from ..decider import EventSourcedActor
from ..recovery import recover
from ..ref import ActorRef
from ..reply import Reply
from ..schedule import (
    CancelSchedule,
    Missed,
    Overlap,
    PauseSchedule,
    ResumeSchedule,
    Schedules,
    ScheduleView,
    SetSchedule,
    Spec,
    after,
    at,
    list_schedules,
)
from ..schedule.action import Action, RunAction, SendAction
from ..thread import ChangeSchedule, ThreadCommand, ThreadState, check_is_there
from .definition import AgentDefinition
from .message import message_to
from .prompt import encode_prompt

if TYPE_CHECKING:
    from ..system import ActorSystem

__all__ = ["ScheduleBook", "ScheduleCommand", "agenda_of", "folded", "run_action", "schedules_of"]

S = TypeVar("S")

ScheduleCommand = SetSchedule | PauseSchedule | ResumeSchedule | CancelSchedule

MakeRun = Callable[..., RunAction]


class ScheduleBook:
    """What is to be done at some time: set it, look at it, pause it, cancel it.

    A schedule is known by its name. To set it again is safe: the same is there already, another one takes its place,
    and after any number of restarts there is one. It is recorded, and wakes what sleeps; what was due while the process
    was down is made up for at the next opening, as `missed` says: joined into one tick (`"coalesce"`), each of the
    newest `missed_max` (`"all"`), or not at all (`"none"`). `overlap` says what becomes of a tick while the run of the
    last one goes on: it is left out (`"skip"`), waits (`"queue"`), or takes the other's place (`"replace"`).
    All of them return a reply: wait for it to know that it is recorded, or why it was refused (`InvalidSchedule`,
    `UnknownSchedule`, `TooManySchedules`).
    """

    def __init__(
        self,
        ask: Callable[[ScheduleCommand], Reply[Any]],
        read: Callable[[], Schedules],
        make_run: MakeRun,
        clock: Clock,
    ) -> None:
        self._ask = ask
        self._read = read
        self._make_run = make_run
        self._clock = clock

    def set(
        self,
        name: str,
        spec: Spec,
        prompt: Any,
        *,
        thread: str | None = None,
        owner: str | None = None,
        overlap: Overlap = "skip",
        missed: Missed = "coalesce",
        missed_max: int = 10,
    ) -> Reply[Any]:
        """Start a run with this prompt at each tick; its run id is `NAME@TICK`, that of an agent's `AGENT:NAME@TICK`.

        A schedule of a thread runs in it, as its owner. One of an agent runs in the thread of this key, or in a new one
        each time (whose key is the run id), as `owner`. As many ticks wait as runs of the agent may (`queue_max`); what
        comes then is skipped.

        Raises:
            TypeError: a schedule of a thread was given another thread, or an owner.
            InvalidName, ValueError: the thread's key or the owner is none.
        """
        action = self._make_run(prompt, thread=thread, owner=owner)
        if missed == "all":
            # What is to be made up for has to find room.
            action = replace(action, queue_max=max(action.queue_max, missed_max))
        return self._set(name, spec, action, overlap, missed, missed_max)

    def send(
        self,
        name: str,
        spec: Spec,
        kind: EventSourcedActor[Any, Any, Any, Any],
        id: str,  # noqa: A002  (the field's word)
        command: msgspec.Struct,
        *,
        missed: Missed = "coalesce",
        missed_max: int = 10,
    ) -> Reply[Any]:
        """Send a command to an actor at each tick: at least once, applied once.

        Raises:
            TypeError: the kind does not say under which name others know this command (`EventSourcedActor.commands`).
        """
        message = message_to(kind, id, command)
        action = SendAction(message.to, message.command, message.payload)
        return self._set(name, spec, action, "skip", missed, missed_max)

    def run_at(self, time: datetime | int, prompt: Any, *, name: str | None = None, **where: Any) -> Reply[Any]:
        """Start one run at a time; give a `name` to make asking twice safe."""
        return self.set(name or f"once-{random_id()[:12]}", at(time), prompt, **where)

    def run_after(self, seconds: float, prompt: Any, *, name: str | None = None, **where: Any) -> Reply[Any]:
        """Start one run so many seconds from now; give a `name` to make asking twice safe, until it has begun."""
        return self.set(name or f"once-{random_id()[:12]}", after(seconds), prompt, **where)

    def pause(self, name: str) -> Reply[Any]:
        """Let a schedule rest until it is resumed; the ticks meanwhile are not made up for."""
        return self._ask(PauseSchedule(name, self._clock()))

    def resume(self, name: str) -> Reply[Any]:
        """Let a paused schedule go on with its next tick from now."""
        return self._ask(ResumeSchedule(name, self._clock()))

    def cancel(self, name: str, *, reason: str = "cancelled") -> Reply[Any]:
        """End a schedule; runs it has started go on."""
        return self._ask(CancelSchedule(name, reason, self._clock()))

    def list(self) -> Sequence[ScheduleView]:
        """Return the schedules that are not over, the earliest due first."""
        return list_schedules(self._read())

    def _set(
        self, name: str, spec: Spec, action: Action, overlap: Overlap, missed: Missed, missed_max: int
    ) -> Reply[Any]:
        held = msgspec.Raw(msgspec.json.encode(action))
        return self._ask(SetSchedule(name, spec, held, self._clock(), overlap, missed, missed_max))


def agenda_of(system: ActorSystem, definition: AgentDefinition[Any, Any]) -> ScheduleBook:
    """Return the schedules of an agent."""
    ref = system.ref(AGENDA, definition.name)

    def make(prompt: Any, *, thread: str | None, owner: str | None) -> RunAction:
        return run_action(definition, prompt, thread=thread, owner=owner)

    return ScheduleBook(ref.ask, lambda: folded(system.journal, AGENDA, ref.stream).schedules, make, system.clock)


def schedules_of(
    system: ActorSystem,
    definition: AgentDefinition[Any, Any],
    ref: ActorRef[ThreadCommand, ThreadState],
    owner: str | None,
    title: str | None,
) -> ScheduleBook:
    """Return the schedules of a thread, for whom acts as `owner`; to set one gives a new thread its `title`."""

    def ask(command: ScheduleCommand) -> Reply[Any]:
        return ref.ask(ChangeSchedule(command, owner, title))

    def read() -> Schedules:
        state = folded(system.journal, system.kind_of(ref.stream), ref.stream)
        check_is_there(state, owner)
        return state.schedules

    def make(prompt: Any, **where: Any) -> RunAction:
        if given := [option for option, value in where.items() if value is not None]:
            raise TypeError(f"{ref.stream}: its schedules run in it, as its owner: leave out {' and '.join(given)}")
        return run_action(definition, prompt)

    return ScheduleBook(ask, read, make, system.clock)


def run_action(
    definition: AgentDefinition[Any, Any],
    prompt: Any,
    *,
    thread: str | None = None,
    owner: str | None = None,
) -> RunAction:
    """Return what starts a run of an agent at a tick.

    Raises:
        InvalidName, ValueError: the thread's key or the owner is none, which would show at each tick.
    """
    if thread is not None:
        stream_name("thread", thread)
    if owner is not None and not owner.strip():
        raise ValueError(f"agent {definition.name!r}: {owner!r} owns nothing: give an owner's name, or None for none")
    start = definition.start("tick", encode_prompt(prompt), owner=owner, title=None, at=0, concurrent=None)
    return RunAction(
        agent=definition.name,
        prompt=start.prompt,
        thread=thread,
        owner=owner,
        queue_max=start.queue_max,
        queue_for=start.queue_for,
        timeout=start.timeout,
        state=start.state,
    )


def folded(journal: Journal, kind: EventSourcedActor[S, Any, Any, Any], stream: str) -> S:
    """Return the state of an actor as its durable events make it."""
    return recover(kind, stream, journal).state
