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
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import msgspec

from ...journal import NotRepresentable
from ...journal.facts import NOTHING, ErrorFact, StepCompleted, StepFailed, ThreadEvent
from ..clock import Clock
from ..errors import ReplayDivergence
from ..thread import CompleteStep, FailStep, ThreadCommand
from .meaning import same_meaning
from .recorded import NOT_RECORDED, Asked, HistoryEnds, Outcome, Produced, StepEvents
from .siblings import Siblings, current_scope

__all__ = ["RunSteps", "Sink", "current_steps", "driving"]


class Sink(Protocol):
    """Where new steps go; None in a replay, which may not make any."""

    def __call__(self, command: ThreadCommand, command_id: str, /) -> Awaitable[object]:
        """Send a command to the thread; the reply is there once it is durable."""
        ...


_LIVE = sys.maxsize
"""Orders what fails now after what was recorded."""


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

    async def turn(self, asked: Asked) -> Outcome:
        """Take a turn of the model, or another step that changes nothing outside."""
        self._siblings.begin_turn()
        if not current_scope():
            self.failures.clear()
        return await self._step(asked, attempts=1)

    async def tool(self, asked: Asked, *, attempts: int) -> Outcome:
        """Call a tool, once everything before it is durable."""
        if not self._is_settled(asked.name):
            if not self.replaying:
                await self.synced()
            await self._siblings.may_start(asked.name, failed=self._failure_ahead())
        outcome = await self._step(asked, attempts=attempts)
        if outcome.error is not None:
            await self._siblings.fail(asked.name)
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

    async def _step(self, asked: Asked, *, attempts: int) -> Outcome:
        found = self._recorded.get(asked.name, NOT_RECORDED)
        if found.settled is not None:
            return self._replay(asked, found.settled, found.sequence)
        if self._sink is None:
            raise HistoryEnds(asked.name)
        outcome = await self._attempt(asked, attempts=attempts, before=found.attempts)
        if self.on_recorded is not None and "/" not in asked.name:
            self.on_recorded(asked.name)
        return outcome

    async def _attempt(self, asked: Asked, *, attempts: int, before: int) -> Outcome:
        attempt = before
        while True:
            attempt += 1
            try:
                with self._siblings.executing(asked.name):
                    produced = await asked.body()
                # Without a pause after the body, in which a cancel could lose what it did.
                return self._completed(asked, produced)
            except BaseException as error:
                if self._is_signal(error):
                    raise
                # What a tool returned will not become JSON by calling it again.
                final = attempt >= max(attempts, before + 1) or isinstance(error, NotRepresentable)
                fact = asked.describe(error)
                self._failed(asked, fact, attempt, final=final)
                if final:
                    return Outcome(NOTHING, NOTHING, fact, ran=True)
            finally:
                self._siblings.ended(asked.name)
            await self.synced()

    def _completed(self, asked: Asked, produced: Produced) -> Outcome:
        at, name = self._now(), asked.name
        self._send(
            CompleteStep(
                self.run, name, asked.request, produced.result, at, asked.tail, produced.usage, produced.state
            ),
            f"{self.run}/{name}",
        )
        if produced.state is not None:
            self.state = produced.state
        self._pass(name, at)
        return Outcome(produced.result, produced.usage, None, ran=True)

    def _failed(self, asked: Asked, fact: ErrorFact, attempt: int, *, final: bool) -> None:
        at, name = self._now(), asked.name
        self._send(
            FailStep(self.run, name, asked.request, attempt, final, fact, at, asked.tail),
            f"{self.run}/{name}!{attempt}",
        )
        if final:
            self._pass(name, at)
            self._note_failure(name, fact, order=_LIVE)

    def _send(self, command: ThreadCommand, command_id: str) -> None:
        if self._sink is None:
            raise HistoryEnds(command_id)
        try:
            self._unsynced.append(self._sink(command, command_id))
        except Exception as error:
            self.stopped_by = error
            raise

    def _note_failure(self, name: str, fact: ErrorFact, *, order: int) -> None:
        if name.startswith("tool:") and "/" not in name:
            self.failures.append((order, len(self.failures), name, fact))

    def _pass(self, name: str, at: int) -> None:
        """Move the run's clock, which is the time of the last thing recorded, so that it is the same on replay."""
        if "/" not in name:
            self.clock = max(self.clock, at)
            if name.startswith("llm:"):
                self.turn_at = self.clock

    def _replay(self, asked: Asked, event: StepCompleted | StepFailed, sequence: int) -> Outcome:
        """Return the recorded outcome, if what is asked is what was asked then."""
        name, request = asked.name, asked.request
        # A later version may take other digests; those that both have must be equal.
        for field in sorted(event.request.keys() & request.keys()):
            then, now = event.request[field], request[field]
            if then != now:
                raise self._diverged(name, sequence, f"request.{field}", expected=then, actual=now)
        if not same_meaning(event.tail, asked.tail):
            then, now = _text(event.tail), _text(asked.tail)
            raise self._diverged(name, sequence, "messages since the last response", expected=then, actual=now)
        self.replayed.append(name)
        self._pass(name, event.at)
        self.rebuilt[sequence] = msgspec.structs.replace(event, run=self.run, step=name)
        if isinstance(event, StepFailed):
            self._note_failure(name, event.error, order=sequence)
            return Outcome(NOTHING, NOTHING, event.error, ran=False)
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

    def _is_signal(self, error: BaseException) -> bool:
        """Whether an error is about the task, not the step: a cancel from outside, our own signals, a closed system."""
        if isinstance(error, HistoryEnds | ReplayDivergence) or error is self.stopped_by:
            return True
        task = asyncio.current_task()
        return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


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


def _text(raw: msgspec.Raw) -> str:
    return bytes(raw).decode()
