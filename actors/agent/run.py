"""A run as its users hold it: wait for its answer, here or on a loop, now or days later."""

from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from ...journal import RecordedEvent
from ...journal.facts import RunCancelled as RunCancelledFact
from ...journal.facts import RunFailed as RunFailedFact
from ...journal.facts import RunFinished, RunParked
from ...journal.facts import RunHalted as RunHaltedFact
from ...projections import Follow, Usage
from ...projections.usage import told_usage
from ..errors import RunCancelled, RunFailed, RunHalted, SystemClosed, UnknownRun
from ..reply import Reply, forbid_here
from ..thread import ThreadState
from .output import decode_output
from .recorded_run import CATALOG

if TYPE_CHECKING:
    from .handle import Thread

__all__ = ["Answer", "Run"]

Out = TypeVar("Out")


@dataclass(frozen=True)
class Answer(Generic[Out]):
    """How a run ended: `stopped` is `"final"`, or why it took no further turn, as `"max_turns"` or `"budget"`.

    Where it has no answer, `output` is None.
    """

    run: str
    stopped: str
    output: Out
    usage: Usage


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
            RunConflict, UnknownRun, UnknownThread: it was not started.
            RunFailed, RunCancelled, RunHalted: it ended without an answer.
            SystemClosed: the system closed first; the run goes on at the next opening.
            TimeoutError: not in time; the run goes on.
        """
        forbid_here()
        self.started(timeout_s=timeout_s)
        thread = self._thread
        self._check_known()
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
        self._check_known()
        async for event in thread.follow():
            if (answer := self._answer(event)) is not None:
                return answer
        raise SystemClosed(stream=thread.stream)

    def _check_known(self) -> None:
        """Refuse to wait for a run that never was."""
        if self._thread.view().run(self.id) is None:
            raise UnknownRun(thread=self._thread.stream, run=self.id)

    def _answer(self, event: RecordedEvent) -> Answer[Out] | None:
        """Return the answer if this event holds it; raise if it says that there is none."""
        ended = self._ended(event)
        if isinstance(ended, RunHalted) and self._thread.status(self.id) not in ("halted", "parked"):
            # It was resumed later in the stream.
            return None
        if isinstance(ended, Exception):
            raise ended
        return ended

    def _ended(self, event: RecordedEvent) -> Answer[Out] | Exception | None:
        """Return how the run ended, if this event says so."""
        run, stream = self.id, self._thread.stream
        fact = CATALOG.decode(event) if event.type.name.startswith("run.") else None
        match fact:
            case RunFinished() if fact.run == run:
                output = cast("Out", decode_output(self._thread.definition.agent, fact.output))
                return Answer(run, fact.stopped, output, told_usage(fact.usage))
            case RunFailedFact() if fact.run == run:
                reason = f"{fact.error.type}: {fact.error.message}"
                return RunFailed(thread=stream, run=run, reason=reason)
            case RunCancelledFact() if fact.run == run:
                return RunCancelled(thread=stream, run=run, reason=fact.reason)
            case RunHaltedFact() if fact.run == run:
                reason = f"step {fact.step}, {fact.field}: recorded {fact.expected}, now {fact.actual}"
                return RunHalted(thread=stream, run=run, reason=reason)
            case RunParked() if fact.run == run:
                return RunHalted(thread=stream, run=run, reason=fact.reason)
            case _:
                return None
