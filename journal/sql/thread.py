"""The one thread that writes: while it waits for the disk, the next batch gathers."""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue

from .commits import Commits

__all__ = ["WriterThread"]


class WriterThread:
    """Drains the commits of a journal whenever there are any."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._pid = os.getpid()
        self._calls: SimpleQueue[None] = SimpleQueue()
        # A daemon, so that a forgotten journal does not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="clew-journal-writer", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """See `Runner.wake`."""
        if self._calls.empty():
            self._calls.put(None)

    def close(self) -> None:
        """See `Runner.close`. On the writer's own thread it does not wait; in a fork it does nothing."""
        if os.getpid() != self._pid:
            return
        self._commits.end("close() was called")
        self._calls.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._commits.drain():
                self._calls.get()
        except BaseException:
            self._commits.end("its writer was stopped by a callback")
            raise
        finally:
            # However it came to an end, nobody waits for a thread that is gone.
            self._commits.end("its writer has stopped")
            self._commits.finish()
