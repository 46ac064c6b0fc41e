"""The chunks of large events: compressed where that helps, and proved by their name when they are read."""

from __future__ import annotations

from hashlib import sha256
from struct import Struct
from typing import Final

from ..body import Chunk
from ..errors import CorruptRecord
from .compression import Codec
from .environment import Environment
from .frames import Unreadable

__all__ = ["ChunkStore", "open_chunk", "write_chunk"]

_HEAD = Struct("<BI")  # compression, size
_HEADER_BYTES: Final = _HEAD.size


def write_chunk(content: bytes, codec: Codec) -> bytes:
    """Return what is stored for a chunk."""
    compression, packed = codec.compress(content, dictionary=False)
    return _HEAD.pack(compression, len(content)) + packed


def open_chunk(digest: bytes, value: bytes | memoryview, codec: Codec) -> bytes:
    """Return the content of a chunk.

    Raises:
        Unreadable: it is not what its name says.
    """
    if len(value) < _HEADER_BYTES:
        raise Unreadable("the chunk is cut short")
    compression, size_bytes = _HEAD.unpack_from(value)
    try:
        content = codec.decompress(compression, value[_HEADER_BYTES:], size_bytes)
    except ValueError as error:
        raise Unreadable(f"the chunk cannot be read: {error}") from error
    if sha256(content).digest() != digest:
        raise Unreadable("the chunk does not match its digest")
    return content


class ChunkStore:
    """Reads chunks of a journal."""

    def __init__(self, env: Environment, codec: Codec) -> None:
        self._env = env
        self._codec = codec

    def load(self, chunk: Chunk) -> bytes:
        """Return the content of a chunk.

        Raises:
            CorruptRecord: it is missing or damaged.
        """
        with self._env.reading() as reader:
            value = reader.chunk(chunk.digest)
        where = f"chunk {chunk.digest.hex()[:16]}"
        if value is None:
            raise CorruptRecord(where=where, reason="a part of a large event is missing")
        try:
            return open_chunk(chunk.digest, value, self._codec)
        except Unreadable as error:
            raise CorruptRecord(where=where, reason=str(error)) from error
