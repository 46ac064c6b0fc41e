"""Large payloads: an event over `INLINE_BYTES_MAX` is kept as a short template and chunks named by their content.

The cut changes nothing about the event: the parts joined are its canonical bytes, and digests run over those. A chunk
is a large JSON value where there is one, so that the same document in two events is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias, cast

import msgspec

__all__ = ["CHUNK_BYTES_MAX", "INLINE_BYTES_MAX", "Body", "Chunk", "Part", "pack_parts", "split", "unpack_parts"]

INLINE_BYTES_MAX: Final = 64 * 1024
"""The largest canonical form that is kept in one piece, in bytes; the same on every host."""

CHUNK_BYTES_MAX: Final = 1024 * 1024
"""The largest chunk, in bytes: a row of a Durable Object holds 2 MB."""

_LARGE_BYTES: Final = INLINE_BYTES_MAX // 2
_DEPTH_MAX: Final = 8


class Chunk(NamedTuple):
    """A piece of an event that is kept elsewhere: the SHA-256 of its bytes, and how many there are."""

    digest: bytes
    size_bytes: int


Part: TypeAlias = "bytes | Chunk"

_PARTS: Final = msgspec.msgpack.Decoder(list[bytes | Chunk])
_VALUES = msgspec.json.Decoder(dict[str, msgspec.Raw] | list[msgspec.Raw])


class Body:
    """The canonical bytes of an event that is kept in parts; read when they are asked for, and not before."""

    __slots__ = ("_load", "parts")

    def __init__(self, parts: Sequence[Part], load: Callable[[Chunk], bytes]) -> None:
        self.parts = parts
        self._load = load

    @property
    def head(self) -> bytes:
        """What is in front of the first chunk: at least the event's name and version."""
        first = self.parts[0]
        return first if isinstance(first, bytes) else b""

    def load(self) -> bytes:
        """Return the canonical bytes.

        Raises:
            CorruptRecord: a chunk is missing, or does not match its name.
        """
        return b"".join(part if isinstance(part, bytes) else self._load(part) for part in self.parts)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same bytes."""
        if isinstance(other, Body):
            return self.parts == other.parts or self.load() == other.load()
        return isinstance(other, bytes) and self.load() == other

    def __hash__(self) -> int:
        """As the bytes would."""
        return hash(self.load())

    def __repr__(self) -> str:
        chunks = sum(isinstance(part, Chunk) for part in self.parts)
        return f"<body in {len(self.parts)} parts, {chunks} of them chunks>"


def split(canonical: bytes) -> tuple[list[Part], dict[bytes, bytes]]:
    """Return the parts of an event that is over `INLINE_BYTES_MAX`, and the content of its chunks by digest.

    What stays inline is at most `INLINE_BYTES_MAX`, and begins with the event's name and version.
    """
    spans = [(start, end) for start, end in _large(canonical, 0, len(canonical), 0) if start > 0]
    if len(canonical) - sum(end - start for start, end in spans) > INLINE_BYTES_MAX:
        # Nothing in it is large by itself: cut it as it comes, behind the name.
        spans = [(min(canonical.find(b',"data":') + 8, 512), len(canonical))]
    parts: list[Part] = []
    contents: dict[bytes, bytes] = {}
    done = 0
    for start, end in spans:
        parts.append(canonical[done:start])
        for at in range(start, end, CHUNK_BYTES_MAX):
            content = canonical[at : min(at + CHUNK_BYTES_MAX, end)]
            digest = sha256(content).digest()
            contents[digest] = content
            parts.append(Chunk(digest, len(content)))
        done = end
    if done < len(canonical):
        parts.append(canonical[done:])
    return parts, contents


def pack_parts(parts: Sequence[Part]) -> bytes:
    """Return the parts as bytes, to be stored in the event's place."""
    return msgspec.msgpack.encode(parts)


def unpack_parts(stored: bytes) -> list[Part]:
    """Return what `pack_parts` made bytes of.

    Raises:
        msgspec.MsgspecError: the bytes are something else.
    """
    return _PARTS.decode(stored)


def _large(canonical: bytes, start: int, end: int, depth: int) -> Iterator[tuple[int, int]]:
    """Yield where the large values are, innermost, within a value that is large itself."""
    values: list[msgspec.Raw] = []
    if depth < _DEPTH_MAX and canonical[start : start + 1] in (b"{", b"["):
        try:
            inside = _VALUES.decode(memoryview(canonical)[start:end])
        except (msgspec.MsgspecError, RecursionError):
            inside = cast("list[msgspec.Raw]", [])
        values = list(inside.values()) if isinstance(inside, dict) else inside
    found, at = False, start
    for value in values:
        size = len(memoryview(value))
        if size >= _LARGE_BYTES:
            place = canonical.find(bytes(value), at, end)
            yield from _large(canonical, place, place + size, depth + 1)
            found, at = True, place + size
    if not found:
        yield start, end
