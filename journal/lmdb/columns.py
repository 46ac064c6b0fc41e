"""The events of a segment as columns: what is alike lies together, and compresses well."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, cast

import msgspec

from ..body import Part, unpack_parts
from ..event import DATA_MARK
from .frames import Unreadable

__all__ = [
    "Columns",
    "Places",
    "Sealed",
    "decode_columns",
    "decode_places",
    "encode_columns",
    "gather",
    "parts_of",
    "unchanged",
    "whole",
]


class Sealed(NamedTuple):
    """One event on its way into a segment or out of it.

    `stored` are its canonical bytes, or its packed parts; these have their `digest` beside them, so that nobody needs
    to load them to know it.
    """

    position: int
    recorded_at: int
    cause: str
    stored: bytes
    digest: bytes = b""


class Columns(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The events of a segment by columns.

    Causes (None: as before), what stands in front of the data and which of it, which are packed parts and what their
    digests are, `Places`, and for each kind its data, in brackets and between commas: where it is JSON, all events of a
    kind can be decoded together.
    """

    causes: list[str | None]
    kinds: list[bytes]
    kind_of: bytes
    places: bytes
    chunked: list[int]
    digests: list[bytes]
    data: list[memoryview]  # no copies: they are decoded where they lie


class Places(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Positions and times (as stored: differences), and how long each data is. Not needed to fold a stream."""

    positions: list[int]
    times: list[int]
    sizes: list[int]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Columns)
_PLACES = msgspec.msgpack.Decoder(Places)
_KINDS_MAX: Final = 250


def gather(events: Sequence[Sealed]) -> Columns:
    """Return the columns of these events."""
    kinds: dict[bytes, int] = {}
    kind_of = bytearray()
    sizes: list[int] = []
    data: list[list[bytes]] = []
    for event in events:
        kind, rest = _parted(event)
        if kind not in kinds and len(kinds) == _KINDS_MAX:
            kind, rest = b"", event.stored
        if kind not in kinds:
            kinds[kind] = len(kinds)
            data.append([])
        kind_of.append(kinds[kind])
        sizes.append(len(rest))
        data[kinds[kind]].append(rest)
    return Columns(
        causes=_changes([event.cause for event in events]),
        kinds=list(kinds),
        kind_of=bytes(kind_of),
        places=_ENCODER.encode(
            Places(
                _differences([event.position for event in events]),
                _differences([event.recorded_at for event in events]),
                sizes,
            )
        ),
        chunked=[number for number, event in enumerate(events) if event.digest],
        digests=[event.digest for event in events if event.digest],
        data=[memoryview(b"[" + b",".join(rests) + b"]") for rests in data],
    )


def encode_columns(columns: Columns) -> bytes:
    """Return the columns as bytes."""
    return _ENCODER.encode(columns)


def decode_columns(raw: bytes) -> Columns:
    """Return what `encode_columns` made bytes of.

    Raises:
        msgspec.MsgspecError: the bytes are something else.
    """
    return _DECODER.decode(raw)


def decode_places(columns: Columns, count: int) -> Places:
    """Return positions, times and sizes of `count` events.

    Raises:
        Unreadable: there are more or fewer of them.
    """
    try:
        places = _PLACES.decode(columns.places)
    except msgspec.MsgspecError as error:
        raise Unreadable(f"the segment cannot be taken apart: {error}") from error
    held = sum(places.sizes) + count + len(columns.data) == sum(map(len, columns.data))
    if not (count == len(places.positions) == len(places.times) == len(places.sizes)) or not held:
        raise Unreadable("the segment does not hold what it says")
    return Places(list(accumulate(places.positions)), list(accumulate(places.times)), places.sizes)


def _parted(event: Sealed) -> tuple[bytes, bytes]:
    """Return what stands in front of an event's data, and the data; all of it where there is no such cut."""
    if event.digest:
        head = parts_of(event.stored)[0]
        mark = head.find(DATA_MARK) if isinstance(head, bytes) else -1
        return (head[:mark] if isinstance(head, bytes) and mark > 0 else b""), event.stored
    canonical = event.stored
    mark = canonical.find(DATA_MARK)
    if mark <= 0 or canonical[-1:] != b"}":
        return b"", canonical
    return canonical[:mark], canonical[mark + len(DATA_MARK) : -1]


def whole(kind: bytes, data: bytes) -> bytes:
    """Return the canonical bytes of an event."""
    return kind + DATA_MARK + data + b"}" if kind else data


def parts_of(stored: bytes) -> list[Part]:
    """Return the parts of a large event.

    Raises:
        Unreadable: they cannot be told.
    """
    try:
        return unpack_parts(stored)
    except msgspec.MsgspecError as error:
        raise Unreadable(f"the parts of a large event cannot be told: {error}") from error


def _differences(values: Sequence[int]) -> list[int]:
    return [values[0], *(later - earlier for earlier, later in pairwise(values))]


def _changes(values: Sequence[str]) -> list[str | None]:
    return [values[0], *(None if later == earlier else later for earlier, later in pairwise(values))]


def unchanged(changes: Sequence[str | None]) -> Sequence[str]:
    """Return the causes that are stored as what has changed."""
    if None not in changes:
        return cast("Sequence[str]", changes)
    values: list[str] = []
    value = ""
    for change in changes:
        if change is not None:
            value = change
        values.append(value)
    return values
