"""Driving a run: the agent loop is pydantic-ai's own, and every step of it goes through the journal.

1. read the thread: the messages before the run, and what is recorded of the run itself;
2. run the agent; recorded steps return their results, the others run and are recorded (`steps`, `durability`);
3. record how it ended.

Driving the same run again, after a crash or in a replay, takes the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import msgspec
from pydantic_ai import UsageLimits
from pydantic_ai.durable_exec import JSON_CODEC
from pydantic_ai.messages import UserContent
from pydantic_ai.usage import RunUsage

from ...journal import AppendUnknown, Journal, JournalClosed, JournalForked, JournalFull, RecordedEvent
from ...journal.facts import (
    NOTHING,
    THREAD_EVENTS,
    ErrorFact,
    RunFailed,
    RunFinished,
    RunStarted,
    StateSet,
    ThreadEvent,
    ThreadOpened,
)
from ...projections import Conversation, conversation, project
from ..clock import Clock
from ..decider import EventSourcedActor
from ..effect import Effect
from ..errors import ActivationFailed, ReplayDivergence, RunEnded, StepFailed, SystemClosed, UnknownKind
from ..ref import ActorRef
from ..thread import DriveRun, FailRun, FinishRun, HaltRun, ThreadCommand, ThreadState, thread_decider
from .definition import MODEL_ID, AgentDefinition, InstructionsFunction, StepFinished, notify, resolve
from .failures import describe
from .output import encode_output
from .recorded import Asked, Produced, settled_steps
from .scope import Drive, TurnLimitReached, drive_scope
from .steps import RunSteps, Sink
from .tool_step import RunNow
from .wire import load_messages, valid_for_provider

if TYPE_CHECKING:
    from ..system import ActorSystem

__all__ = ["RecordedRun", "agent_kind", "drive_agent", "recorded_run"]

# Nothing more can be recorded of the run here and now, so it does not end: it is halted, over, or goes on later.
_STOPS = (
    ActivationFailed,
    ReplayDivergence,
    RunEnded,
    SystemClosed,
    AppendUnknown,
    JournalClosed,
    JournalForked,
    JournalFull,
)

ThreadKind = EventSourcedActor[ThreadState, ThreadCommand, ThreadEvent, ThreadState]

CATALOG = conversation.catalog


def agent_kind(system: ActorSystem, definitions: dict[str, AgentDefinition[Any, Any]]) -> ThreadKind:
    """Return the kind of actor that a conversation is, driving its runs with these agents."""

    async def perform(effect: Effect, thread: ActorRef[ThreadCommand, ThreadState]) -> None:
        work = cast("DriveRun", effect.work)
        definition = definitions.get(work.agent)
        if definition is None:
            raise UnknownKind(name=work.agent, known=tuple(definitions))
        await _drive(definition, work, thread, system.journal, system.clock)

    return EventSourcedActor(
        category="thread",
        decider=thread_decider,
        events=THREAD_EVENTS,
        perform=perform,
        initial_for=lambda stream: ThreadState(stream=stream),
        state_type=ThreadState,
    )


@dataclass(frozen=True)
class RecordedRun:
    """What the journal holds of a run: how it was asked for, what was said before, and its own events."""

    stream: str
    owner: str | None
    started: RunStarted
    before: Conversation
    events: list[tuple[RecordedEvent, ThreadEvent]]
    state: msgspec.Raw | None


def recorded_run(stream: str, run: str, events: list[RecordedEvent]) -> RecordedRun:
    """Find a run in a thread's events.

    Raises:
        LookupError: there is no such run.
    """
    decoded = [(event, cast("ThreadEvent", CATALOG.decode(event))) for event in events if CATALOG.knows(event)]
    owner, state = None, None
    for index, (_, event) in enumerate(decoded):
        match event:
            case ThreadOpened():
                owner = event.owner
            case RunStarted() if event.run == run:
                before = project(conversation, (recorded for recorded, _ in decoded[:index]))
                later = [pair for pair in decoded[index:] if getattr(pair[1], "run", run) == run]
                state = next((e.value for _, e in reversed(decoded) if isinstance(e, StateSet)), None)
                return RecordedRun(stream, owner, event, before, later, state)
            case _:
                pass
    raise LookupError(f"{stream}: there is no run {run!r}")


async def drive_agent(
    definition: AgentDefinition[Any, Any], recorded: RecordedRun, sink: Sink | None, now: Clock, *, resume: bool
) -> tuple[RunSteps, RunFinished | RunFailed]:
    """Run the agent to its end and return how it ended; nothing of the end is recorded yet.

    Raises:
        ReplayDivergence: the loop asked for something else than was recorded.
        RunEnded, JournalError, SystemClosed: a step could not be recorded.
    """
    started = recorded.started
    steps = RunSteps(
        stream=recorded.stream,
        run=started.run,
        owner=recorded.owner,
        started_at=started.at,
        recorded=settled_steps(started.run, recorded.events, resume=resume),
        sink=sink,
        now=now,
        state=recorded.state,
    )
    steps.on_recorded = lambda name: notify(
        definition, StepFinished(thread=recorded.stream, run=started.run, step=name)
    )
    drive = Drive(steps, started.run, started.prompt, definition.max_turns)
    with drive_scope(drive):
        try:
            end = await _run_agent(definition, recorded, drive)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is how the run ended)
            # What stopped the steps counts, whatever the loop and the user's hooks made of it.
            cause = steps.stopped_by or error
            if isinstance(cause, _STOPS):
                raise cause from None if cause is error else error
            end = RunFailed(started.run, _failure(cause, steps), now())
        await steps.synced()
        steps.check_complete(failed=isinstance(end, RunFailed))
    return steps, end


async def _run_agent(definition: AgentDefinition[Any, Any], recorded: RecordedRun, drive: Drive) -> RunFinished:
    started, steps = recorded.started, drive.steps
    history = valid_for_provider(load_messages(recorded.before.messages()))
    run_now = RunNow(steps, "run")
    if definition.instructions is not None:
        drive.instructions = await _instructions(definition.instructions, steps, run_now)
    deps = definition.deps if definition.deps_for is None else definition.deps_for(run_now)
    try:
        result = await definition.agent.run(
            cast("str | list[UserContent]", _prompt(started.prompt)),
            message_history=history,
            deps=deps,
            model=None if definition.model is None else MODEL_ID,
            usage_limits=UsageLimits(request_limit=None),
            capabilities=list(definition.capabilities),
        )
    except TurnLimitReached as limit:
        tail = drive.tail.encode(limit.messages, drive.results)
        return _finished(drive, "max_turns", NOTHING, limit.usage, tail)
    output = encode_output(definition.agent, result.output)
    return _finished(drive, "final", output, result.usage, drive.tail.encode(result.all_messages(), drive.results))


def _finished(drive: Drive, stopped: str, output: msgspec.Raw, usage: RunUsage, tail: msgspec.Raw) -> RunFinished:
    used = cast("dict[str, object]", JSON_CODEC.dump(RunUsage, usage))
    encoded = msgspec.Raw(msgspec.json.encode({key: value for key, value in used.items() if value}))
    at = drive.steps.clock
    return RunFinished(drive.steps.run, stopped, output, encoded, tail, at)


async def _instructions(thunk: InstructionsFunction, steps: RunSteps, run: RunNow) -> str:
    """Resolve an instructions function once, as a step."""

    async def body() -> Produced:
        return Produced(msgspec.Raw(msgspec.json.encode(await resolve(thunk, run))))

    outcome = await steps.turn(Asked("instructions", {}, body, describe))
    if outcome.error is not None:
        raise StepFailed(step="instructions", type=outcome.error.type, message=outcome.error.message)
    return cast("str", msgspec.json.decode(outcome.result))


def _prompt(prompt: msgspec.Raw) -> object:
    value = msgspec.json.decode(prompt)
    if isinstance(value, str):
        return value
    request = {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": value}]}
    return cast("Any", load_messages([request])[0].parts[0]).content


def _failure(error: Exception, steps: RunSteps) -> ErrorFact:
    """Return why a run failed: of tools that failed beside each other, the one recorded first, also on replay."""
    text = str(error)
    if any(fact.message in text for _, _, _, fact in steps.failures):
        _, _, step, fact = min(steps.failures, key=lambda failure: failure[:2])
        return ErrorFact(fact.type, f"{step}: {fact.message}", fact.data)
    if isinstance(error, StepFailed):
        return ErrorFact(error.type, f"{error.step}: {error.message}")
    return describe(error)


async def _drive(
    definition: AgentDefinition[Any, Any],
    work: DriveRun,
    thread: ActorRef[ThreadCommand, ThreadState],
    journal: Journal,
    now: Clock,
) -> None:
    """Drive an open run to its end and record it."""
    recorded = recorded_run(thread.stream, work.run, list(journal.read(thread.stream)))

    def sink(command: ThreadCommand, command_id: str) -> Any:
        return thread.ask(command, command_id=command_id)

    try:
        _, end = await drive_agent(definition, recorded, sink, now, resume=True)
        await thread.ask(_end_command(end, now()), command_id=f"{work.run}/end")
    except ReplayDivergence as divergence:
        await thread.ask(_halt(divergence, now()))
    except (RunEnded, SystemClosed):
        # Cancelled or closed while a step was under way: what came late is refused, and that is all. After a close,
        # and after a commit that failed, the run stays open and goes on at the next opening.
        return


def _end_command(end: RunFinished | RunFailed, at: int) -> FinishRun | FailRun:
    if isinstance(end, RunFailed):
        return FailRun(end.run, end.error, at)
    return FinishRun(end.run, end.stopped, end.output, end.usage, end.tail, at)


def _halt(found: ReplayDivergence, at: int) -> HaltRun:
    return HaltRun(found.run, found.step, found.sequence, found.field, found.expected, found.actual, at)
