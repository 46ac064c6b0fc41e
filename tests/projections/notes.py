"""A stream that grows, and readers of it, for the tests of following."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

from clew.journal import Commit, Journal, NewEvent, RecordedEvent
from clew.projections import Follow

WAIT_S = 10.0


def grow(journal: Journal, count: int = 1, *, stream: str = "note/a") -> Commit:
    """Append so many events to a stream, in one append."""
    new = [NewEvent(b'{"event":"note.made","version":1,"data":{}}')] * count
    return journal.append(stream, new, expected=journal.head(stream).sequence)


def grow_and_wait(journal: Journal, count: int = 1, *, stream: str = "note/a") -> None:
    grow(journal, count, stream=stream).wait(timeout_s=WAIT_S)


class Reader:
    """Follows on a thread of its own and hands over what it sees."""

    def __init__(self, follow: Follow, each: Callable[[RecordedEvent], object] = lambda _: None) -> None:
        self.follow = follow
        self.seen: queue.SimpleQueue[int | str] = queue.SimpleQueue()
        self._each = each
        self._entered = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        assert self._entered.wait(WAIT_S)

    def _run(self) -> None:
        with self.follow as events:
            self._entered.set()
            try:
                for event in events:
                    self.seen.put(event.sequence)
                    self._each(event)
                self.seen.put("ended")
            except ZeroDivisionError:
                self.seen.put("failed")

    def next(self, count: int = 1) -> list[int | str]:
        return [self.seen.get(timeout=WAIT_S) for _ in range(count)]

    def join(self) -> None:
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()


def sequences(events: Iterator[RecordedEvent]) -> list[int]:
    return [event.sequence for event in events]
