"""The kind of actor that a conversation is, on a system with these agents."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ...journal import Journal
from ...journal.facts import THREAD_EVENTS, RunStarted, ThreadEvent
from ..decider import EventSourcedActor
from ..effect import Effect
from ..errors import RunEnded, UnknownKind
from ..ref import ActorRef
from ..thread import (
    AlarmFired,
    CancelRun,
    DriveRun,
    EndChild,
    NoteNotified,
    NotifySettled,
    RecoverRun,
    RunStatus,
    SendSignal,
    StartRun,
    ThreadCommand,
    ThreadState,
    thread_decider,
)
from .budget import may_begin
from .definition import AgentDefinition
from .delegate import check_delegates
from .drive import drive_run
from .function_tool import check_functions
from .recorded_run import CATALOG
from .settlement import settlement_of, tell_settled

if TYPE_CHECKING:
    from ..system import ActorSystem

__all__ = ["THREAD_COMMANDS", "ThreadKind", "agent_kind"]

ThreadKind = EventSourcedActor[ThreadState, ThreadCommand, ThreadEvent, ThreadState]

THREAD_COMMANDS: dict[str, type[ThreadCommand]] = {
    "start_run": StartRun,
    "cancel_run": CancelRun,
    "signal": SendSignal,
    "child_ended": EndChild,
}
"""What other actors may send to a conversation, by the names that are stored."""


def agent_kind(system: ActorSystem, definitions: dict[str, AgentDefinition[Any, Any]]) -> ThreadKind:
    """Return the kind of actor that a conversation is, driving its runs with these agents.

    A run, or somebody to be told, whose agent is not among them is reported, and stays open.

    Raises:
        ValueError: an agent has another one as a tool that is not among them, or a function that the system has not.
    """
    check_delegates(definitions)
    check_functions(definitions, system.functions)

    def definition_of(agent: str) -> AgentDefinition[Any, Any]:
        if agent not in definitions:
            raise UnknownKind(name=agent, known=tuple(definitions))
        return definitions[agent]

    async def notify(work: NotifySettled, thread: ActorRef[ThreadCommand, ThreadState]) -> NoteNotified:
        definition, stream = definition_of(work.agent), thread.stream
        settled = settlement_of(stream, work.run, work.step, system.journal.read(stream), definition.terms.seal)
        try:
            await tell_settled(definition, settled)
        except Exception as error:  # noqa: BLE001  (it is the user's, and decides about nothing)
            system.report(stream, f"on_settled of agent {work.agent} raised", error)
        return NoteNotified(work.run, work.step, system.clock())

    async def perform(effect: Effect, thread: ActorRef[ThreadCommand, ThreadState]) -> NoteNotified | None:
        match effect.work:
            case DriveRun() as work:
                definition, journal, clock = definition_of(work.agent), system.journal, system.clock
                live, kind_of, report = system.live_turns, system.kind_of, system.report
                found = _was_open(journal, thread.stream, work.run, by=system.found_open(thread.stream))
                driven = not found or await _recovered(work, definition, thread, clock())
                if driven and await may_begin(definition, work.run, thread, journal, clock):
                    await drive_run(definition, work, thread, journal, clock, live, kind_of, report, system.functions)
                return None
            case NotifySettled() as work:
                return await notify(work, thread)
            case _:
                raise AssertionError(f"{thread.stream} does not know the work {effect.work!r}: a bug of Clew")

    return EventSourcedActor(
        category="thread",
        decider=thread_decider,
        events=THREAD_EVENTS,
        perform=perform,
        initial_for=lambda stream: ThreadState(stream=stream),
        alarm=AlarmFired,
        commands=THREAD_COMMANDS,
        version=3,
        state_type=ThreadState,
    )


def _was_open(journal: Journal, stream: str, run: str, *, by: int) -> bool:
    """Whether a run had begun by a sequence of its thread; one of this process has not crashed."""
    events = (event for event in journal.read(stream) if event.type.name == "run.started") if by else iter(())
    begun = takewhile(lambda event: event.sequence <= by, events)
    return any(isinstance(fact := CATALOG.decode(event), RunStarted) and fact.run == run for event in begun)


async def _recovered(
    work: DriveRun, definition: AgentDefinition[Any, Any], thread: ActorRef[ThreadCommand, ThreadState], at: int
) -> bool:
    """Note that a run was found open after a crash; return whether it goes on, or was parked."""
    try:
        state = await thread.ask(RecoverRun(work.run, definition.recoveries_max, at))
    except RunEnded:
        return False
    return state.runs[work.run].status is RunStatus.RUNNING
