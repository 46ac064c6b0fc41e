"""How fast are streams read and folded, from the tail of the log and from sealed segments?

The floor decodes the same bytes of the same events in a plain loop, which is what a fold cannot do without.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple

import msgspec

from clew.journal import Journal
from clew.journal.lmdb import LmdbJournal

from .journal_dataset import Built, Datasets, Shape
from .journal_reducer import fold_stream
from .journal_section import Section
from .journal_threads import CATALOG
from .worker import Worker, serve

__all__ = ["QUESTION", "measure_folds"]

QUESTION: Final = "How fast are streams read and folded, and how near is that to decoding alone?"

_DECODED_MAX: Final = 200_000
"""So many events are decoded for the floor: more than any cache holds."""

_MARK: Final = b',"data":'


class Sample(msgspec.Struct, frozen=True):
    """Events per second in one round."""

    decode: float
    read: float
    fold: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One journal in one state over all rounds; the ratio is that of folding to decoding, of each round."""

    where: str
    streams: int
    events: int
    read_per_s: float
    fold_per_s: float
    fold_per_s_min: float
    fold_per_s_max: float
    decode_per_s: float
    ratio_to_floor: float


def measure_folds(datasets: Datasets, shapes: Sequence[Shape], *, rounds: int) -> Section[Row]:
    """Fold all streams of each journal; then again when they are sealed."""
    rows = _rows("log tail", [datasets.as_built(shape) for shape in shapes], rounds)
    return Section(QUESTION, rows + _rows("segments", [datasets.compacted(shape)[0] for shape in shapes], rounds))


def _rows(where: str, journals: Sequence[Built], rounds: int) -> list[Row]:
    samples: list[list[Sample]] = [[] for _ in journals]
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Worker(__spec__.name, built.path, str(built.events), sample=Sample))
            for built in journals
        ]
        for _ in range(rounds):
            for worker, found in zip(workers, samples, strict=True):
                found.append(worker.measure())
    return [_row(where, built, found) for built, found in zip(journals, samples, strict=True)]


def _row(where: str, built: Built, found: list[Sample]) -> Row:
    folds = [sample.fold for sample in found]
    return Row(
        where=where,
        streams=built.streams,
        events=built.events,
        read_per_s=median(sample.read for sample in found),
        fold_per_s=median(folds),
        fold_per_s_min=min(folds),
        fold_per_s_max=max(folds),
        decode_per_s=median(sample.decode for sample in found),
        ratio_to_floor=median(sample.fold / sample.decode for sample in found),
    )


def main() -> None:
    """Measure one journal, in the process of a `Worker`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", nargs=2, required=True)
    path, events = parser.parse_args().worker
    # One that could write would seal the log meanwhile.
    with LmdbJournal(Path(path), readonly=True) as journal:
        names = [head.stream for head in journal.streams()]
        serve(partial(_measure, journal, names, int(events), _decodings(journal)))


class Decodings(NamedTuple):
    """The fields of some events, and for each what decodes it."""

    data: list[bytes]
    decode: list[Callable[[bytes], msgspec.Struct]]


def _decodings(journal: Journal) -> Decodings:
    found = Decodings([], [])
    for recorded in islice(journal.read_all(), _DECODED_MAX):
        canonical = recorded.canonical
        mark = canonical.index(_MARK)
        found.data.append(canonical[mark + len(_MARK) : -1])
        found.decode.append(CATALOG.decoders[canonical[:mark]])
    # Side by side in memory, in the order in which they are decoded, wherever they came from.
    found.data[:] = [bytes(memoryview(data)) for data in found.data]
    # What is kept for the floor is no work for the collector in the middle of a fold.
    gc.freeze()
    return found


def _measure(journal: Journal, names: list[str], events: int, decodings: Decodings) -> Sample:
    gc.collect()
    begun = perf_counter()
    for decode, data in zip(decodings.decode, decodings.data, strict=True):
        decode(data)
    decoded = perf_counter()
    read = sum(1 for name in names for _ in journal.read(name))
    seen = perf_counter()
    folded = sum(fold_stream(journal, name)[1] for name in names)
    done = perf_counter()
    assert read == folded == events
    return Sample(len(decodings.data) / (decoded - begun), events / (seen - decoded), events / (done - seen))


if __name__ == "__main__":
    main()
