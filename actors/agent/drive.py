"""Driving a run: the agent loop is pydantic-ai's own, and every step of it goes through the journal.

1. read the thread: the messages before the run, and what is recorded of the run itself;
2. run the agent; recorded steps return their results, the others run and are recorded (`steps`, `durability`);
3. record how it ended.

Driving the same run again, after a crash or in a replay, takes the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, cast

import msgspec
from pydantic_ai import UsageLimits
from pydantic_ai.messages import UserContent
from pydantic_ai.usage import RunUsage

from ...journal import (
    AppendUnknown,
    Journal,
    JournalClosed,
    JournalForked,
    JournalFull,
    NotRepresentable,
    PayloadTooLarge,
)
from ...journal.facts import (
    NOTHING,
    ErrorFact,
    RunFailed,
    RunFinished,
)
from ..clock import Clock
from ..errors import (
    ActivationFailed,
    CommandRejected,
    PauseSwallowed,
    ReplayDivergence,
    RunEnded,
    StepFailed,
    SystemClosed,
)
from ..functions import NO_FUNCTIONS, Functions
from ..ref import ActorRef
from ..thread import (
    DriveRun,
    FailRun,
    RunStatus,
    SuspendRun,
    ThreadCommand,
    ThreadState,
)
from .artifacts import find_artifact
from .definition import MODEL_ID, AgentDefinition, InstructionsFunction, StepFinished, notify, resolve
from .ending import halt, record_end
from .failures import describe
from .live_turns import LiveTurns
from .output import encode_output
from .pausing import PauseWatch
from .recorded import Asked, Produced, settled_steps
from .recorded_run import CATALOG, RecordedRun, recorded_run
from .recording import LetGo
from .schedules import run_action
from .scope import Drive, RunStopped, drive_scope
from .sealing import open_history
from .skills import begin
from .steps import KindOf, RunSteps, Sink
from .tool_step import RunNow
from .used import told_by_loop
from .wire import load_messages, valid_for_provider

__all__ = ["drive_agent", "drive_run"]

LET_GO_S = 10.0
"""How long a run that has to wait gets to end what it does, before it is left behind; it records nothing more."""

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


async def drive_agent(
    definition: AgentDefinition[Any, Any], recorded: RecordedRun, sink: Sink | None, now: Clock, *, resume: bool
) -> tuple[RunSteps, RunFinished | RunFailed]:
    """Run the agent to its end and return how it ended; nothing of the end is recorded yet.

    Raises:
        ReplayDivergence: the loop asked for something else than was recorded.
        RunEnded, JournalError, SystemClosed: a step could not be recorded.
    """
    steps = steps_of(definition, recorded, sink, now, resume=resume)
    return steps, await run_to_end(definition, recorded, steps)


def steps_of(
    definition: AgentDefinition[Any, Any], recorded: RecordedRun, sink: Sink | None, now: Clock, *, resume: bool
) -> RunSteps:
    """Return the steps of a run as they are recorded."""
    started = recorded.started
    steps = RunSteps(
        stream=recorded.stream,
        run=started.run,
        agent=started.agent,
        owner=recorded.owner,
        started_at=started.at,
        recorded=settled_steps(started.run, recorded.events, resume=resume),
        sink=sink,
        now=now,
        state=recorded.state,
        waits=recorded.waits,
    )
    steps.on_recorded = lambda name: notify(
        definition, StepFinished(thread=recorded.stream, run=started.run, step=name)
    )
    return steps


async def run_to_end(
    definition: AgentDefinition[Any, Any], recorded: RecordedRun, steps: RunSteps, live: LiveTurns | None = None
) -> RunFinished | RunFailed:
    """Run the agent over its steps to its end; raises like `drive_agent`."""
    started = recorded.started
    drive = Drive(
        steps,
        started.run,
        started.prompt,
        definition.max_turns,
        terms=definition.terms,
        turn=definition.turn_policy,
        check_state=definition.state_model.check_for(recorded.stream),
        read_state=definition.state_model.read,
        live=live,
        compactor=definition.compactor(recorded),
        limits=definition.limits,
        budget=definition.budget,
        control=definition.control.of_run(),
    )
    with drive_scope(drive):
        try:
            end = await _run_agent(definition, recorded, drive)
        except (Exception, LetGo) as error:  # noqa: BLE001  (whatever it is, it is how the run ended)
            # What stopped the steps counts, whatever the loop and the user's hooks made of it.
            cause = steps.recording.stopped_by or error
            if isinstance(cause, (*_STOPS, LetGo)):
                raise cause from None if cause is error else error
            end = RunFailed(started.run, _failure(cause, steps), steps.now())
        await steps.recording.synced()
        steps.record.check_complete(failed=isinstance(end, RunFailed))
    return end


async def _run_agent(definition: AgentDefinition[Any, Any], recorded: RecordedRun, drive: Drive) -> RunFinished:
    started, steps = recorded.started, drive.steps
    before = open_history(recorded.before.messages(), drive.terms.seal, recorded.stream)
    history = valid_for_provider(load_messages(before))
    run_now = RunNow(steps, "run")
    if definition.instructions is not None:
        drive.instructions = await _instructions(definition.instructions, steps, run_now)
    await begin(drive, definition.skills, definition.knowledge, started.prompt)
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
    except RunStopped as early:
        tail = drive.tail.encode(early.messages, drive.results)
        return _finished(drive, early.stopped, NOTHING, early.usage, tail)
    output = encode_output(definition.agent, result.output)
    return _finished(drive, "final", output, result.usage, drive.tail.encode(result.all_messages(), drive.results))


def _finished(drive: Drive, stopped: str, output: msgspec.Raw, usage: RunUsage, tail: msgspec.Raw) -> RunFinished:
    used = told_by_loop(usage, drive.steps.used.so_far)
    finished = RunFinished(drive.steps.run, stopped, output, used, tail, drive.steps.clock)
    # An answer that no journal takes is how the run failed, now and on replay.
    CATALOG.encode(finished)
    return finished


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


async def drive_run(
    definition: AgentDefinition[Any, Any],
    work: DriveRun,
    thread: ActorRef[ThreadCommand, ThreadState],
    journal: Journal,
    now: Clock,
    live: LiveTurns,
    kind_of: KindOf,
    report: Callable[[str, str, BaseException], None],
    functions: Functions = NO_FUNCTIONS,
) -> None:
    """Drive an open run to its end, or to where it has to wait, and record that; `report` is told of what is amiss."""

    def sink(command: ThreadCommand, command_id: str) -> Any:
        return thread.ask(command, command_id=command_id)

    def swallowed(step: str) -> None:
        error = PauseSwallowed(thread=thread.stream, run=work.run, step=step)
        report(thread.stream, f"{step} swallowed its pause", error)

    try:
        while True:
            events = list(journal.read(thread.stream))
            recorded = recorded_run(thread.stream, work.run, events)
            if recorded.deadline is not None and recorded.deadline <= now():
                # Its alarm ends it.
                return
            steps = steps_of(definition, recorded, sink, now, resume=True)
            steps.kind_of, steps.make_run = kind_of, partial(run_action, definition)
            steps.on_swallowed, steps.functions = swallowed, functions
            steps.find_artifact = partial(find_artifact, journal, thread.stream)
            steps.paused = PauseWatch(
                journal, thread.stream, work.run, after=events[-1].sequence, pausing=recorded.waits.pausing
            )
            end = await _until_it_waits(run_to_end(definition, recorded, steps, live), steps)
            if not isinstance(end, tuple):
                await record_end(thread, end, now())
                return
            state = await thread.ask(SuspendRun(work.run, end, now()))
            if state.runs[work.run].status is not RunStatus.RUNNING:
                return
            # One of them got what it waits for in the meantime.
    except ReplayDivergence as divergence:
        await thread.ask(halt(divergence, now()))
    except (RunEnded, SystemClosed):
        # Cancelled or closed while a step was under way: what came late is refused, and that is all. After a close,
        # and after a commit that failed, the run stays open and goes on at the next opening.
        return
    except (CommandRejected, NotRepresentable, PayloadTooLarge) as refused:
        # The thread does not take what the driver says: the run ends with that, rather than stand still.
        await thread.ask(FailRun(work.run, describe(refused), now()))


async def _until_it_waits(
    running: Coroutine[Any, Any, RunFinished | RunFailed], steps: RunSteps
) -> RunFinished | RunFailed | tuple[str, ...]:
    """Return how a run ended, or the steps it waits in once it can do nothing but wait; then nothing of it is left."""
    steps.siblings.driver = asyncio.current_task()
    run, wait = asyncio.ensure_future(running), asyncio.ensure_future(steps.siblings.all_wait())
    try:
        await asyncio.wait({run, wait}, return_when=asyncio.FIRST_COMPLETED)
        if run.done():
            return run.result()
        steps.recording.let_go()
        return wait.result()
    finally:
        wait.cancel()
        if not run.done():
            steps.siblings.cut_off_all()
            run.cancel()
            await asyncio.wait({run}, timeout=LET_GO_S)
        if run.done() and not run.cancelled():
            # Looked at, so that nobody warns that it was not.
            run.exception()
