"""What another process appends and deletes, told to the watchers of a handle that only reads."""

from __future__ import annotations

import os
import threading

from ..errors import JournalClosed, JournalError
from ..watch import Watchers
from .commits import Commits
from .execute import Reading
from .statements import LAST_POSITION, TOUCHED

__all__ = ["Tail"]


class Tail:
    """Runs no commits, for there are none; looks for news every `poll_s` seconds, once somebody wants to hear of it."""

    def __init__(self, commits: Commits, database: Reading, watchers: Watchers, *, poll_s: float) -> None:
        self._commits = commits
        self._database = database
        self._watchers = watchers
        self._poll_s = poll_s
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._position = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self) -> None:
        """Look for news from now on."""
        with self._lock:
            if self._thread is None:
                self._position = self._last()
                self._thread = threading.Thread(target=self._poll, name="clew-journal-tail", daemon=True)
                self._thread.start()

    def wake(self) -> None:
        """See `Runner.wake`."""

    def close(self) -> None:
        """See `Runner.close`."""
        if os.getpid() != self._pid:
            return
        self._commits.end("close() was called")
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._commits.finish()

    def _poll(self) -> None:
        while not self._ended.wait(self._poll_s):
            try:
                self._commits.check()
                self._watchers.notify(self._touched())
            except JournalClosed:
                return
            except JournalError:
                # Whoever is told will read, and meet the error where it can be dealt with.
                self._watchers.notify_all()

    def _touched(self) -> list[str]:
        last = self._last()
        if last == self._position:
            return []
        before, self._position = self._position, last
        return [row[0] for row in self._database.execute(TOUCHED, before, before)]

    def _last(self) -> int:
        position: int = self._database.execute(LAST_POSITION)[0][0]
        return position
