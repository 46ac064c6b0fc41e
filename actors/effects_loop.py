"""The asyncio loop on which effects run: one thread, owned by the system."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine

from .reply import forbid_blocking

__all__ = ["EffectsLoop"]


class EffectsLoop:
    """One asyncio loop on its own thread, started when the first effect needs it."""

    def __init__(self, *, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def start(self, work: Callable[[], Coroutine[object, object, None]], done: Callable[[], None]) -> EffectTask:
        """Run `work()` on the loop; call `done()` when it has ended, however it ended, also if it may not begin."""
        loop = self._running_loop()
        task = EffectTask(loop)
        if loop is None:
            done()
            return task
        task.begin(work, done)
        return task

    def close(self) -> None:
        """Cancel what runs, wait for it to end, and stop the thread."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _running_loop(self) -> asyncio.AbstractEventLoop | None:
        with self._lock:
            if self._closed:
                return None
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        forbid_blocking()
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()


class EffectTask:
    """Work on the effects loop that can be cancelled from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False

    def begin(self, work: Callable[[], Coroutine[object, object, None]], done: Callable[[], None]) -> None:
        """Start the work soon."""

        def create() -> None:
            self._task = asyncio.get_running_loop().create_task(work())
            self._task.add_done_callback(lambda _: done())
            if self._cancelled:
                self._task.cancel()

        if self._loop is not None:
            self._loop.call_soon_threadsafe(create)

    def cancel(self) -> None:
        """Cancel the work soon; it may still do something while it ends."""

        def cancel() -> None:
            self._cancelled = True
            if self._task is not None:
                self._task.cancel()

        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(cancel)


async def _cancel_all() -> None:
    own = asyncio.current_task()
    tasks = [task for task in asyncio.all_tasks() if task is not own]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
