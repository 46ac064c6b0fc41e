"""A bounded mailbox and the small pool of threads that drains all of them."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol

import pykka

from .errors import MailboxFull
from .reply import forbid_blocking
from .wakeups import gather_wakeups, send_wakeups

__all__ = ["Mailbox", "Pool", "Turn"]


class Turn(Protocol):
    """Something that takes a turn on the pool."""

    def turn(self) -> None:
        """Do what is to be done now, without blocking."""
        ...


class Pool:
    """A few threads that give turns to whoever is ready, in order.

    `pykka.ThreadingActor` costs an OS thread each; here an actor costs a thread only while it has something to do.
    """

    def __init__(self, threads: int, *, name: str) -> None:
        self._ready: queue.SimpleQueue[Turn | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-actors-{number}", daemon=True) for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def ready(self, one: Turn) -> None:
        """Give `one` a turn soon."""
        self._ready.put(one)

    def stop(self) -> None:
        """Let the threads end after what is ready now, and wait for them."""
        for _ in self._threads:
            self._ready.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        forbid_blocking()
        gather_wakeups()
        ready = self._ready
        while (one := ready.get()) is not None:
            one.turn()
            if ready.empty():
                send_wakeups()


class Mailbox:
    """What waits for one actor: pykka's inbox, bounded, draining on a pool instead of a thread.

    It knows whether its actor already has a turn coming, so that each actor has one turn at a time. In a turn the owner
    takes from the left of `messages`, which is None while there are none.
    """

    __slots__ = ("_lock", "_owner", "_poked", "_pool", "_scheduled", "_size_max", "closed", "messages", "stream")

    def __init__(self) -> None:
        # Made when something arrives: an empty deque takes as much room as the rest of an actor.
        self.messages: deque[Any] | None = None
        self._lock = threading.Lock()
        self._scheduled = False
        self._poked = False
        self._owner: Turn
        self._pool: Pool
        self._size_max = 0
        self.stream = ""
        self.closed = False

    def bind(self, owner: Turn, pool: Pool, *, stream: str, size_max: int) -> None:
        """Say whose mailbox this is; pykka makes it before there is an owner."""
        self._owner, self._pool, self.stream, self._size_max = owner, pool, stream, size_max

    def put(self, envelope: Any, /) -> None:  # noqa: ANN401  (pykka's envelope is private)
        """Leave a message.

        Raises:
            MailboxFull: as many as the actor takes are waiting already.
            pykka.ActorDeadError: the actor has gone to sleep; look it up again.
        """
        with self._lock:
            if self.closed:
                raise pykka.ActorDeadError(f"{self.stream} is passivated")
            messages = self.messages
            if messages is None:
                messages = self.messages = deque()
            elif len(messages) >= self._size_max:
                raise MailboxFull(stream=self.stream, size=self._size_max)
            messages.append(envelope)
            if self._scheduled:
                return
            self._scheduled = True
            self._pool.ready(self._owner)

    def put_anyway(self, envelope: Any, /) -> None:  # noqa: ANN401
        """Leave a message of the system or of the actor's own effects, however many are waiting.

        Raises:
            pykka.ActorDeadError: the actor has gone to sleep; look it up again.
        """
        with self._lock:
            if self.closed:
                raise pykka.ActorDeadError(f"{self.stream} is passivated")
            if self.messages is None:
                self.messages = deque()
            self.messages.append(envelope)
        self.wake()

    def get(self) -> Any:  # noqa: ANN401
        """Take the oldest message, in a turn of the owner; raises IndexError when there is none."""
        if self.messages is None:
            raise IndexError(f"{self.stream}: no message waits")
        return self.messages.popleft()

    def put_back(self, envelope: Any, /) -> None:  # noqa: ANN401
        """Let the message that was just taken be the next one again; called in a turn of the owner."""
        with self._lock:
            if self.messages is None:
                self.messages = deque()
            self.messages.appendleft(envelope)

    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self.messages

    @property
    def idle(self) -> bool:
        """Whether nothing waits and the owner takes no turn."""
        return not self._scheduled and not self.messages

    def wake(self) -> None:
        """See to it that the owner takes a turn after now."""
        with self._lock:
            if self._scheduled:
                # The turn may be past the place that looks for what woke it, so it takes another one.
                self._poked = True
                return
            self._scheduled = True
        self._pool.ready(self._owner)

    @staticmethod
    def wake_all(mailboxes: Iterable[Mailbox]) -> None:
        """Wake each of these; what a commit tells of all the actors that waited for it."""
        for mailbox in mailboxes:
            mailbox.wake()

    def rest(self, *, blocked: bool = False) -> None:
        """End a turn: take another one if it was asked for meanwhile, or for what waits unless `blocked`."""
        with self._lock:
            if not self.messages:
                self.messages = None
                self._scheduled = again = self._poked
            else:
                self._scheduled = again = self._poked or not blocked
            self._poked = False
        if again:
            self._pool.ready(self._owner)

    def close_if_empty(self) -> bool:
        """Refuse all further messages, unless one is waiting."""
        with self._lock:
            if self.messages:
                return False
            self.closed = True
            return True

    def close(self) -> list[Any]:
        """Refuse all further messages and return those that wait."""
        with self._lock:
            self.closed = True
            waiting, self.messages = self.messages, None
            return list(waiting or ())
