"""What another process appends, taken in by a handle that only reads."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from ..errors import JournalClosed, JournalError
from ..watch import Watchers
from .compression import Codec
from .environment import Environment
from .index import Index
from .reader import Reader

__all__ = ["Tail"]

_COMMITS_AT_ONCE = 256


class Tail:
    """Keeps an index up with the log, and tells watchers, looking every `poll_s` seconds once there are any."""

    def __init__(
        self, env: Environment, index: Index, codec: Codec, watchers: Watchers | None = None, *, poll_s: float = 1.0
    ) -> None:
        self._env = env
        self._index = index
        self._codec = codec
        self._watchers = watchers or Watchers()
        self._poll_s = poll_s
        self._lock = threading.Lock()
        self._last = self._named = 0
        self._epoch = -1
        self._untold: set[str] = set()
        self._everybody = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def catch_up(self) -> None:
        """Take in what the log has gained."""
        with self.steady():
            pass

    @contextmanager
    def steady(self) -> Generator[None]:
        """Take in what the log has gained, and keep the index from beginning anew for as long as this lasts."""
        with self._lock:
            self._env.check_file()
            while self._take_in():
                pass
            yield

    def _take_in(self) -> bool:
        """Take in some commits; return whether there may be more."""
        with self._env.reading() as reader:
            last, epoch = reader.last(), reader.epoch()
            if epoch != self._epoch:
                self._start_over(reader, epoch)
            elif last == self._last:
                return False
            for first, value in reader.names(self._named + 1):
                self._index.learn_names(reader, first, value)
                self._named = first
            for count, (first, value) in enumerate(reader.commits(self._last + 1), 1):
                touched = self._index.learn(reader, first, value)
                if self._thread is not None:
                    self._untold |= touched
                self._last = first
                if count == _COMMITS_AT_ONCE:
                    return True
        return False

    def _start_over(self, reader: Reader, epoch: int) -> None:
        """Begin where the log begins now: something that lay in it was sealed or deleted."""
        known = self._index.position
        for _, dictionary in reader.dictionaries():
            self._codec.learn(dictionary)
        self._index.restart(reader)
        if self._thread is not None and self._index.position > known:
            # What came and was sealed since the last look touched streams that nobody can tell any more.
            self._everybody = True
        self._last = self._named = self._index.sealed
        self._epoch = epoch

    def watch(self) -> None:
        """Look for news from now on."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._poll, name="clew-journal-tail", daemon=True)
                self._thread.start()

    def _poll(self) -> None:
        while not self._ended.wait(self._poll_s):
            try:
                self.catch_up()
            except JournalClosed:
                return
            except JournalError:
                # Whoever is told will read, and meet the error where it can be dealt with.
                self._watchers.notify_all()
            with self._lock:
                told, self._untold = self._untold, set()
                everybody, self._everybody = self._everybody, False
            if everybody:
                self._watchers.notify_all()
            else:
                self._watchers.notify(told)

    def close(self) -> None:
        """Stop looking, tell the watchers, and let go of the files."""
        if self._env.forked:
            return
        with self._lock:
            if self._ended.is_set():
                return
            self._ended.set()
            self._env.ended = "close() was called"
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._env.close()
        self._watchers.notify_all()
