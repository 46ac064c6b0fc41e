"""A typed reference to an actor: cheap to make, safe to share; making one starts nothing."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from .clock import new_id
from .reply import Reply

__all__ = ["ActorRef"]

C = TypeVar("C")
A = TypeVar("A")


class _Post(Protocol):
    def post(self, stream: str, command: object, command_id: str, performer: str | None, /) -> Reply[Any]: ...

    def post_and_forget(self, stream: str, command: object, command_id: str, performer: str | None, /) -> None: ...


class ActorRef(Generic[C, A]):
    """A name for an actor; it is activated when something is sent to it.

    Give a command an id (`command_id`) to make sending it twice safe: the second time is answered with the first
    answer, also after a restart.
    """

    __slots__ = ("_performer", "_system", "stream")

    def __init__(self, system: _Post, stream: str, *, performer: str | None = None) -> None:
        self._system = system
        self.stream = stream
        self._performer = performer

    def __repr__(self) -> str:
        return f"ActorRef({self.stream!r})"

    def ask(self, command: C, *, command_id: str | None = None) -> Reply[A]:
        """Send a command and return the reply's future: `.get(timeout=...)` blocks, `await` does not.

        The reply comes once the events behind it are durable: after a crash they are there.

        Raises:
            MailboxFull: the actor is behind; retry later or send less.
            SystemClosed: the system is closed.
            ValueError: the command id is empty.
        """
        id_ = new_id() if command_id is None else command_id or _missing()
        return self._system.post(self.stream, command, id_, self._performer)

    def tell(self, command: C, *, command_id: str | None = None) -> None:
        """Leave a command and return at once; a refusal is reported to the system, and a crash may lose it.

        Raises:
            MailboxFull, SystemClosed, ValueError: as for `ask`.
        """
        id_ = new_id() if command_id is None else command_id or _missing()
        self._system.post_and_forget(self.stream, command, id_, self._performer)


def _missing() -> str:
    raise ValueError("a command id is text, or None for a new one; an empty one would make nothing safe")
