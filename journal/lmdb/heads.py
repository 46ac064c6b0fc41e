"""The ends of all streams, ordered by name: those that are recorded, and those that have only just begun."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from heapq import merge
from itertools import groupby, islice
from typing import Final

from ..event import Head, category_of
from .environment import Environment
from .frames import Unreadable
from .index import Index
from .record import KEY_NAME_BYTES_MAX, read_record
from .stream import load_record

__all__ = ["list_heads"]

_RECORDS_AT_ONCE: Final = 256


def list_heads(
    env: Environment, index: Index, category: str | None, steady: Callable[[], AbstractContextManager[None]]
) -> Iterator[Head]:
    """Yield the durable end of every stream (of one category) that has begun at the call.

    The index is only looked at while it is `steady()`.
    """
    until = index.position
    new = [stream for stream in index.unrecorded() if category in (None, category_of(stream.name))]
    heads = merge(
        [stream.head for stream in new],
        _sorted(_recorded(env, index, until, category, steady)),
        key=lambda head: head.stream,
    )
    # One of the new ones may have been recorded meanwhile; both say the same.
    return (next(same) for _, same in groupby(heads, key=lambda head: head.stream))


def _recorded(
    env: Environment,
    index: Index,
    until: int,
    category: str | None,
    steady: Callable[[], AbstractContextManager[None]],
) -> Iterator[Head]:
    prefix = b"" if category is None else category.encode() + b"/"
    start = prefix
    while True:
        found: list[Head] = []
        with steady(), env.reading() as reader:
            some = list(islice(reader.streams(start), _RECORDS_AT_ONCE))
            here = [(key, value) for key, value in some if key.startswith(prefix)]
            for key, value in here:
                try:
                    record = read_record(key, value)
                except Unreadable:
                    continue
                if record.began <= until:
                    live = index.find(record.name)
                    found.append(live.head if live is not None else load_record(reader, record).head)
        yield from found
        if len(here) < _RECORDS_AT_ONCE:
            return
        start = here[-1][0] + b"\0"


def _sorted(heads: Iterator[Head]) -> Iterator[Head]:
    """Put long names in order, whose keys are so only up to a length."""
    for _, same in groupby(heads, key=lambda head: head.stream.encode()[:KEY_NAME_BYTES_MAX]):
        yield from sorted(same)
