"""Events to fill journals with: made once, and kept in a file for the processes that append them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from clew.journal import Commit, Journal, NewEvent

from .journal_prose import standard_library
from .journal_threads import encode_thread

__all__ = [
    "LONG",
    "Append",
    "Pool",
    "append_all",
    "load_pool",
    "make_pool",
    "one_stream",
    "stream_of",
    "streams",
    "with_long",
]

LONG: Final = "thread/long"
"""The stream of the long thread."""

_THREAD_EVENTS: Final = 100
_LARGE_APPEND: Final = 1000
_STREAMS_TOGETHER: Final = 256
_EVENTS_AT_ONCE: Final = 5
_UNDER_WAY_MAX: Final = 1024

Append = tuple[str, Sequence[NewEvent], int]
"""To which stream, which events, behind which sequence."""


class Pool(msgspec.Struct, frozen=True):
    """Different threads of a hundred events, and a long one.

    A larger journal repeats the threads, each time in another stream; nothing is compressed across streams.
    """

    threads: list[list[NewEvent]]
    long: list[NewEvent]

    def thread(self, number: int) -> list[NewEvent]:
        """Return the thread that the stream of that number holds, or begins with."""
        return self.threads[number % len(self.threads)]


def make_pool(path: Path, *, threads: int, long_turns: int) -> None:
    """Write so many threads to `path`, and a long one with so many turns of the model; always the same ones.

    A turn is two messages: what the model is asked, and what it says.
    """
    source = standard_library()
    made = [
        encode_thread(Random(seed), source, runs=_THREAD_EVENTS, events_max=_THREAD_EVENTS) for seed in range(threads)
    ]
    long = encode_thread(Random("long"), source, runs=long_turns)
    turns = [number for number, new in enumerate(long) if b'"step":"llm:turn:' in new.canonical[:120]]
    path.write_bytes(msgspec.msgpack.encode(Pool(made, long[: turns[long_turns - 1] + 1])))


def load_pool(path: Path) -> Pool:
    """Read what `make_pool` wrote."""
    return msgspec.msgpack.decode(path.read_bytes(), type=Pool)


def stream_of(number: int) -> str:
    """Return the name of a stream."""
    return f"thread/customer-{number:07d}"


def one_stream(pool: Pool, events: int) -> Iterator[Append]:
    """Yield what makes one stream of so many events."""
    source = cycle(new for thread in pool.threads for new in thread)
    for done in range(0, events, _LARGE_APPEND):
        yield stream_of(0), list(islice(source, min(_LARGE_APPEND, events - done))), done


def streams(pool: Pool, count: int, each: int) -> Iterator[Append]:
    """Yield what makes so many streams of `each` events: some hundreds side by side, a few events at a time."""
    for first in range(0, count, _STREAMS_TOGETHER):
        together = range(first, min(first + _STREAMS_TOGETHER, count))
        for done in range(0, each, _EVENTS_AT_ONCE):
            for number in together:
                yield stream_of(number), pool.thread(number)[done : min(done + _EVENTS_AT_ONCE, each)], done


def with_long(pool: Pool, count: int, each: int) -> Iterator[Append]:
    """Yield what `streams` does, and the long thread spread over all of it."""
    pieces = range(0, len(pool.long), _EVENTS_AT_ONCE)
    appends = count * -(-each // _EVENTS_AT_ONCE)
    distance = max(1, appends // len(pieces))
    waiting = iter(pieces)
    for number, append in enumerate(streams(pool, count, each)):
        yield append
        if number % distance == 0 and (done := next(waiting, None)) is not None:
            yield LONG, pool.long[done : done + _EVENTS_AT_ONCE], done
    for done in waiting:
        yield LONG, pool.long[done : done + _EVENTS_AT_ONCE], done


def append_all(journal: Journal, appends: Iterable[Append]) -> int:
    """Append it all, as a producer that is only so far ahead of the disk; return how many events that were."""
    under_way: deque[Commit] = deque()
    events = 0
    for stream, news, expected in appends:
        under_way.append(journal.append(stream, news, expected=expected))
        events += len(news)
        if len(under_way) == _UNDER_WAY_MAX:
            under_way.popleft().wait()
    for commit in under_way:
        commit.wait()
    return events
