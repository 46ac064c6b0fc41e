"""Follow a stream or the whole journal: catch up, then stay live, in one loop.

There is no buffer between the writer and a follower: the journal itself is one. A follower that is slow reads later;
it costs nothing in between and appends never wait for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from itertools import islice
from types import TracebackType
from typing import Self

from ..journal import Journal, JournalClosed, RecordedEvent

__all__ = ["Follow"]

PAGE = 256
"""Events a follower holds at the most."""


class Follow:
    """The events of `stream` (or of every stream) after a place, as they become durable.

    `after` is a sequence of the stream, or a position of the journal where no stream is given; resume by giving the
    last one you saw. Iterate with `for` or `async for`, inside `with` or `async with`; the iteration ends when the
    journal closes or `stop` is called. With `live=False` it ends once it has caught up.

    ```python
    async with Follow(journal, "order/1042", after=7) as events:
        async for event in events:
            print(event.sequence, event.type.name)
    ```
    """

    def __init__(self, journal: Journal, stream: str | None = None, *, after: int = 0, live: bool = True) -> None:
        if after < 0:
            raise ValueError(f"after is a sequence or position from 0, not {after}")
        self._journal = journal
        self._stream = stream
        self._live = live
        self.after = after
        self._stopped = threading.Event()
        self._wakers: set[Callable[[], None]] = set()
        self._unwatch: Callable[[], None] | None = None

    def stop(self) -> None:
        """End the iteration, from any thread."""
        self._stopped.set()
        self._wake()

    def __enter__(self) -> Self:
        """Begin to watch."""
        if self._live and self._unwatch is None:
            self._unwatch = self._journal.watch(self._wake, stream=self._stream)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the watch."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        self.stop()

    async def __aenter__(self) -> Self:
        """Begin to watch."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the watch."""
        self.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[RecordedEvent]:
        """Yield events, blocking while there are none."""
        self._check_entered()
        grew = threading.Event()
        self._wakers.add(grew.set)
        try:
            while True:
                grew.clear()
                closed = self._over()
                page = self._page()
                yield from self._note(page)
                if not page:
                    if closed or not self._live:
                        return
                    grew.wait()
        finally:
            self._wakers.discard(grew.set)

    async def __aiter__(self) -> AsyncIterator[RecordedEvent]:
        """Yield events, waiting on the running loop while there are none."""
        self._check_entered()
        loop = asyncio.get_running_loop()
        grew = asyncio.Event()

        def wake() -> None:
            # A loop that is gone reads no more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(grew.set)

        self._wakers.add(wake)
        try:
            while True:
                grew.clear()
                closed = self._over()
                page = self._page()
                for event in self._note(page):
                    yield event
                if not page:
                    if closed or not self._live:
                        return
                    await grew.wait()
        finally:
            self._wakers.discard(wake)

    def _check_entered(self) -> None:
        if self._live and self._unwatch is None:
            raise RuntimeError("follow inside a with block: `with Follow(...) as events: for event in events: ...`")

    def _over(self) -> bool:
        return self._stopped.is_set() or self._journal.closed

    def _page(self) -> list[RecordedEvent]:
        # What was durable when the journal closed can no longer be read from it; resume after reopening.
        if self._journal.closed or self._stopped.is_set():
            return []
        read = self._journal.read_all if self._stream is None else self._read_stream
        try:
            return list(islice(read(after=self.after), PAGE))
        except JournalClosed:
            # It closed since we looked; the next look at it ends the iteration.
            return []

    def _read_stream(self, *, after: int) -> Iterator[RecordedEvent]:
        return self._journal.read(self._stream or "", after=after)

    def _note(self, page: list[RecordedEvent]) -> Iterator[RecordedEvent]:
        for event in page:
            if self._stopped.is_set():
                return
            self.after = event.position if self._stream is None else event.sequence
            yield event

    def _wake(self) -> None:
        for wake in list(self._wakers):
            wake()
