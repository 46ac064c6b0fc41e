"""Compression of what is sealed: zstd with a dictionary of agent events, and plain bytes where those are fewer.

A dictionary is stored in the journal under its id before anything refers to it, so what was written with one stays
readable when a later version ships another.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import Final
from zlib import crc32

import zstandard

__all__ = ["PLAIN", "Codec", "dictionary_key", "open_dictionary", "shipped_dictionary", "write_dictionary"]

PLAIN: Final = 0
_ZSTD: Final = 1
_ZSTD_WITH_DICTIONARY: Final = 2

LEVEL: Final = 3
_DICTIONARY: Final = "events-1.zdict"
_CHECKSUM_BYTES: Final = 4


class _Local(threading.local):
    """What compresses and decompresses on one thread: neither may be used on two at once."""

    def __init__(self) -> None:
        self.compressor: zstandard.ZstdCompressor | None = None
        self.plain_compressor = zstandard.ZstdCompressor(level=LEVEL)
        self.decompressors: dict[int, zstandard.ZstdDecompressor] = {0: zstandard.ZstdDecompressor()}


class Codec:
    """Compresses with the shipped dictionary, and decompresses with the one that was used."""

    def __init__(self) -> None:
        self._kept: dict[int, bytes] = {}
        self._local = _Local()

    def learn(self, stored: bytes) -> None:
        """Take in a dictionary that the journal keeps; one that is damaged is not known."""
        try:
            raw = open_dictionary(stored)
        except ValueError:
            return
        self._kept[zstandard.ZstdCompressionDict(raw).dict_id()] = raw

    def compress(self, raw: bytes, *, dictionary: bool) -> tuple[int, bytes]:
        """Return how it was done, and the bytes, which are never more than `raw`."""
        local = self._local
        if not dictionary:
            packed, kind = local.plain_compressor.compress(raw), _ZSTD
        else:
            if local.compressor is None:
                trained = zstandard.ZstdCompressionDict(shipped_dictionary()[1])
                local.compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=trained)
            packed, kind = local.compressor.compress(raw), _ZSTD_WITH_DICTIONARY
        return (kind, packed) if len(packed) < len(raw) else (PLAIN, raw)

    def decompress(self, kind: int, packed: bytes | memoryview, size_bytes: int) -> bytes:
        """Return what `compress` was given, which had `size_bytes`.

        Raises:
            ValueError: the bytes are damaged, or their dictionary is missing.
        """
        if kind == PLAIN:
            raw = bytes(packed)
        elif kind in (_ZSTD, _ZSTD_WITH_DICTIONARY):
            raw = self._decompress(packed, size_bytes)
        else:
            raise ValueError(f"it is compressed in a way that this version does not know ({kind})")
        if len(raw) != size_bytes:
            raise ValueError(f"it holds {len(raw)} bytes instead of {size_bytes}")
        return raw

    def _decompress(self, packed: bytes | memoryview, size_bytes: int) -> bytes:
        try:
            frame = zstandard.get_frame_parameters(packed)
            if frame.content_size != size_bytes:
                raise ValueError(f"it says that it holds {frame.content_size} bytes instead of {size_bytes}")
            decompressors = self._local.decompressors
            decompressor = decompressors.get(frame.dict_id)
            if decompressor is None:
                decompressor = decompressors[frame.dict_id] = self._with_dictionary(frame.dict_id)
            return decompressor.decompress(packed)
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error

    def _with_dictionary(self, number: int) -> zstandard.ZstdDecompressor:
        shipped, raw = shipped_dictionary()
        stored = raw if shipped == number else self._kept.get(number)
        if stored is None:
            raise ValueError(f"its dictionary ({number}) is missing")
        return zstandard.ZstdDecompressor(dict_data=zstandard.ZstdCompressionDict(stored))


@cache
def shipped_dictionary() -> tuple[int, bytes]:
    """Return the id and the bytes of the dictionary that this version compresses with."""
    # Not through importlib.resources: to import that takes longer than to open a journal.
    raw = Path(__file__).with_name(_DICTIONARY).read_bytes()
    return zstandard.ZstdCompressionDict(raw).dict_id(), raw


def dictionary_key(number: int) -> bytes:
    """Return where the journal keeps the dictionary of that id."""
    return b"dictionary/%d" % number


def write_dictionary(raw: bytes) -> bytes:
    """Return what the journal keeps of a dictionary."""
    return crc32(raw).to_bytes(_CHECKSUM_BYTES, "little") + raw


def open_dictionary(stored: bytes) -> bytes:
    """Return the dictionary that a journal keeps.

    Raises:
        ValueError: it does not match its checksum.
    """
    raw = stored[_CHECKSUM_BYTES:]
    if crc32(raw).to_bytes(_CHECKSUM_BYTES, "little") != stored[:_CHECKSUM_BYTES]:
        raise ValueError("the stored dictionary of the compression does not match its checksum")
    return raw
