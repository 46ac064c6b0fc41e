"""The memory of command ids: which commands a stream has seen, and where their events begin.

It lasts as long as the stream, so old ids are kept short: 4 bytes of a checksum and the place. Whoever finds an id
there looks at the event itself, for two ids may share a checksum.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import takewhile
from typing import Final
from zlib import crc32

__all__ = ["CommandIds"]

_PLACE_BITS: Final = 32


class CommandIds:
    """The ids of the commands of one stream.

    `packed` are those that a snapshot brought along, if any; `recent` are the others, by id, with the sequence of the
    first of their events, in the order of the stream.
    """

    __slots__ = ("packed", "recent")

    def __init__(self, packed: bytes = b"") -> None:
        self.recent: dict[str, int] = {}
        self.packed = _words(packed)

    def packed_places(self, command_id: str) -> Iterator[int]:
        """Yield where in the stream the events of an old command with this id may begin."""
        packed, checksum = self.packed, _checksum(command_id)
        at = bisect_left(packed, checksum << _PLACE_BITS)
        while at < len(packed) and packed[at] >> _PLACE_BITS == checksum:
            yield packed[at] & (1 << _PLACE_BITS) - 1
            at += 1

    def pack(self, *, after: int, until: int) -> bytes:
        """Return the ids of the recent commands whose first event has a sequence above `after`, up to `until`."""
        behind = takewhile(lambda known: known[1] > after, reversed(self.recent.items()))
        words = array("Q", (_checksum(id_) << _PLACE_BITS | place for id_, place in behind if place <= until))
        return _little(words).tobytes()


def _checksum(command_id: str) -> int:
    # An id that cannot be recorded is asked about like any other, and refused when it is appended.
    return crc32(command_id.encode(errors="surrogatepass"))


def _words(packed: bytes) -> array[int]:
    words = array("Q")
    words.frombytes(packed)
    return array("Q", sorted(_little(words)))


def _little(words: array[int]) -> array[int]:
    """Turn the words from this machine's order of bytes into the stored one, or back."""
    if sys.byteorder == "big":
        words.byteswap()
    return words
