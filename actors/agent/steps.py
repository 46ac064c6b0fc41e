"""The steps of one run: what is recorded comes from the journal, what is not runs and is recorded.

It knows nothing of models: a step is a name, digests of what was asked, and a body that returns JSON.

- A recorded step returns its result and never runs again. What is asked must be what was asked then.
- A tool starts only when everything before it is durable; a turn of the model may start while the results before it
  are still being synced, since it changes nothing outside. So a round of model and tools waits for the disk once.
- An attempt that raises is recorded. A tool is tried again as its policy says, also across crashes; when it fails
  for good, its siblings in flight end and are recorded before the failure goes on, so none of them runs twice.
- A step that waits for something outside asks for it once, and parks; the run goes on, driven anew from the journal,
  when the answer is there (`waits.py`).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec

from ...journal import NotRepresentable, PayloadTooLarge
from ...journal.facts import NOTHING, ErrorFact, StepCompleted, StepFailed
from ..clock import Clock
from ..decider import EventSourcedActor
from ..errors import ReplayDivergence
from ..functions import NO_FUNCTIONS
from ..schedule.action import RunAction
from ..thread import PAUSE, CompleteStep, FailStep, ThreadCommand
from .attempt import Attempt
from .names import StepNames
from .options import ToolPolicy
from .payload import check_fits
from .record import Record
from .recorded import NOT_RECORDED, Answer, Asked, HistoryEnds, Outcome, Produced, StepEvents, Waits
from .recording import LetGo, Recording, Sink
from .siblings import Siblings, current_scope
from .used import UsedSoFar

__all__ = ["ONCE", "AskFirst", "KindOf", "RunSteps", "Sink", "current_steps", "driving"]


_LIVE = sys.maxsize
"""Orders what fails now after what was recorded."""

CUT_OFF_S = 0.01
"""How long a step whose wait was cut off waits in vain before it is told so."""

ONCE = ToolPolicy(attempts=1)
"""How a turn of the model is run: the model's client has its own way to try again."""


KindOf = Callable[[str], EventSourcedActor[Any, Any, Any, Any]]
"""Returns the kind of the actor with a stream; raises `UnknownKind`."""


class AskFirst(BaseException):
    """A signal: a tool says that people are to be asked before it does anything. Never caught broadly."""


