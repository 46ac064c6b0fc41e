"""A thread as its observers see it: each event once it is durable, caught up first, then live."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import cast

from ...journal import Journal, JournalClosed, RecordedEvent, UnknownEvent
from ...journal.facts import RunCancelled, RunFailed, RunFinished, ThreadEvent
from ...projections import Follow, conversation
from ..errors import ForeignToken, SystemClosed
from ..reply import forbid_here
from .leaving import Leavable

__all__ = ["CATALOG", "Seen", "Subscription", "run_ends", "sequence_after", "token_of"]

CATALOG = conversation.catalog

_TOKEN = re.compile(r"([1-9][0-9]{0,17})-([0-9a-f]{16})")


@dataclass(frozen=True)
class Seen:
    """An event of a thread as an observer sees it.

    Resume behind it with its `sequence`, or with its `token`, which no other thread takes. `at` is when it was
    recorded (nanoseconds since the epoch, UTC), and `fact` the event itself; None where this version does not know an
    event of that name. `behind` is how many events of the thread are durable beyond this one: 0 for who keeps up.
    """

    token: str
    sequence: int
    at: int
    name: str
    fact: ThreadEvent | None
    behind: int


class Subscription(Leavable):
    """The events of a thread after a place, as they become durable.

    Iterate with `async for`, or on a thread of your own with `for`; leave with `async with`, `with` or `close()`, from
    any thread. Nothing is begun before the first read, so one that is never read leaves nothing behind. Iterating
    again goes on behind the last event; `after` is its sequence.

    It waits while there is nothing new, and ends when the journal closes. With `until_run` it ends behind the event
    that ended the run (finished, failed or cancelled), also for who comes later: the event stays readable.

    Nothing is held for an observer: it reads the journal in pages, so a slow one costs nothing, no append waits for
    it, and `Seen.behind` tells it how late it is. What it raises stays with it.

    Raises:
        ForeignToken: `after` is a token of another thread, or of none.
        ValueError: `after` is below 0.
        SystemClosed (while reading): the journal closed before the end of `until_run`; subscribe again after reopening.
        StreamDeleted (while reading): the thread was deleted.
        BlockingAsk (while reading with `for`): on a thread that actors run on.
    """

    def __init__(self, journal: Journal, stream: str, *, after: int | str = 0, until_run: str | None = None) -> None:
        self._journal = journal
        self._stream = stream
        self._until_run = until_run
        self._following: set[Follow] = set()
        self.after = sequence_after(journal, stream, after)

    async def __aiter__(self) -> AsyncIterator[Seen]:
        """Yield events, waiting on the running loop while there are none."""
        if self._is_over():
            return
        follow = self._follow()
        try:
            with follow, suppress(JournalClosed):
                async for recorded in follow:
                    yield self._seen(recorded)
                    if self._ends(recorded):
                        return
        finally:
            self._following.discard(follow)
        self._check_closed()

    def __iter__(self) -> Iterator[Seen]:
        """Yield events, blocking while there are none."""
        forbid_here()
        if self._is_over():
            return
        follow = self._follow()
        try:
            with follow, suppress(JournalClosed):
                for recorded in follow:
                    yield self._seen(recorded)
                    if self._ends(recorded):
                        return
        finally:
            self._following.discard(follow)
        self._check_closed()

    def close(self) -> None:
        """End the iteration, and let go of the journal; iterating again goes on."""
        for follow in tuple(self._following):
            follow.__exit__(None, None, None)

    def _follow(self) -> Follow:
        follow = Follow(self._journal, self._stream, after=self.after)
        self._following.add(follow)
        return follow

    def _seen(self, recorded: RecordedEvent) -> Seen:
        self.after = recorded.sequence
        return Seen(
            token=token_of(recorded),
            sequence=recorded.sequence,
            at=recorded.recorded_at,
            name=recorded.type.name,
            fact=_fact(recorded),
            behind=max(0, self._journal.head(self._stream).sequence - recorded.sequence),
        )

    def _ends(self, recorded: RecordedEvent) -> bool:
        return self._until_run is not None and run_ends(recorded, self._until_run)

    def _is_over(self) -> bool:
        """Whether the run ended at or before the place that this begins behind."""
        if self._until_run is None or not self.after:
            return False
        return any(map(self._ends, islice(self._journal.read(self._stream), self.after)))

    def _check_closed(self) -> None:
        if self._until_run is not None and self._journal.closed:
            raise SystemClosed(stream=self._stream)


def token_of(recorded: RecordedEvent) -> str:
    """Return the place behind an event, bound to its thread and to all that was recorded up to it."""
    mark = sha256(recorded.stream.encode() + b"\0" + recorded.digest).hexdigest()[:16]
    return f"{recorded.sequence}-{mark}"


def sequence_after(journal: Journal, stream: str, place: int | str) -> int:
    """Return the sequence that a place in a thread stands for.

    Raises:
        ForeignToken: it is no token, or one of another thread or another history.
        ValueError: it is below 0.
    """
    if isinstance(place, int):
        if place < 0:
            raise ValueError(f"after is a sequence from 0, not {place}")
        return place
    found = _TOKEN.fullmatch(place)
    recorded = None if found is None else next(journal.read(stream, after=int(found[1]) - 1), None)
    if recorded is None or place != token_of(recorded):
        raise ForeignToken(thread=stream, token=place)
    return recorded.sequence


def run_ends(recorded: RecordedEvent, run: str) -> bool:
    """Whether an event is the end of a run."""
    fact = _fact(recorded) if recorded.type.name.startswith("run.") else None
    return isinstance(fact, RunFinished | RunFailed | RunCancelled) and fact.run == run


def _fact(recorded: RecordedEvent) -> ThreadEvent | None:
    try:
        return cast("ThreadEvent", CATALOG.decode(recorded))
    except UnknownEvent:
        return None
