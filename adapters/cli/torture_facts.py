"""What the torture writes: groups of events that say of themselves which group they belong to, and how large it is."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from random import Random
from typing import Final

import msgspec

from ...journal import Catalog, NewEvent, event

__all__ = ["CATALOG", "Written", "group_of", "torn"]


@event("torture.written", version=1)
class Written(msgspec.Struct, frozen=True):
    """One event of a group that was appended at once: the group's name, its size, and which of its events this is."""

    group: str
    size: int
    member: int
    text: str


CATALOG: Final = Catalog(Written)
"""Knows what the torture writes."""

_LARGE_BYTES: Final = 60_000
_LARGE_TEXTS: Final = 12


def group_of(name: str, random: Random) -> list[NewEvent]:
    """Return one to six events that belong together; now and then one is so large that it is kept in parts.

    Large texts repeat, so parts are shared between events, streams and groups.
    """
    size = random.choice((1, 1, 1, 2, 3, 6))
    large = random.randrange(size) if not random.randrange(100) else -1
    return [
        CATALOG.encode(
            Written(name, size, member, _large(random) if member == large else "x" * random.randrange(400)),
            cause=name if member % 2 else "",
        )[0]
        for member in range(size)
    ]


def torn(events: Iterable[Written]) -> list[str]:
    """Return the groups of a stream that are not there as a whole, or not in one piece."""
    found: list[str] = []
    before: Written | None = None
    for one in events:
        whole = before is None or before.member == before.size - 1
        if whole:
            continues = one.member == 0
        else:
            continues = before is not None and (one.group, one.member) == (before.group, before.member + 1)
        if not continues:
            found.append(one.group)
        before = one
    if before is not None and before.member != before.size - 1:
        found.append(before.group)
    return found


def _large(random: Random) -> str:
    seed = random.randrange(_LARGE_TEXTS)
    return b64encode(Random(seed).randbytes(_LARGE_BYTES + 12_000 * seed)).decode()  # noqa: S311  (it keeps no secret)