class RunSteps:
    """The steps of one run of one thread, live (`sink` given) or replayed (`sink` None)."""

    def __init__(
        self,
        *,
        stream: str,
        run: str,
        agent: str,
        owner: str | None,
        started_at: int,
        recorded: Mapping[str, StepEvents],
        sink: Sink | None,
        now: Clock,
        state: msgspec.Raw | None = None,
        waits: Waits | None = None,
    ) -> None:
        self.stream = stream
        self.run = run
        self.agent = agent
        self.owner = owner
        self.clock = started_at
        self.turn_at = started_at
        self.state = state
        self.on_recorded: Callable[[str], None] | None = None
        self.on_swallowed: Callable[[str], None] | None = None
        # What a tool's messages and schedules need to know of the agent and the system; no replay sends any.
        self.kind_of: KindOf | None = None
        self.make_run: Callable[[str], RunAction] | None = None
        self.paused: Callable[[], bool] | None = None
        self.find_artifact: Callable[[str], msgspec.Raw] | None = None
        self.functions = NO_FUNCTIONS
        self.failures: list[tuple[int, int, str, ErrorFact]] = []
        self.waits = Waits() if waits is None else waits
        self._told: set[str] = set()
        self.names = StepNames(run)
        self.recording = Recording(run, sink, self.waits)
        self.record = Record(stream, run, recorded, self.recording)
        # For what is recorded, never for what is decided.
        self.now = now
        self.siblings = Siblings()
        self.used = UsedSoFar()

    @property
    def replaying(self) -> bool:
        """Whether nothing may run: everything comes from the journal."""
        return self.recording.sink is None

    async def turn(self, asked: Asked, policy: ToolPolicy = ONCE) -> Outcome:
        """Take a turn of the model, or another step that changes nothing outside."""
        self.siblings.begin_turn()
        if not current_scope():
            self.failures.clear()
        if not self.record.is_settled(asked.name):
            await self._pause_here()
        return await self._step(asked._replace(needs=self.recording.not_durable()), policy)

    async def tool(self, asked: Asked, policy: ToolPolicy, *, spends: str | None = None) -> Outcome:
        """Call a tool, once everything before it is durable; `spends` is the approval that it uses up."""
        await self.may_start(asked.name)
        with self.siblings.under_way(asked.name):
            outcome = await self._step(asked, policy, spends)
            if outcome.error is not None:
                await self.siblings.fail(asked.name)
        return outcome

    async def may_start(self, name: str) -> None:
        """Wait until a tool may start, or be asked about: what was before is durable, and nothing beside it failed."""
        if self.record.is_settled(name):
            return
        if not self.replaying:
            with self.siblings.under_way(name):
                await self.recording.synced()
            await self._pause_here()
        with self.siblings.under_way(name):
            await self.siblings.may_start(name, failed=self.record.failure_ahead())

    async def wait(self, name: str, ask: Callable[[int], ThreadCommand], *, anew: int = 0) -> Answer:
        """Return what a step waited for: the recorded answer, however often this is driven again.

        Where there is none yet, `ask(now)` is the command that asks for it, once, and the run parks. With `anew` (a
        number of its own) an answer that was given before does not count: it was about something else.
        """
        if self.siblings.is_cut_off(scope := current_scope()):
            # Not at once: whoever catches that and asks again and again must not keep all others from running.
            await asyncio.sleep(CUT_OFF_S)
            raise self._swallowed(scope)
        answer = self.waits.answers.get(name)
        if answer is not None and not anew:
            if "/" not in name:
                self.clock = max(self.clock, answer.at)
            return answer
        if self.recording.sink is None:
            raise HistoryEnds(name)
        command = ask(self.now()) if answer is not None or name not in self.waits.asked else None
        try:
            if command is not None:
                self.recording.send(command, f"{self.run}/{name}?{anew or ''}")
                with self.siblings.under_way(name):
                    await self.recording.synced()
            return await self.siblings.park(name)
        except BaseException as error:
            self.siblings.cut_off(name, error)
            if isinstance(error, Exception):
                # It could not be asked for. A tool that caught that would go on without an answer.
                raise LetGo from error
            raise

    def check_here(self) -> None:
        """Refuse to do anything more in a step whose wait was cut off.

        Raises:
            LetGo: it goes on in spite of the cancel.
        """
        if self.siblings.is_cut_off(scope := current_scope()):
            raise self._swallowed(scope)

    def _swallowed(self, scope: str) -> LetGo:
        """Return what ends a step that went on in spite of the cancel of its wait; tell of it once."""
        if self.on_swallowed is not None and scope not in self._told:
            self._told.add(scope)
            self.on_swallowed(scope.rstrip("/"))
        return LetGo()

    async def _pause_here(self) -> None:
        if not self.replaying and (self.waits.pausing or (self.paused is not None and self.paused())):
            await self.siblings.park(PAUSE)

    async def _step(self, asked: Asked, policy: ToolPolicy, spends: str | None = None) -> Outcome:
        found = self.record.find(asked.name)
        if found.settled is not None:
            return self._replay(asked, found.settled, found.sequence)
        if self.recording.sink is None:
            raise HistoryEnds(asked.name)
        outcome = await self._attempts(asked, Attempt(self, asked.name, policy, found, spends))
        if self.on_recorded is not None and "/" not in asked.name:
            self.on_recorded(asked.name)
        return outcome

    async def _attempts(self, asked: Asked, attempt: Attempt) -> Outcome:
        scope = f"{asked.name}/"
        while True:
            await attempt.begin()
            try:
                self.names.begin_attempt(asked.name)
                with self.siblings.executing(asked.name):
                    produced = await attempt.run(asked.body)
                    if self.siblings.is_cut_off(scope):
                        raise self._swallowed(scope)
                    # Without a pause after the body, in which a cancel could lose what it did.
                    return self._completed(asked, produced)
            except BaseException as error:
                if self._is_signal(error):
                    raise
                if self.siblings.is_cut_off(scope):
                    raise self._swallowed(scope) from error
                # What a tool returned will not become JSON, or smaller, by calling it again.
                final = attempt.is_last(error) or isinstance(error, NotRepresentable | PayloadTooLarge)
                fact = asked.describe(error)
                until = None if final else attempt.until(self.now())
                self._failed(asked, fact, attempt.number, until=until, final=final)
                if final:
                    return Outcome(NOTHING, NOTHING, fact, ran=True)
            finally:
                self.siblings.ended(asked.name)
            await self.recording.synced()

    def _completed(self, asked: Asked, produced: Produced) -> Outcome:
        state = None if produced.state is None else produced.state(self.state)
        at, name = self.now(), asked.name
        payloads = [produced.result, *(message.payload for message in produced.messages)]
        payloads += [artifact.content for artifact in produced.artifacts]
        check_fits(f"what {name} made", *payloads, *(() if state is None else (state,)))
        self.recording.send(
            CompleteStep(
                self.run,
                name,
                asked.request,
                produced.result,
                at,
                asked.tail,
                produced.usage,
                state,
                produced.messages,
                produced.schedules,
                asked.approval,
                produced.outcome,
                asked.needs,
                produced.artifacts,
            ),
            f"{self.run}/{name}",
            completes=name,
        )
        if state is not None:
            self.state = state
        done = StepCompleted(self.run, name, asked.request, produced.result, at, asked.tail, produced.usage)
        self.used.note(done)
        self.record.note_within(name, NOT_RECORDED._replace(settled=done))
        self._pass(name, at)
        return Outcome(produced.result, produced.usage, None, ran=True)

    def _failed(self, asked: Asked, fact: ErrorFact, attempt: int, *, until: int | None, final: bool) -> None:
        at, name = self.now(), asked.name
        self.recording.send(
            FailStep(self.run, name, asked.request, attempt, final, fact, at, asked.tail, until, asked.approval),
            f"{self.run}/{name}!{attempt}",
        )
        self.record.note_within(name, NOT_RECORDED._replace(attempts=attempt))
        if final:
            self._pass(name, at)
            self._note_failure(name, fact, order=_LIVE)

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
        self.record.replay(asked, event, sequence)
        self._pass(asked.name, event.at)
        if isinstance(event, StepFailed):
            self._note_failure(asked.name, event.error, order=sequence)
            return Outcome(NOTHING, NOTHING, event.error, ran=False)
        self.used.note(event)
        return Outcome(event.result, event.usage, None, ran=False)

    def _is_signal(self, error: BaseException) -> bool:
        """Whether an error is about the task, not the step: a cancel from outside, our own signals, a closed system."""
        if isinstance(error, HistoryEnds | ReplayDivergence | LetGo | AskFirst) or error is self.recording.stopped_by:
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
