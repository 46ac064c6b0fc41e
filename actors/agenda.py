"""The schedules of an agent: an actor of its own, which starts a run or sends a command at each tick.

One stream for each agent, `agenda/AGENT`. What a tick starts goes out through the outbox, so it is delivered at least
once and applied once. The run of a tick tells how it ended, so the agenda knows whether it still goes on: what fires
meanwhile waits here, or has it cancelled and takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ..journal.facts import NOTHING, ChildEnded, ErrorFact, MessageDelivered, MessageSent
from ..journal.facts.schedule import SCHEDULE_EVENTS, ScheduleCancelled, ScheduleEvent, ScheduleFired, ScheduleSkipped
from . import schedule as schedules
from .decider import Decider, EventSourcedActor
from .effect import Effect
from .errors import InvalidSchedule
from .outbox import Acknowledge, Outbox, Outgoing, acknowledge, deliveries, evolve_outbox, message_of, sent
from .schedule import CancelSchedule, PauseSchedule, ResumeSchedule, Schedules, SetSchedule
from .schedule.action import RunAction, action_of, tick_id
from .thread import AlarmFired, CancelRun, EndChild, Requester, StartRun
from .thread.scheduling import ROUNDS_MAX

__all__ = ["AGENDA", "AgendaCommand", "AgendaEvent", "AgendaState", "Started", "Tick"]

AgendaCommand = SetSchedule | PauseSchedule | ResumeSchedule | CancelSchedule | EndChild | Acknowledge | AlarmFired

AgendaEvent = ScheduleEvent | ChildEnded | MessageSent | MessageDelivered

START_RUN: Final = "start_run"


class Tick(msgspec.Struct, frozen=True):
    """A tick that has fired and whose run was not asked for yet: the run of an earlier one goes on."""

    due: int
    action: msgspec.Raw


class Started(msgspec.Struct, frozen=True):
    """The run of a tick, from when it is asked for until it tells how it ended."""

    due: int
    message: str
    to: str
    run: str
    owner: str | None


class AgendaState(msgspec.Struct, frozen=True):
    """The schedules of an agent, what became of their ticks, by schedule, and what is to be delivered."""

    stream: str = "agenda"
    schedules: Schedules = Schedules()
    running: dict[str, Started] = {}
    waiting: dict[str, tuple[Tick, ...]] = {}
    outbox: Outbox = Outbox()

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self.stream.partition("/")[2]

    def is_busy(self, name: str) -> bool:
        """Whether a run of a schedule goes on, or is to begin when that one has ended."""
        return name in self.running or name in self.waiting


def _decide(state: AgendaState, command: AgendaCommand) -> Sequence[AgendaEvent]:
    match command:
        case SetSchedule():
            action_of(command.name, command.action)
            return schedules.set_schedule(state.schedules, command)
        case PauseSchedule():
            return schedules.pause(state.schedules, command)
        case ResumeSchedule():
            return schedules.resume(state.schedules, command)
        case CancelSchedule():
            return schedules.cancel(state.schedules, command)
        case EndChild():
            return _run_ended(state, command)
        case Acknowledge():
            return _delivered(state, command)
        case AlarmFired():
            return _fire(state, command.at)


def _fire(state: AgendaState, at: int) -> Sequence[AgendaEvent]:
    """Return what becomes of all that is due; what one wake fires of a schedule does not overlap itself."""
    events: list[AgendaEvent] = []
    fired: set[str] = set()
    for _ in range(ROUNDS_MAX):
        due = schedules.fire(state.schedules, at, state.is_busy)
        if not due:
            break
        for event in due:
            became = _tick(state, event, first=event.name not in fired)
            fired.add(event.name)
            events += became
            for one in became:
                state = _evolve(state, one)
    return events


def _tick(state: AgendaState, event: ScheduleEvent, *, first: bool) -> Sequence[AgendaEvent]:
    """Return what becomes of a tick: its run is asked for or has to wait, or what it sends is sent."""
    if not isinstance(event, ScheduleFired):
        return (event,)
    name, held = event.name, state.schedules.active[event.name]
    try:
        action = action_of(name, held.action)
    except InvalidSchedule:
        return (_skipped(event, "refused"),)
    if not isinstance(action, RunAction):
        message = Outgoing(action.to, action.command, action.payload)
        return event, *sent(tick_id(name, event.due, of=state.agent), [message], event.at)
    if not state.is_busy(name):
        return event, *_start(state, name, event.due, action, event.at)
    if held.overlap == "replace" and first:
        return event, *_start(state, name, event.due, action, event.at)
    if len(state.waiting.get(name, ())) >= action.queue_max:
        return (_skipped(event, "busy"),)
    return (event,)


def _skipped(event: ScheduleFired, reason: str) -> ScheduleSkipped:
    return ScheduleSkipped(event.name, event.due, event.next_due, reason, event.missed + 1, event.at)


def _start(state: AgendaState, name: str, due: int, action: RunAction, at: int) -> Sequence[MessageSent]:
    """Ask for the run of a tick, in place of the one that goes on."""
    tick, before = tick_id(name, due, of=state.agent), state.running.get(name)
    start = StartRun(
        tick,
        action.agent,
        action.prompt,
        action.owner,
        action.title,
        at,
        concurrent="queue",
        queue_max=action.queue_max,
        queue_for=action.queue_for,
        timeout=action.timeout,
        state=action.state,
        requester=Requester(state.stream, name, str(due)),
    )
    messages = [message_of(f"thread/{action.thread or tick}", START_RUN, start)]
    if before is not None:
        stop = CancelRun(before.run, before.owner, f"replaced by run {tick}", at)
        messages.insert(0, message_of(before.to, "cancel_run", stop))
    return sent(tick, messages, at)


def _run_ended(state: AgendaState, command: EndChild) -> Sequence[AgendaEvent]:
    """Note that the run of a tick has ended, and ask for the one that waits for that; the answer is in its thread."""
    started = state.running.get(command.run)
    if started is None or str(started.due) != command.step:
        return ()
    return _over(state, command.run, command.status, command.error, command.at)


def _over(state: AgendaState, name: str, status: str, error: ErrorFact | None, at: int) -> Sequence[AgendaEvent]:
    due = state.running[name].due
    ended = ChildEnded(name, str(due), status, NOTHING, error, NOTHING, at)
    if not (waiting := state.waiting.get(name)):
        return (ended,)
    action = action_of(name, waiting[0].action)
    if not isinstance(action, RunAction):
        raise AssertionError(f"{state.stream}: a tick of {name!r} waits and starts no run: a bug of Clew")  # noqa: TRY004
    return ended, *_start(_evolve(state, ended), name, waiting[0].due, action, at)


def _delivered(state: AgendaState, command: Acknowledge) -> Sequence[AgendaEvent]:
    """Note that a message was delivered; a run that was refused does not go on."""
    events: list[AgendaEvent] = [*acknowledge(state.outbox, command)]
    if events and command.refused is not None:
        refused = [name for name, started in state.running.items() if started.message == command.id]
        for name in refused:
            events += _over(state, name, "refused", command.refused, command.at)
    return events


def _evolve(state: AgendaState, event: AgendaEvent) -> AgendaState:
    match event:
        case MessageSent():
            return _sent(replace(state, outbox=evolve_outbox(state.outbox, event)), event)
        case MessageDelivered():
            return replace(state, outbox=evolve_outbox(state.outbox, event))
        case ChildEnded():
            return replace(state, running={name: run for name, run in state.running.items() if name != event.run})
        case ScheduleFired():
            held, waiting = state.schedules.active[event.name].action, state.waiting
            if isinstance(action_of(event.name, held), RunAction):
                waiting = {**waiting, event.name: (*waiting.get(event.name, ()), Tick(event.due, held))}
            return replace(state, schedules=schedules.evolve(state.schedules, event), waiting=waiting)
        case ScheduleCancelled():
            waiting = _without(state.waiting, event.name)
            return replace(state, schedules=schedules.evolve(state.schedules, event), waiting=waiting)
        case _:
            return replace(state, schedules=schedules.evolve(state.schedules, event))


def _sent(state: AgendaState, event: MessageSent) -> AgendaState:
    """Note that the run of a tick was asked for, if that is what the message is."""
    asked = event.id.rpartition(":")[0]
    for name, ticks in state.waiting.items() if event.command == START_RUN else ():
        for tick in ticks:
            if tick_id(name, tick.due, of=state.agent) == asked:
                action = action_of(name, tick.action)
                owner = action.owner if isinstance(action, RunAction) else None
                started = Started(tick.due, event.id, event.to, asked, owner)
                left = tuple(other for other in ticks if other is not tick)
                waiting = {**state.waiting, name: left} if left else _without(state.waiting, name)
                return replace(state, running={**state.running, name: started}, waiting=waiting)
    return state


def _without(waiting: dict[str, tuple[Tick, ...]], name: str) -> dict[str, tuple[Tick, ...]]:
    return {key: ticks for key, ticks in waiting.items() if key != name} if name in waiting else waiting


def _effects(state: AgendaState) -> tuple[Effect, ...]:
    return deliveries(state.outbox) if state.outbox.waiting else ()


def _answer(state: AgendaState, _: Sequence[AgendaEvent]) -> AgendaState:
    return state


AGENDA = EventSourcedActor[AgendaState, AgendaCommand, AgendaEvent, AgendaState](
    category="agenda",
    decider=Decider(
        initial=AgendaState(),
        decide=_decide,
        evolve=_evolve,
        answer=_answer,
        effects=_effects,
        due=lambda state: schedules.due(state.schedules),
    ),
    events=(*SCHEDULE_EVENTS, ChildEnded, MessageSent, MessageDelivered),
    alarm=AlarmFired,
    commands={"child_ended": EndChild},
    initial_for=lambda stream: AgendaState(stream=stream),
    state_type=AgendaState,
)
"""The kind of actor that keeps the schedules of an agent; it answers every command with its state."""
