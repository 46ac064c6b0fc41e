"""The asyncio loop on which effects run: one thread, owned by the system."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import count
from typing import Any

from ..journal import JournalFull
from .clock import new_id
from .decider import EventSourcedActor
from .delivery import DeliveryHost, deliver
from .effect import Effect
from .errors import SystemClosed, UnknownKind
from .outbox import Deliver
from .ref import ActorRef
from .reply import forbid_blocking

__all__ = ["EffectsLoop", "perform"]

log = logging.getLogger("clew")

ROOM_WAIT_S = 0.05
ROOM_WAIT_S_MAX = 30.0
ROOM_DOUBLINGS_MAX = 20
"""How long work waits before it is done again because the disk was full: at first, and at the most."""

GRACE_S = 0.1
"""How much longer the loop itself may take than what runs on it."""

FIRST_STEPS_MAX = 100
"""Turns of the loop that new tasks get for their first steps before all are cancelled."""


class EffectsLoop:
    """One asyncio loop on its own thread, started when the first effect needs it."""

    def __init__(self, *, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._stopped = False
        self._left_behind = 0

    def start(self, work: Callable[[], Coroutine[object, object, None]], done: Callable[[], None]) -> EffectTask:
        """Run `work()` on the loop; call `done()` when it has ended, however it ended, also if it may not begin."""
        # Under the lock, so that `close` cancels either nothing of it or all of it.
        with self._lock:
            task = EffectTask(self._running_loop())
            if task.begin(work, done):
                return task
        done()
        return task

    def close(self, *, timeout_s: float) -> bool:
        """Cancel what runs, wait for it to end, and stop the thread; return whether all of it has ended.

        What swallows its cancellation is left behind after `timeout_s`, and so is the thread while it is kept busy.
        """
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return True
        asyncio.run_coroutine_threadsafe(self._wind_down(loop, timeout_s), loop)
        thread.join(timeout=timeout_s + GRACE_S)
        return not thread.is_alive() and not self._left_behind

    def _running_loop(self) -> asyncio.AbstractEventLoop | None:
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
        while not self._stopped:
            try:
                loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                # asyncio lets these end the loop, and one tool that calls `sys.exit` must not end all work.
                log.exception("a task of an effect tried to end the process")
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    async def _wind_down(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        """Cancel all tasks, also those that others start while they end, and stop the loop."""
        own = asyncio.current_task()
        deadline = loop.time() + timeout_s
        while (tasks := await _begun(own)) and not self._left_behind:
            for task in tasks:
                task.cancel()
            _, left = await asyncio.wait(tasks, timeout=max(0.0, deadline - loop.time()))
            self._left_behind = len(left)
        self._stopped = True
        loop.stop()


async def _begun(own: asyncio.Task[Any] | None) -> set[asyncio.Task[Any]]:
    """Return the tasks of the loop, once all of them have taken their first step.

    One that is cancelled before would drop what it was given, and leave it unawaited.
    """
    tasks = asyncio.all_tasks()
    for _ in range(FIRST_STEPS_MAX):
        await asyncio.sleep(0)
        before, tasks = tasks, asyncio.all_tasks()
        if tasks <= before:
            break
    return {task for task in tasks if task is not own}


class EffectTask:
    """Work on the effects loop that can be cancelled from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop
        self._task: asyncio.Task[None] | None = None

    def begin(self, work: Callable[[], Coroutine[object, object, None]], done: Callable[[], None]) -> bool:
        """Start the work soon; return False where there is no loop for it."""
        if self._loop is None:
            return False

        def create() -> None:
            self._task = asyncio.get_running_loop().create_task(work())
            self._task.add_done_callback(lambda _: done())

        self._loop.call_soon_threadsafe(create)
        return True

    def cancel(self) -> None:
        """Cancel the work soon; it may still do something while it ends."""

        def cancel() -> None:
            if self._task is not None:
                self._task.cancel()

        if self._loop is not None:
            # A loop that is gone has taken the work along.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(cancel)


async def perform(
    kind: EventSourcedActor[Any, Any, Any, Any],
    effect: Effect,
    actor: ActorRef[Any, Any],
    host: DeliveryHost,
) -> None:
    """Do the work of an effect, and tell the actor the command that comes of it.

    Messages to other actors are delivered for every kind; all other work is its performer's.

    While there is no room on the disk it is done again and again, later each time; any other failure is reported, and
    the work is done again on the next activation.
    """
    for attempt in count():
        try:
            await _perform_once(kind, effect, actor, host)
        except asyncio.CancelledError:
            raise
        except SystemClosed:
            # The system closes, and its work is done again at the next opening.
            return
        except JournalFull as error:
            host.report(actor.stream, f"effect {effect.key} waits for room", error)
            await asyncio.sleep(min(ROOM_WAIT_S_MAX, ROOM_WAIT_S * 2.0 ** min(attempt, ROOM_DOUBLINGS_MAX)))
            continue
        except BaseException as error:  # noqa: BLE001  (contained, whatever it is)
            host.report(actor.stream, f"effect {effect.key} failed", error)
        return


async def _perform_once(
    kind: EventSourcedActor[Any, Any, Any, Any], effect: Effect, actor: ActorRef[Any, Any], host: DeliveryHost
) -> None:
    if isinstance(effect.work, Deliver):
        await deliver(effect.work, actor, host)
        return
    if kind.perform is None:
        raise UnknownKind(name=f"perform for {kind.category}", known=())
    command = await kind.perform(effect, actor)
    if command is not None:
        await actor.ask(command, command_id=f"effect:{effect.key}:{new_id()}")
