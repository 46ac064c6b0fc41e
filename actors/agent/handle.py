"""A conversation as its users hold it: start a run, wait for its answer, read what was said."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec
from pydantic_ai.messages import ModelMessage, UserContent

from ...journal import Journal, NotRepresentable, RecordedEvent
from ...journal.facts import RunCancelled as RunCancelledFact
from ...journal.facts import RunFailed as RunFailedFact
from ...journal.facts import RunFinished
from ...journal.facts import RunHalted as RunHaltedFact
from ...projections import Follow, Message, ThreadView, Usage, messages, view_of
from ..clock import random_id
from ..errors import RunCancelled, RunFailed, RunHalted, SystemClosed, UnknownThread
from ..ref import ActorRef
from ..reply import Reply, forbid_here
from ..thread import CancelRun, ResumeRun, StartRun, ThreadCommand, ThreadState
from .definition import AgentDefinition
from .drive import CATALOG
from .output import decode_output
from .wire import load_messages

if TYPE_CHECKING:
    from ..system import ActorSystem

__all__ = ["Answer", "Run", "Thread"]

Out = TypeVar("Out")

_USAGE = msgspec.json.Decoder(Usage)


@dataclass(frozen=True)
class Answer(Generic[Out]):
    """How a run ended: `stopped` is `"final"`, or `"max_turns"` when it ran out of turns (then `output` is None)."""

    run: str
    stopped: str
    output: Out
    usage: Usage


class Thread(Generic[Out]):
    """One conversation with one agent; cheap to make, safe to share."""

    def __init__(
        self,
        system: ActorSystem,
        definition: AgentDefinition[Any, Out],
        ref: ActorRef[ThreadCommand, ThreadState],
        *,
        owner: str | None,
        title: str | None,
    ) -> None:
        self._system = system
        self._definition = definition
        self._ref = ref
        self._owner = owner
        self._title = title

    @property
    def stream(self) -> str:
        """The stream of the conversation, `thread/KEY`."""
        return self._ref.stream

    @property
    def journal(self) -> Journal:
        """The journal that holds it."""
        return self._system.journal

    @property
    def key(self) -> str:
        """The key of the conversation."""
        return self.stream.partition("/")[2]

    def run(self, prompt: str | Sequence[UserContent], *, run_id: str | None = None) -> Run[Out]:
        """Ask the agent; returns at once with the run, which goes on by itself, also after a crash.

        Give a `run_id` to make asking twice safe: the second time gives the same run. The prompt is text, or
        pydantic-ai user content.

        Raises:
            MailboxFull, SystemClosed: the run was not started.

        Whether the thread refused it (`RunConflict`: busy; `UnknownThread`: not yours) shows when it is waited for.
        """
        run = run_id or f"run-{random_id()[:12]}"
        command = StartRun(
            run, self._definition.name, _encode_prompt(prompt), self._owner, self._title, self._system.clock()
        )
        # Without a command id of its own: the run id makes asking twice safe, and the owner is looked at each time.
        return Run(self, run, self._ref.ask(command))

    def attach(self, run_id: str) -> Run[Out]:
        """Return a run that was started before, to wait for it."""
        return Run(self, run_id, None)

    def cancel(self, run_id: str, *, reason: str = "cancelled") -> Reply[ThreadState]:
        """Stop a run; a run that has ended is left as it is. Wait for the reply to know that it is recorded."""
        return self._ref.ask(CancelRun(run_id, self._owner, reason, self._system.clock()))

    def resume(self, run_id: str) -> Reply[ThreadState]:
        """Drive a halted run again, with the agents of this system."""
        return self._ref.ask(ResumeRun(run_id, self._owner, self._system.clock()))

    def view(self) -> ThreadView:
        """Return the conversation at a glance: status, runs, usage.

        Raises:
            UnknownThread: there is none, or it is not yours.
        """
        return self._seen()

    def status(self, run_id: str) -> str:
        """Return where a run is: running, done, failed, cancelled or halted.

        Raises:
            UnknownThread: there is no such thread or run, or it is not yours.
        """
        run = self._seen().run(run_id)
        if run is None:
            raise UnknownThread(thread=f"{self.stream}, run {run_id}")
        return run.status

    def messages(self) -> list[ModelMessage]:
        """Return what was said, as pydantic-ai messages.

        Raises:
            UnknownThread: there is none, or it is not yours.
        """
        return load_messages(self.messages_json())

    def messages_json(self) -> list[Message]:
        """Return what was said, as JSON values."""
        self._seen()
        return messages(self._system.journal.read(self.stream))

    def state(self) -> Any:
        """Return the synced state as JSON values; None before it was first set."""
        raw = self._seen().state
        return None if raw is None else msgspec.json.decode(raw)

    def events(self, *, after: int = 0) -> Iterator[RecordedEvent]:
        """Yield the recorded events after a sequence.

        Raises:
            UnknownThread: there is none, or it is not yours.
        """
        self._seen()
        return self._system.journal.read(self.stream, after=after)

    async def follow(self, *, after: int = 0) -> AsyncIterator[RecordedEvent]:
        """Yield events as they become durable, from a sequence on: catch up, then live. Resumable.

        Raises:
            UnknownThread: there is none, or it is not yours.
        """
        self._seen()
        async with Follow(self._system.journal, self.stream, after=after) as events:
            async for event in events:
                yield event

    def _seen(self) -> ThreadView:
        view = view_of(self._system.journal.read(self.stream))
        if view.sequence == 0 or (view.owner is not None and view.owner != self._owner):
            raise UnknownThread(thread=self.stream)
        return view

    def ended(self, run: str, event: RecordedEvent) -> Answer[Out] | Exception | None:
        """Return how a run ended, if this event says so."""
        fact = CATALOG.decode(event) if event.type.name.startswith("run.") else None
        match fact:
            case RunFinished() if fact.run == run:
                output = cast("Out", decode_output(self._definition.agent, fact.output))
                return Answer(run, fact.stopped, output, _USAGE.decode(fact.usage))
            case RunFailedFact() if fact.run == run:
                reason = f"{fact.error.type}: {fact.error.message}"
                return RunFailed(thread=self.stream, run=run, reason=reason)
            case RunCancelledFact() if fact.run == run:
                return RunCancelled(thread=self.stream, run=run, reason=fact.reason)
            case RunHaltedFact() if fact.run == run:
                reason = f"step {fact.step}, {fact.field}: recorded {fact.expected}, now {fact.actual}"
                return RunHalted(thread=self.stream, run=run, reason=reason)
            case _:
                return None


class Run(Generic[Out]):
    """A run of a conversation, whoever waits for it or not."""

    def __init__(self, thread: Thread[Out], id: str, started: Reply[ThreadState] | None) -> None:  # noqa: A002
        self._thread = thread
        self.id = id
        self._started = started

    def __repr__(self) -> str:
        return f"Run({self._thread.stream!r}, {self.id!r})"

    def started(self, *, timeout_s: float | None = None) -> None:
        """Block until the run is recorded; from then on it goes on by itself.

        Raises:
            RunConflict: the thread is busy.
            UnknownThread: the thread is not yours.
            pykka.Timeout: not in time; ask again with the same `run_id`.
        """
        if self._started is not None:
            self._started.get(timeout=timeout_s)

    def result(self, *, timeout_s: float | None = None) -> Answer[Out]:
        """Block until the run has ended, and return its answer.

        Raises:
            RunConflict, UnknownThread: it was not started.
            RunFailed, RunCancelled, RunHalted: it ended without an answer.
            SystemClosed: the system closed first; the run goes on at the next opening.
            TimeoutError: not in time; the run goes on.
        """
        forbid_here()
        self.started(timeout_s=timeout_s)
        thread = self._thread
        thread.view()
        with Follow(thread.journal, thread.stream) as events:
            timer = threading.Timer(timeout_s, events.stop) if timeout_s is not None else None
            if timer is not None:
                timer.daemon = True
                timer.start()
            try:
                for event in events:
                    if (answer := self._answer(event)) is not None:
                        return answer
            finally:
                if timer is not None:
                    timer.cancel()
        if thread.journal.closed:
            raise SystemClosed(stream=thread.stream)
        raise TimeoutError(f"{thread.stream}: run {self.id} had not ended after {timeout_s} s; it goes on.")

    def __await__(self) -> Generator[Any, None, Answer[Out]]:
        """Wait on the running loop; raises like `result`."""
        return self._wait().__await__()

    async def _wait(self) -> Answer[Out]:
        thread = self._thread
        if self._started is not None:
            await self._started
        thread.view()
        async for event in thread.follow():
            if (answer := self._answer(event)) is not None:
                return answer
        raise SystemClosed(stream=thread.stream)

    def _answer(self, event: RecordedEvent) -> Answer[Out] | None:
        """Return the answer if this event holds it; raise if it says that there is none."""
        ended = self._thread.ended(self.id, event)
        if isinstance(ended, RunHalted) and self._thread.status(self.id) != "halted":
            # It was resumed later in the stream.
            return None
        if isinstance(ended, Exception):
            raise ended
        return ended


def _encode_prompt(prompt: str | Sequence[UserContent]) -> msgspec.Raw:
    if isinstance(prompt, str):
        try:
            return msgspec.Raw(msgspec.json.encode(prompt))
        except UnicodeEncodeError as error:
            reason = "the text holds half of a surrogate pair"
            raise NotRepresentable(event="the prompt", path="$", reason=reason) from error
    from pydantic_ai.messages import ModelRequest, UserPromptPart  # noqa: PLC0415  (rare)

    from .wire import dump_message  # noqa: PLC0415

    dumped = dump_message(ModelRequest([UserPromptPart(list(prompt))]))
    return msgspec.Raw(msgspec.json.encode(dumped["parts"][0]["content"]))
