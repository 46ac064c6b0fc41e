"""What an actor holds back until it is durable, in the order it was decided."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ..journal import Commit
from .activation import AnyActivation
from .mailbox import Mailbox
from .reply import Reply

__all__ = ["Gate", "Held"]


class Held(msgspec.Struct, gc=False):
    """What waits for a commit: the activation it was decided by, what it changes about open work, and the answer."""

    commit: Commit | None
    decided_by: AnyActivation | None
    reply: Reply[Any] | None
    answer: object = None
    error: Exception | None = None
    change: Callable[[], None] | None = None


class Gate:
    """Lets go of what it holds in order, each once its commit has ended; used by the turns of one actor.

    The actor is woken when the first commit ends that something waits for. Those behind it end later, or with it.
    `held` is None while there is nothing.
    """

    __slots__ = ("_awaited", "_mailbox", "held")

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._awaited: Commit | None = None
        # Made when something is held: an empty deque takes as much room as the rest of an actor.
        self.held: deque[Held] | None = None

    def add(self, held: Held) -> None:
        """Hold this back, behind what is held already."""
        if self.held is None:
            self.held = deque((held,))
        else:
            self.held.append(held)

    def open(self, let_go: Callable[[Held, Exception | None], None]) -> None:
        """Let go of all whose commits have ended, saying how; the actor is woken when the next one does."""
        held = self.held
        while held:
            commit = held[0].commit
            if commit is None or commit.done:
                let_go(held.popleft(), None if commit is None else commit.error)
            elif commit is self._awaited or commit.tell_together(Mailbox.wake_all, self._mailbox):
                self._awaited = commit
                return
        self.held = self._awaited = None

    def empty(self) -> Iterator[Held]:
        """Yield all that is held, whether its commit has ended or not: the actor lets go of everything."""
        while self.held:
            yield self.held.popleft()
        self.held = None
