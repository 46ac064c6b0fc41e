"""The synced state of a thread as its watchers see it: what it is, and then each change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

from ...journal import Journal, RecordedEvent
from ...journal.facts import StateSet
from .leaving import Leavable
from .subscription import CATALOG, Seen, Subscription

__all__ = ["StateChange", "StateChanges"]

V = TypeVar("V")


@dataclass(frozen=True)
class StateChange(Generic[V]):
    """What the state became.

    `sequence` is the place of the event that set it, to resume behind, and `at` when that was recorded (nanoseconds
    since the epoch, UTC); both are 0 for the defaults of a state that was never set.
    """

    sequence: int
    at: int
    value: V


class StateChanges(Leavable, Generic[V]):
    """The synced state of a thread: what it is now, if it was set, and then whatever it becomes, once it is durable.

    With `after`, a sequence or a token, only what it became behind that. A value that equals the one before, as JSON
    with its keys in order, is no change. Iterate and leave as with a `Subscription`; iterating again goes on.

    Raises:
        ForeignToken, ValueError: as for `Subscription`.
        InvalidState (while reading): the state does not fit the model that is asked for; names the path.
        StreamDeleted (while reading): the thread was deleted.
    """

    def __init__(
        self,
        journal: Journal,
        stream: str,
        *,
        read: Callable[[msgspec.Raw | None], Any],
        typed: Callable[[Any], V],
        after: int | str | None,
    ) -> None:
        self._journal = journal
        self._stream = stream
        self._read = read
        self._typed = typed
        self._events = Subscription(journal, stream, after=journal.head(stream).sequence if after is None else after)
        self._shows_present = after is None
        self._last: bytes | None = None

    async def __aiter__(self) -> AsyncIterator[StateChange[V]]:
        """Yield changes, waiting on the running loop while there are none."""
        for present in self._present():
            yield present
        async for seen in self._events:
            if (change := self._change(seen)) is not None:
                yield change

    def __iter__(self) -> Iterator[StateChange[V]]:
        """Yield changes, blocking while there are none."""
        yield from self._present()
        for seen in self._events:
            if (change := self._change(seen)) is not None:
                yield change

    def close(self) -> None:
        """End the iteration, and let go of the journal; iterating again goes on."""
        self._events.close()

    def _present(self) -> Iterator[StateChange[V]]:
        """Look at the state where this begins, once, and show it if that was asked for."""
        if self._last is not None:
            return
        before = islice(self._journal.read(self._stream), self._events.after)
        found: RecordedEvent | None = None
        for recorded in before:
            if recorded.type.name == "state.set":
                found = recorded
        fact = None if found is None else CATALOG.decode(found)
        value = self._read(fact.value if isinstance(fact, StateSet) else None)
        self._last = _canonical(value)
        if self._shows_present and value is not None:
            place = (0, 0) if found is None else (found.sequence, found.recorded_at)
            yield StateChange(*place, self._typed(value))

    def _change(self, seen: Seen) -> StateChange[V] | None:
        if not isinstance(seen.fact, StateSet):
            return None
        value = self._read(seen.fact.value)
        last, self._last = self._last, _canonical(value)
        return None if last == self._last else StateChange(seen.sequence, seen.at, self._typed(value))


def _canonical(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")
