"""What does compressing a segment cost and save, at which level, with the dictionary and without?

The documents are not among those that the dictionary was trained on; their form is, as that of all events is.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from statistics import median
from time import perf_counter
from typing import Final

import msgspec
import zstandard

from .journal_dataset import Datasets
from .journal_pool import Pool, load_pool
from .journal_section import Section
from .journal_threads import data_of

__all__ = ["QUESTION", "measure_compression"]

QUESTION: Final = "What does compressing a segment cost and save, at which level, with the dictionary and without?"

_EVENTS: Final = (1, 5, 20, 100)
_DICTIONARY: Final = "events-1.zdict"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Segments of one length at one level: medians over all rounds; speeds are of plain bytes."""

    events: int
    body_bytes: int
    level: int
    ratio: float
    ratio_dictionary: float
    compress_mb_per_s: float
    compress_mb_per_s_dictionary: float
    decompress_mb_per_s: float
    decompress_mb_per_s_dictionary: float


class _Sample(msgspec.Struct, frozen=True):
    ratio: float
    compress: float
    decompress: float


def measure_compression(datasets: Datasets, *, levels: Sequence[int], bytes_max: int, rounds: int) -> Section[Row]:
    """Compress bodies of each length, as many of them as fit into `bytes_max`."""
    pool = load_pool(datasets.pool)
    raw = files("clew.journal.lmdb").joinpath(_DICTIONARY).read_bytes()
    rows: list[Row] = []
    for length in _EVENTS:
        bodies = _bodies(pool, length, bytes_max)
        rows += [_row(length, bodies, level, raw, rounds) for level in levels]
    return Section(QUESTION, rows)


def _bodies(pool: Pool, length: int, bytes_max: int) -> list[bytes]:
    bodies: list[bytes] = []
    size = 0
    for thread in pool.threads:
        data = [data_of(new.canonical) for new in thread]
        for first in range(0, len(data), length):
            bodies.append(b"".join(data[first : first + length]))
            size += len(bodies[-1])
        if size >= bytes_max:
            break
    return bodies


def _row(length: int, bodies: Sequence[bytes], level: int, raw: bytes, rounds: int) -> Row:
    trained = zstandard.ZstdCompressionDict(raw)
    without, with_it = list[_Sample](), list[_Sample]()
    for _ in range(rounds):
        without.append(
            _measure(bodies, zstandard.ZstdCompressor(level=level), zstandard.ZstdDecompressor()),
        )
        with_it.append(
            _measure(
                bodies,
                zstandard.ZstdCompressor(level=level, dict_data=trained),
                zstandard.ZstdDecompressor(dict_data=trained),
            )
        )
    return Row(
        events=length,
        body_bytes=sum(map(len, bodies)) // len(bodies),
        level=level,
        ratio=without[0].ratio,
        ratio_dictionary=with_it[0].ratio,
        compress_mb_per_s=median(sample.compress for sample in without),
        compress_mb_per_s_dictionary=median(sample.compress for sample in with_it),
        decompress_mb_per_s=median(sample.decompress for sample in without),
        decompress_mb_per_s_dictionary=median(sample.decompress for sample in with_it),
    )


def _measure(
    bodies: Sequence[bytes], compressor: zstandard.ZstdCompressor, decompressor: zstandard.ZstdDecompressor
) -> _Sample:
    plain = sum(map(len, bodies))
    begun = perf_counter()
    packed = [compressor.compress(body) for body in bodies]
    compressed = perf_counter()
    for body in packed:
        decompressor.decompress(body)
    done = perf_counter()
    assert decompressor.decompress(packed[0]) == bodies[0]
    size = sum(map(len, packed))
    return _Sample(plain / size, plain / (compressed - begun) / 1e6, plain / (done - compressed) / 1e6)
