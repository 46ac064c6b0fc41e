"""The thread that seals in the background: when there is enough to seal, or when nothing else happens."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from ..errors import JournalClosed, JournalError, JournalFull
from .index import Index
from .sealing import Sealing

__all__ = ["Sealer"]

_log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
_IDLE_EVENTS: Final = 1000
_FULL_S: Final = 30.0
_FINISH_S: Final = 3.0
_TIMES: Final = ((50_000, 1), (100_000, 4))
"""How large its transactions are, while fewer events wait than this."""

_TIMES_MAX: Final = 16
_PATIENCE: Final = ((50_000, 4.0), (100_000, 1.0))
"""While others append and fewer events wait than this, it rests so many times as long as it works."""


class Sealer:
    """Seals once `after_events` are in the log, or a thousand and a second has passed without an append.

    While others append it works a fifth of the time, and more when they bring more than it can seal.
    """

    def __init__(self, index: Index, sealing: Sealing, *, after_events: int) -> None:
        self._index = index
        self._sealing = sealing
        self._after_events = after_events
        self.due_events = min(after_events, _IDLE_EVENTS)
        """With how many events in the log `wake` is to be called."""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._due = threading.Event()
        self._thread: threading.Thread | None = None
        self._begun: float = 0.0
        self._position: int = 0

    def wake(self) -> None:
        """Look whether there is something to do, now and every second from now on."""
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._ended.is_set():
                    self._thread = threading.Thread(target=self._run, name="clew-journal-sealer", daemon=True)
                    self._thread.start()
        if self._waiting() >= self._after_events:
            self._due.set()

    def close(self, *, wait: bool) -> None:
        """Stop after the transaction under way; with `wait`, when it is done, and seal what there is for a moment."""
        with self._lock:
            self._ended.set()
        self._due.set()
        thread = self._thread
        # A journal that nobody holds any more may be closed by the collector, on any thread: also on ours.
        if wait and thread is not threading.current_thread():
            if thread is not None:
                thread.join()
            self._finish()

    def _finish(self) -> None:
        """Seal what there is if that is worth it, for a moment: whoever opens the journal next is glad of it."""
        if self._waiting() < self.due_events:
            return
        deadline = time.monotonic() + _FINISH_S
        try:
            self._sealing.cycle(lambda: time.monotonic() < deadline, times=lambda: _TIMES_MAX)
        except JournalError:
            # What cannot be sealed now stays in the log, where it is as safe.
            _log.info("the log was not sealed on closing", exc_info=True)

    def _waiting(self) -> int:
        return self._index.position - self._index.sealed

    def _run(self) -> None:
        position: int | None = None
        while not self._ended.is_set():
            idle, position = position == self._index.position, self._index.position
            if self._waiting() >= (self.due_events if idle else self._after_events):
                if not self._seal():
                    return
                continue
            self._due.wait(_LOOK_S)
            self._due.clear()

    def _seal(self) -> bool:
        """Seal what there is; return whether to go on."""
        before = self._index.sealed
        self._begun, self._position = time.monotonic(), self._index.position
        try:
            self._sealing.cycle(self._pause, times=self._times)
        except JournalFull:
            # Appends are told by their own failures. Here it is worth another try when somebody has made room.
            self._ended.wait(_FULL_S)
        except JournalClosed:
            return False
        except JournalError:
            if not self._ended.is_set():
                _log.exception("sealing has stopped; the journal goes on, and its log grows")
            return False
        if self._index.sealed == before and not self._ended.is_set():
            # Something in the log cannot be sealed: `verify` says what. Do not try again at once.
            self._ended.wait(_FULL_S)
        return not self._ended.is_set()

    def _times(self) -> int:
        """Return how large a transaction may be: the more there is to do, the less it matters who waits for it."""
        return next((times for events, times in _TIMES if self._waiting() < events), _TIMES_MAX)

    def _pause(self) -> bool:
        """Leave the machine to others for a while, if they want it; return whether to go on."""
        worked_s = time.monotonic() - self._begun
        patience = next((times for events, times in _PATIENCE if self._waiting() < events), 0.0)
        if self._index.position != self._position and patience:
            self._ended.wait(min(worked_s * patience, _LOOK_S))
        self._begun, self._position = time.monotonic(), self._index.position
        return not self._ended.is_set()
