"""Follow a stream, a category or the whole journal: catch up, then stay live, in one loop.

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

from ..journal import Journal, JournalClosed, RecordedEvent, category_of

__all__ = ["Follow"]

PAGE = 256
"""Events a follower holds at the most."""


class Follow:
    """The events of a stream, of all streams of a category, or of the journal after a place, as they become durable.

    `after` is a sequence where a stream is given, else a position of the journal; resume by giving the last one you
    saw, or the follower's own `after`, which has also passed what was not asked for. Iterate with `for` or
    `async for`, inside `with` or `async with`; the iteration ends when the journal closes or `stop` is called. With
    `live=False` it ends once it has caught up. The follower is woken by the journal's writer and holds at most a page
    of events, however far behind it is. A stream that is deleted meanwhile raises `StreamDeleted` where it is read
    next; followers of a category or of everything do not see the events of deleted streams.

    ```python
    async with Follow(journal, "order/1042", after=7) as events:
        async for event in events:
            print(event.sequence, event.type.name)
    ```

    Raises:
        ValueError: `after` is below 0, or both a stream and a category are given.
    """

    def __init__(
        self,
        journal: Journal,
        stream: str | None = None,
        *,
        category: str | None = None,
        after: int = 0,
        live: bool = True,
    ) -> None:
        if after < 0:
            raise ValueError(f"after is a sequence or position from 0, not {after}")
        if stream is not None and category is not None:
            raise ValueError(f"follow the stream {stream!r} or the category {category!r}, not both")
        self._journal = journal
        self._stream = stream
        self._category = category
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
                if page:
                    # Whoever else is on the loop gets a turn, also while nothing of a long way is for this follower.
                    await asyncio.sleep(0)
                elif closed or not self._live:
                    return
                else:
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
        try:
            # A category is picked out here, so that what is passed over is read once and not at every wake.
            events = (
                self._journal.read_all(after=self.after)
                if self._stream is None
                else self._journal.read(self._stream, after=self.after)
            )
            return list(islice(events, PAGE))
        except JournalClosed:
            # It closed since we looked; the next look at it ends the iteration.
            return []

    def _note(self, page: list[RecordedEvent]) -> Iterator[RecordedEvent]:
        for event in page:
            if self._stopped.is_set():
                return
            self.after = event.position if self._stream is None else event.sequence
            if self._category is None or category_of(event.stream) == self._category:
                yield event

    def _wake(self) -> None:
        for wake in list(self._wakers):
            wake()
