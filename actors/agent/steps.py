"""The steps of one run: what is recorded comes from the journal, what is not runs and is recorded.

It knows nothing of models: a step is a name, digests of what was asked, and a body that returns JSON.

- A recorded step returns its result and never runs again. What is asked must be what was asked then.
- A tool starts only when everything before it is durable; a turn of the model may start while the results before it
  are still being synced, since it changes nothing outside. So a round of model and tools waits for the disk once.
- An attempt that raises is recorded. A tool is tried again up to its `attempts`, also across crashes; when it fails
  for good, its siblings in flight end and are recorded before the failure goes on, so none of them runs twice.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Protocol

import msgspec

from ...journal import NotRepresentable, RecordedEvent
from ...journal.facts import NOTHING, ErrorFact, StepCompleted, StepFailed, ThreadEvent
from ..clock import Clock
from ..errors import ReplayDivergence
from ..thread import CompleteStep, FailStep, ThreadCommand
from .meaning import same_meaning
from .siblings import Siblings, current_scope

__all__ = ["HistoryEnds", "Outcome", "Produced", "RunSteps", "Sink", "StepEvents", "current_steps", "settled_steps"]


class HistoryEnds(BaseException):
    """A signal: a replay came to where the recorded run was interrupted. Never caught broadly."""


class Produced(NamedTuple):
    """What a body made: its result, what sub-agents used, and the state it set (None: left alone)."""

    result: msgspec.Raw
    usage: msgspec.Raw = NOTHING
    state: msgspec.Raw | None = None


class Outcome(NamedTuple):
    """A settled step: its result, or its error; the same now and on replay."""

    result: msgspec.Raw
    usage: msgspec.Raw
    error: ErrorFact | None
    ran: bool


class StepEvents(NamedTuple):
    """What is recorded of a step: the event that settled it (if one did), its sequence, and its attempts so far."""

    settled: StepCompleted | StepFailed | None
    sequence: int
    attempts: int


class Sink(Protocol):
    """Where new steps go; None in a replay, which may not make any."""

    def __call__(self, command: ThreadCommand, command_id: str, /) -> Awaitable[object]:
        """Send a command to the thread; the reply is there once it is durable."""
        ...


_LIVE = sys.maxsize
"""Orders what fails now after what was recorded."""

Describe = Callable[[BaseException], ErrorFact]


def settled_steps(
    run: str, events: Iterable[tuple[RecordedEvent, ThreadEvent]], *, resume: bool
) -> dict[str, StepEvents]:
    """Return what is recorded of the steps of a run, by name.

    With `resume`, a failure that is the last thing recorded of a run that did not end is forgotten, so that the step
    is tried again: the process died before it could say what the failure meant.
    """
    steps: dict[str, StepEvents] = {}
    last: str | None = None
    for recorded, event in events:
        if not isinstance(event, StepCompleted | StepFailed) or event.run != run:
            continue
        before = steps.get(event.step, StepEvents(None, 0, 0))
        final = isinstance(event, StepCompleted) or event.final
        attempts = event.attempt if isinstance(event, StepFailed) else before.attempts
        steps[event.step] = StepEvents(event if final else None, recorded.sequence, attempts)
        last = event.step
    if resume and last is not None and isinstance(steps[last].settled, StepFailed):
        steps[last] = StepEvents(None, 0, 0)
    return steps


class RunSteps:
    """The steps of one run of one thread, live (`sink` given) or replayed (`sink` None)."""

    def __init__(
        self,
        *,
        stream: str,
        run: str,
        owner: str | None,
        started_at: int,
        recorded: Mapping[str, StepEvents],
        sink: Sink | None,
        now: Clock,
        state: msgspec.Raw | None = None,
    ) -> None:
        self.stream = stream
        self.run = run
        self.owner = owner
        self.clock = started_at
        self.turn_at = started_at
        self.state = state
        self.executed: list[str] = []
        self.replayed: list[str] = []
        self.on_recorded: Callable[[str], None] | None = None
        self.rebuilt: dict[int, ThreadEvent] = {}
        self.stopped_by: Exception | None = None
        self.failures: list[tuple[int, int, str, ErrorFact]] = []
        self._recorded = dict(recorded)
        self._sink = sink
        self._now = now
        self._names: Counter[str] = Counter()
        self._runs: Counter[str] = Counter()
        self._prefixes: dict[str, str] = {}
        self._unsynced: list[Awaitable[object]] = []
        self._siblings = Siblings()

    @property
    def replaying(self) -> bool:
        """Whether nothing may run: everything comes from the journal."""
        return self._sink is None

    def begin_agent_run(self) -> str:
        """Return the id of an agent run that starts now: the run itself, or one of a sub-agent inside a step."""
        scope = current_scope()
        self._runs[scope] += 1
        number = self._runs[scope]
        own = scope if number == 1 else f"{scope}run:{number}/"
        run_id = f"{self.run}/{own}".rstrip("/")
        self._prefixes[run_id] = own
        return run_id

    def name(self, run_id: str | None, base: str) -> str:
        """Return the name of the next step of this kind: the second of the same name is `name#2`."""
        full = self._prefixes.get(run_id or "", "") + base
        self._names[full] += 1
        return full if self._names[full] == 1 else f"{full}#{self._names[full]}"

    async def turn(
        self,
        name: str,
        body: Callable[[], Awaitable[Produced]],
        *,
        request: dict[str, str],
        describe: Describe,
        tail: msgspec.Raw,
    ) -> Outcome:
        """Take a turn of the model, or another step that changes nothing outside."""
        self._siblings.begin_turn()
        if not current_scope():
            self.failures.clear()
        return await self._step(name, body, request, describe, tail, attempts=1)

    async def tool(
        self,
        name: str,
        body: Callable[[], Awaitable[Produced]],
        *,
        request: dict[str, str],
        describe: Describe,
        attempts: int,
    ) -> Outcome:
        """Call a tool, once everything before it is durable."""
        if not self._is_settled(name):
            if not self.replaying:
                await self.synced()
            await self._siblings.may_start(name, failed=self._failure_ahead())
        outcome = await self._step(name, body, request, describe, NOTHING, attempts=attempts)
        if outcome.error is not None:
            await self._siblings.fail(name)
        return outcome

    async def synced(self) -> None:
        """Wait until everything recorded so far is durable.

        Raises:
            RunEnded: the run was cancelled meanwhile.
            JournalError: a commit failed.
        """
        try:
            while self._unsynced:
                await self._unsynced.pop(0)
        except Exception as error:
            self.stopped_by = error
            raise

    def check_complete(self, *, failed: bool) -> None:
        """Refuse an end at which recorded steps were not asked for.

        When a tool failed, the loop may not have come to those beside it, so only turns count.

        Raises:
            ReplayDivergence: names the first of them.
        """
        for name, events in self._recorded.items():
            counts = events.settled is not None and "/" not in name and (name.startswith("llm:") or not failed)
            if counts and name not in self.replayed:
                raise self._diverged(name, events.sequence, "step", expected=name, actual="(not asked for)")

    def _failure_ahead(self) -> bool:
        """Whether the journal holds the failure of a tool that was not asked for yet."""
        return any(
            isinstance(events.settled, StepFailed) and name.startswith("tool:") and name not in self.replayed
            for name, events in self._recorded.items()
        )

    def _is_settled(self, name: str) -> bool:
        found = self._recorded.get(name)
        return found is not None and found.settled is not None

    async def _step(
        self,
        name: str,
        body: Callable[[], Awaitable[Produced]],
        request: dict[str, str],
        describe: Describe,
        tail: msgspec.Raw,
        *,
        attempts: int,
    ) -> Outcome:
        found = self._recorded.get(name)
        if found is not None and found.settled is not None:
            return self._replay(name, found.settled, found.sequence, request, tail)
        if self._sink is None:
            raise HistoryEnds(name)
        outcome = await self._attempt(self._sink, name, body, request, describe, tail, attempts, found)
        self.executed.append(name)
        if self.on_recorded is not None and "/" not in name:
            self.on_recorded(name)
        return outcome

    async def _attempt(
        self,
        sink: Sink,
        name: str,
        body: Callable[[], Awaitable[Produced]],
        request: dict[str, str],
        describe: Describe,
        tail: msgspec.Raw,
        attempts: int,
        found: StepEvents | None,
    ) -> Outcome:
        attempt = found.attempts if found else 0
        while True:
            attempt += 1
            try:
                with self._siblings.executing(name):
                    produced = await body()
                return self._completed(sink, name, request, tail, produced)
            except BaseException as error:
                if _is_signal(error):
                    raise
                # What a tool returned will not become JSON by calling it again.
                final = attempt >= attempts or isinstance(error, NotRepresentable)
                fact = self._attempted(sink, name, request, tail, attempt, describe(error), final=final)
                if final:
                    return Outcome(NOTHING, NOTHING, fact, ran=True)
            finally:
                self._siblings.ended(name)
            await self.synced()

    def _completed(
        self, sink: Sink, name: str, request: dict[str, str], tail: msgspec.Raw, produced: Produced
    ) -> Outcome:
        """Send a result to the thread: without a pause after the body, in which a cancel could lose it."""
        at = self._now()
        completed = CompleteStep(self.run, name, request, produced.result, at, tail, produced.usage, produced.state)
        self._unsynced.append(sink(completed, f"{self.run}/{name}"))
        if produced.state is not None:
            self.state = produced.state
        self._pass(name, at)
        return Outcome(produced.result, produced.usage, None, ran=True)

    def _attempted(
        self,
        sink: Sink,
        name: str,
        request: dict[str, str],
        tail: msgspec.Raw,
        attempt: int,
        fact: ErrorFact,
        *,
        final: bool,
    ) -> ErrorFact:
        """Send a failed attempt to the thread."""
        at = self._now()
        failed = FailStep(self.run, name, request, attempt, final, fact, at, tail)
        self._unsynced.append(sink(failed, f"{self.run}/{name}!{attempt}"))
        if final:
            self._pass(name, at)
            self._note_failure(name, fact, order=_LIVE)
        return fact

    def _note_failure(self, name: str, fact: ErrorFact, *, order: int) -> None:
        if name.startswith("tool:") and "/" not in name:
            self.failures.append((order, len(self.failures), name, fact))

    def _pass(self, name: str, at: int) -> None:
        """Move the run's clock, which is the time of the last thing recorded, so that it is the same on replay."""
        if "/" not in name:
            self.clock = max(self.clock, at)
            if name.startswith("llm:"):
                self.turn_at = self.clock

    def _replay(
        self,
        name: str,
        event: StepCompleted | StepFailed,
        sequence: int,
        request: dict[str, str],
        tail: msgspec.Raw,
    ) -> Outcome:
        for field in sorted(event.request.keys() | request.keys()):
            then, now = event.request.get(field, "(none)"), request.get(field, "(none)")
            if then != now:
                raise self._diverged(name, sequence, f"request.{field}", expected=then, actual=now)
        if not same_meaning(event.tail, tail):
            then, now = _text(event.tail), _text(tail)
            raise self._diverged(name, sequence, "messages since the last response", expected=then, actual=now)
        self.replayed.append(name)
        self._pass(name, event.at)
        if isinstance(event, StepFailed):
            self._note_failure(name, event.error, order=sequence)
            self.rebuilt[sequence] = StepFailed(
                self.run, name, request, event.attempt, event.final, event.error, event.at, event.tail
            )
            return Outcome(NOTHING, NOTHING, event.error, ran=False)
        self.rebuilt[sequence] = StepCompleted(self.run, name, request, event.result, event.at, event.tail, event.usage)
        return Outcome(event.result, event.usage, None, ran=False)

    def loaded(self, name: str, result: msgspec.Raw) -> None:
        """Compare what a replayed result becomes when it is encoded again.

        Raises:
            ReplayDivergence: the types it passes through no longer keep it.
        """
        found = self._recorded.get(name)
        if (
            found is not None
            and isinstance(found.settled, StepCompleted)
            and not same_meaning(found.settled.result, result)
        ):
            expected, actual = _text(found.settled.result), _text(result)
            raise self._diverged(name, found.sequence, "result", expected=expected, actual=actual)

    def _diverged(self, name: str, sequence: int, field: str, *, expected: str, actual: str) -> ReplayDivergence:
        divergence = ReplayDivergence(
            stream=self.stream,
            sequence=sequence,
            run=self.run,
            step=name,
            field=field,
            expected=expected,
            actual=actual,
        )
        self.stopped_by = divergence
        return divergence


_steps: ContextVar[RunSteps | None] = ContextVar("clew_run_steps", default=None)


def current_steps() -> RunSteps | None:
    """Return the steps of the run being driven here, or None outside of one."""
    return _steps.get()


@contextmanager
def driving(steps: RunSteps) -> Generator[None]:
    """Make `steps` the current ones."""
    token = _steps.set(steps)
    try:
        yield
    finally:
        _steps.reset(token)


def _is_signal(error: BaseException) -> bool:
    """Whether an exception is about the task, and not about the step: a cancellation from outside, our own signals."""
    if isinstance(error, HistoryEnds | ReplayDivergence):
        return True
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return False


def _text(raw: msgspec.Raw) -> str:
    return bytes(raw).decode()
