"""Which event stands at which position, for what is sealed: blocks of streams' numbers and sequences."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final
from zlib import crc32

import msgspec

from .compression import Codec
from .frames import Unreadable

__all__ = ["ORDER_EVENTS_MAX", "Order", "read_order", "write_order"]

ORDER_EVENTS_MAX: Final = 8192
"""How many positions a block has at the most."""

_CHECKSUM = Struct("<I")
_HEAD = Struct("<BI")  # compression, size
_HEADER_BYTES: Final = _CHECKSUM.size + _HEAD.size


class Order(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The streams (by number; 0 where an event was lost) and the sequences of positions that follow each other."""

    numbers: list[int]
    sequences: list[int]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Order)


def write_order(numbers: Sequence[int], sequences: Sequence[int], codec: Codec) -> bytes:
    """Return a block of the order as bytes."""
    raw = _ENCODER.encode(Order(list(numbers), list(sequences)))
    compression, packed = codec.compress(raw, dictionary=False)
    body = _HEAD.pack(compression, len(raw)) + packed
    return _CHECKSUM.pack(crc32(body)) + body


def read_order(value: memoryview | bytes, codec: Codec) -> Order:
    """Return what `write_order` made bytes of.

    Raises:
        Unreadable: it does not match its checksum.
    """
    if len(value) < _HEADER_BYTES or crc32(value[_CHECKSUM.size :]) != _CHECKSUM.unpack_from(value)[0]:
        raise Unreadable("a block of the order of events does not match its checksum")
    compression, size_bytes = _HEAD.unpack_from(value, _CHECKSUM.size)
    try:
        order = _DECODER.decode(codec.decompress(compression, value[_HEADER_BYTES:], size_bytes))
    except (ValueError, msgspec.MsgspecError) as error:
        raise Unreadable(f"a block of the order of events cannot be taken apart: {error}") from error
    if not order.numbers or len(order.numbers) != len(order.sequences):
        raise Unreadable("a block of the order of events does not hold what it says")
    return order
