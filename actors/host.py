"""What an actor on this machine needs from the system it lives in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..journal import Journal
    from .clock import Clock
    from .effect import Effect
    from .local import LocalActor
    from .mailbox import Pool
    from .open_work import EffectHandle
    from .quarantine import Quarantine

__all__ = ["Host"]


class Host(Protocol):
    """The system, as its actors see it."""

    @property
    def journal(self) -> Journal:
        """Where the streams are."""
        ...

    @property
    def pool(self) -> Pool:
        """Where turns are taken."""
        ...

    @property
    def clock(self) -> Clock:
        """What time it is."""
        ...

    @property
    def quarantine(self) -> Quarantine:
        """Who is not woken any more."""
        ...

    def start_effect(self, actor: LocalActor, effect: Effect, done: Callable[[], None]) -> EffectHandle:
        """Start the work of an effect; call `done()` when it has ended, however it ended."""
        ...

    def retire(self, actor: LocalActor) -> None:
        """Forget an actor that went to sleep."""
        ...

    def expect_alarm(self, due: int) -> None:
        """Let an alarm fire that is filed under `due` now (nanoseconds since the epoch, UTC)."""
        ...

    def report(self, stream: str, what: str, error: BaseException) -> None:
        """Tell whoever watches over the system that something failed."""
        ...
