"""Keep durable projections up to date while the journal grows, each on a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self

from ..journal import Journal, JournalClosed, JournalFull
from .batch import BATCH_BYTES_MAX, BATCH_EVENTS_MAX
from .durable import DurableProjection
from .rebuild import RebuildReport, rebuild
from .rows import RowProjection
from .status import ProjectionStatus

__all__ = ["ProjectionRunner"]

_log = logging.getLogger(__name__)

_BACKOFF_S_MAX: Final = 30.0


class ProjectionRunner:
    """Folds `projections` of `journal` in the background, woken by its writer; use it in a `with` block.

    One projection that fails stands still alone: its event is tried `attempts` times, `backoff_s` seconds apart and
    twice as long each time, then it is parked, also for the next process; the others and the journal go on.
    `status` lists it with what to do, and `retry` lets it go on. A full disk is waited for in the same way, without
    an end. Leaving the block stops the threads after the batch in hand; the next runner goes on from there.

    ```python
    with ProjectionRunner(journal, [thread_list]) as runner:
        runner.settle()
    ```

    Raises:
        ValueError: two projections share a name.
    """

    def __init__(
        self,
        journal: Journal,
        projections: Iterable[RowProjection[Any, Any]],
        *,
        batch_events_max: int = BATCH_EVENTS_MAX,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        attempts: int = 3,
        backoff_s: float = 0.1,
    ) -> None:
        self._journal = journal
        self._workers: dict[str, _Worker] = {}
        for projection in projections:
            if projection.name in self._workers:
                raise ValueError(f"two projections are named {projection.name!r}: give each a name of its own")
            durable = DurableProjection(
                journal,
                projection,
                batch_events_max=batch_events_max,
                batch_bytes_max=batch_bytes_max,
                attempts=attempts,
            )
            self._workers[projection.name] = _Worker(durable, backoff_s)
        self._unwatch: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        """Begin to fold."""
        self._unwatch = self._journal.watch(self._wake)
        for worker in self._workers.values():
            worker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop after the batch in hand."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        for worker in self._workers.values():
            worker.stop()
        for worker in self._workers.values():
            worker.join()

    def settle(self, *, timeout_s: float | None = None) -> None:
        """Wait until what is durable now counts in every projection, but for those that are parked or have stopped.

        Raises:
            TimeoutError: a projection is not there yet; it goes on.
            RuntimeError: outside of the `with` block, where nothing runs.
        """
        if self._unwatch is None:
            raise RuntimeError("settle inside the block: `with ProjectionRunner(...) as runner: runner.settle()`")
        for name, (worker, asked) in {name: (worker, worker.ask()) for name, worker in self._workers.items()}.items():
            if not worker.wait(asked, timeout_s):
                raise TimeoutError(f"projection {name!r} has not caught up after {timeout_s} s; it goes on.")

    def status(self) -> list[ProjectionStatus]:
        """Return how each projection is doing, and what to do about those that are parked."""
        return [status for worker in self._workers.values() for status in worker.durable.status()]

    @property
    def stopped(self) -> dict[str, Exception]:
        """The projections whose threads ended because the journal could not be written, or by a fault of ours."""
        return {name: worker.error for name, worker in self._workers.items() if worker.error is not None}

    def retry(self, name: str) -> bool:
        """Let a parked projection try its event again; return whether it was parked.

        Raises:
            KeyError: no projection of this runner has that name.
        """
        worker = self._workers[name]
        was_parked = worker.durable.retry()
        worker.wake()
        return was_parked

    def rebuild(self, name: str, *, accept: bool = False) -> RebuildReport:
        """Fold a projection again from the first event, compare, and switch; see `rebuild`.

        Raises:
            KeyError: no projection of this runner has that name.
        """
        worker = self._workers[name]
        report = rebuild(worker.durable, accept=accept)
        worker.wake()
        return report

    def _wake(self) -> None:
        for worker in self._workers.values():
            worker.wake()


class _Worker:
    """One thread that keeps one projection up to date."""

    def __init__(self, durable: DurableProjection[Any, Any], backoff_s: float) -> None:
        self.durable = durable
        self.error: Exception | None = None
        self._backoff_s = backoff_s
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._settled = threading.Condition()
        self._asked = self._answered = 0
        self._ended = False
        self._thread = threading.Thread(
            target=self._run, name=f"clew-projection-{durable.projection.name}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._woken.set()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def wake(self) -> None:
        self._woken.set()

    def ask(self) -> int:
        """Ask for a look at the journal that begins after now."""
        with self._settled:
            self._asked += 1
            asked = self._asked
        self._woken.set()
        return asked

    def wait(self, asked: int, timeout_s: float | None) -> bool:
        with self._settled:
            return self._settled.wait_for(lambda: self._ended or self._answered >= asked, timeout_s)

    def _run(self) -> None:
        try:
            self._keep_up()
        except JournalClosed:
            pass
        except Exception as error:  # noqa: BLE001  (it is told to whoever asks; nobody waits for a thread)
            self.error = error
            _log.exception("projection %s has stopped", self.durable.projection.name)
        finally:
            with self._settled:
                self._ended = True
                self._settled.notify_all()

    def _keep_up(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            self._woken.clear()
            asked = self._asked
            try:
                outcome = self.durable.advance()
            except JournalFull as error:
                _log.warning("projection %s waits for room: %s", self.durable.projection.name, error)
                outcome = "failed"
            failures = failures + 1 if outcome == "failed" else 0
            if outcome == "failed":
                self._stopping.wait(min(self._backoff_s * 2 ** min(failures - 1, 30), _BACKOFF_S_MAX))
            elif outcome != "more":
                self._answer(asked)
                if self.durable.journal.closed:
                    return
                self._woken.wait()

    def _answer(self, asked: int) -> None:
        with self._settled:
            self._answered = asked
            self._settled.notify_all()
