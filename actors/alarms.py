"""The clock that wakes actors: one thread that sleeps until the first alarm is due, whatever number there is.

Alarms are cells in the order in which they are due, written with the events that set, move or cancel them. One look
goes from the place where the last one ended to the first that is not due yet:

1. each actor whose alarm is due is sent it, and woken for that; so many at a time, and each has one at a time;
2. the alarm is over when the events that it led to have moved the due: its cell is then gone;
3. an actor that answers without moving its due is sent it again after a while, longer each time;
4. then nothing happens until the first alarm that is left is due, or an actor files an earlier one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

from ..journal import CellWrite, Journal, JournalClosed, JournalForked, StreamDeleted
from ..journal.history import ALARMS, alarm_due, alarm_mark, filed_due, refile
from .backoff import Backoff
from .clock import Clock
from .errors import SystemClosed

if TYPE_CHECKING:
    from .reply import Reply

__all__ = ["AlarmClock"]

RINGING_MAX: Final = 256
"""How many alarms may be without an answer at a time."""

LOOK_S: Final = 30.0
"""How long the wall clock is trusted not to have been set, nor the machine to have slept."""

TRY_AGAIN: Final = 1_000_000_000
"""Nanoseconds until the journal is read again after that failed."""


@runtime_checkable
class _Steered(Protocol):
    """A clock that says when it is moved, so that nobody waits for real time to pass."""

    def subscribe(self, callback: Callable[[], None], /) -> None: ...

    def unsubscribe(self, callback: Callable[[], None], /) -> None: ...


class _Rung(NamedTuple):
    """An alarm that was sent `at` a time, and what is answered."""

    stream: str
    due: int
    at: int
    reply: Reply[object]


class AlarmClock:
    """Sends actors their alarms when they are due by `clock`, at least once each; `start` begins it.

    `ring(stream, at)` sends an alarm, and `report` is told of those that failed. A clock with `subscribe` is waited for
    alone: no real time counts then.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        ring: Callable[[str, int], Reply[object]],
        report: Callable[[str, str, BaseException], None],
    ) -> None:
        self._cells = journal.cells
        self._clock = clock
        self._ring = ring
        self._report = report
        self._steered = clock if isinstance(clock, _Steered) else None
        self._thread: threading.Thread | None = None
        # What other threads tell it, under the lock of this condition.
        self._told = threading.Condition()
        self._stopping = False
        self._expected: int | None = None
        self._answered: deque[_Rung] = deque()
        # What its own thread knows: whose answers it waits for, the last alarm it looked at, and when the next is due.
        self._ringing: set[str] = set()
        self._resting = Backoff()
        self._after = ALARMS
        self._next: int | None = 0
        self._now = 0

    def start(self) -> None:
        """Begin to send alarms, the overdue ones at once; unless it was begun, or closed, before."""
        with self._told:
            if self._thread is not None or self._stopping:
                return
            self._thread = threading.Thread(target=self._run, name="clew-alarms", daemon=True)
            self._thread.start()

    def expect(self, due: int) -> None:
        """Look at the alarms from `due` on once it is reached: one was filed there. Quick, and safe on any thread."""
        with self._told:
            if self._expected is None or due < self._expected:
                self._expected = due
                if self._next is None or due < self._next:
                    self._told.notify()

    def close(self) -> None:
        """Send no more. Those that were sent are handled like any other message."""
        with self._told:
            self._stopping = True
            self._told.notify()
        if self._thread is not None:
            self._thread.join()

    def _move(self) -> None:
        with self._told:
            self._told.notify()

    def _answer(self, rung: _Rung) -> None:
        with self._told:
            self._answered.append(rung)
            self._told.notify()

    def _run(self) -> None:
        if self._steered is None:
            self._watch()
            return
        self._steered.subscribe(self._move)
        try:
            self._watch()
        finally:
            self._steered.unsubscribe(self._move)

    def _watch(self) -> None:
        while self._wait():
            try:
                self._look()
            except (JournalClosed, JournalForked) as error:
                self._report("alarms", "no more alarms fire: the journal is closed", error)
                return
            except Exception as error:  # noqa: BLE001  (a disk may read again, and without this thread no alarm fires)
                self._next = self._clock() + TRY_AGAIN
                self._report("alarms", "they could not be looked at; it is tried again", error)

    def _wait(self) -> bool:
        """Wait until there is something to do; False when it is to end."""
        with self._told:
            while not (self._stopping or self._answered):
                left = self._left()
                if left is None or (self._steered is not None and left > 0):
                    self._told.wait()
                elif left > 0:
                    self._told.wait(min(left / 1e9, LOOK_S))
                else:
                    break
            return not self._stopping

    def _left(self) -> int | None:
        """Return the nanoseconds until something is due; None when there is nothing."""
        now = self._clock()
        if now < self._now:
            self._resting.step_back(now)
        self._now = now
        times = [at for at in (self._next, self._expected, self._resting.next_end()) if at is not None]
        return min(times) - now if times else None

    def _look(self) -> None:
        self._settle()
        # Room first: a rest that has ended is forgotten unless it is followed by an alarm.
        while self._make_room() and (rested := self._resting.ended(self._clock())) is not None:
            self._send(*rested)
        self._note_expected()
        if self._next is None or self._next > self._clock():
            return
        for mark, value in self._cells.scan(ALARMS, after=self._after):
            due = alarm_due(mark)
            if due > self._clock():
                self._next = due
                return
            if not self._send(value.decode(), due):
                return
            self._after = mark
        self._next = None

    def _note_expected(self) -> None:
        """Let the next look begin where an alarm was filed that is due, if it was filed before its place."""
        with self._told:
            expected = self._expected
            if expected is None or expected > self._clock():
                return
            self._expected = None
        self._after = min(self._after, alarm_mark(expected, ""))
        self._next = expected

    def _send(self, stream: str, due: int) -> bool:
        """Send an actor its alarm, unless it has it, rests, or filed another one since; False when it is to end."""
        if not self._make_room():
            return False
        now = self._clock()
        if stream in self._ringing or self._resting.holds(stream, due, now):
            return True
        filed = self._filed(stream, due)
        if filed != due:
            self._resting.forget(stream)
            self._remove_stray(stream, due, filed)
            return True
        try:
            reply = self._ring(stream, now)
        except Exception as error:  # noqa: BLE001  (it concerns this actor alone)
            self._failed(stream, due, now, error)
            return True
        self._ringing.add(stream)
        reply.when_done(partial(self._answer, _Rung(stream, due, now, reply)))
        return True

    def _make_room(self) -> bool:
        """Wait until one more may be sent; False when it is to end."""
        while len(self._ringing) >= RINGING_MAX:
            with self._told:
                while not (self._stopping or self._answered):
                    self._told.wait()
            if self._stopping:
                return False
            self._settle()
        return not self._stopping

    def _settle(self) -> None:
        """Look at what became of the alarms that were answered."""
        while self._answered:
            stream, due, at, reply = self._answered.popleft()
            self._ringing.discard(stream)
            filed = self._filed(stream, due)
            try:
                reply.get(timeout=0)
            except Exception as error:  # noqa: BLE001  (whatever the actor was told)
                self._failed(stream, due, at, error)
            else:
                if filed == due:
                    self._resting.begin(stream, due, at)
            if filed != due:
                self._resting.forget(stream)
                if filed is not None:
                    # A look may have passed it by while the answer was waited for.
                    self.expect(filed)

    def _failed(self, stream: str, due: int, at: int, error: Exception) -> None:
        """Let an actor rest that could not be sent its alarm, or refused it."""
        self._resting.begin(stream, due, at)
        if isinstance(error, StreamDeleted):
            # It went with its stream; only the cell was left.
            self._cells.write(refile(stream, due, None, only_if=True))
        elif not isinstance(error, SystemClosed):
            self._report(stream, "its alarm was not handled; it is sent again", error)

    def _filed(self, stream: str, due: int) -> int | None:
        try:
            return filed_due(self._cells, stream)
        except Exception:
            self._resting.begin(stream, due, self._clock())
            raise

    def _remove_stray(self, stream: str, due: int, filed: int | None) -> None:
        """Remove the cell of an alarm that is filed elsewhere, unless it was moved there a moment ago."""
        mark = alarm_mark(due, stream)
        if self._cells.get(mark) is not None:
            self._cells.write([*refile(stream, filed, filed, only_if=True), CellWrite(mark, None)])
