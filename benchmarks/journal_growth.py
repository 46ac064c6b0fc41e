"""Does the journal get slower as it grows?

The same appends and folds on a small and on a large journal that are open side by side, taking turns.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter
from typing import Final

import msgspec

from clew.journal.lmdb import LmdbJournal

from .journal_dataset import Datasets
from .journal_pool import Append, Pool, append_all, load_pool, one_stream, stream_of
from .journal_reducer import fold_stream
from .journal_section import Section
from .worker import Worker, serve

__all__ = ["QUESTION", "measure_growth"]

QUESTION: Final = "Does the journal get slower as it grows?"


class Sample(msgspec.Struct, frozen=True):
    """Events per second in one round, in the small journal and in the large one."""

    appends: tuple[float, float]
    folds: tuple[float, float]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One shape over all rounds: medians; the ratios are large to small, of each round."""

    streams: int
    events: int
    events_large: int
    appends_per_s: float
    appends_per_s_large: float
    appends_ratio: float
    folds_per_s: float
    folds_per_s_large: float
    folds_ratio: float


def measure_growth(datasets: Datasets, *, small: int, large: int, streams: int, rounds: int) -> Section[Row]:
    """Measure one stream, and so many streams in random order."""
    rows: list[Row] = []
    for number in (1, streams):
        path = datasets.directory / f"growth-{number}"
        path.mkdir()
        arguments = (str(path), str(datasets.pool), str(number), str(small), str(large))
        with Worker(__spec__.name, *arguments, sample=Sample) as worker:
            found = [worker.measure() for _ in range(rounds)]
        rows.append(
            Row(
                streams=number,
                events=small,
                events_large=large,
                appends_per_s=median(sample.appends[0] for sample in found),
                appends_per_s_large=median(sample.appends[1] for sample in found),
                appends_ratio=median(sample.appends[1] / sample.appends[0] for sample in found),
                folds_per_s=median(sample.folds[0] for sample in found),
                folds_per_s_large=median(sample.folds[1] for sample in found),
                folds_ratio=median(sample.folds[1] / sample.folds[0] for sample in found),
            )
        )
    return Section(QUESTION, rows)


def main() -> None:
    """Build both journals and measure them, in the process of a `Worker`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", nargs=5, required=True)
    path, pool_path, streams, small, large = parser.parse_args().worker
    pool = load_pool(Path(pool_path))
    with ExitStack() as stack:
        grown = [
            _Grown(stack.enter_context(LmdbJournal(Path(path) / name)), pool, streams=int(streams), events=int(events))
            for name, events in (("small", small), ("large", large))
        ]
        # Few, so that the small one stays small.
        serve(partial(_measure, grown, max(1, int(small) // 5)))


class _Grown:
    """A journal of so many events that gets a few more in each round."""

    def __init__(self, journal: LmdbJournal, pool: Pool, *, streams: int, events: int) -> None:
        self._journal = journal
        self._random = Random(streams)
        self._news = cycle([new for thread in pool.threads for new in thread])
        self._ends = [0] * streams
        if streams == 1:
            self._ends[0] = append_all(journal, one_stream(pool, events))
        else:
            append_all(journal, self._singles(events))
        # What came before this round lies in segments, as in a journal that has been in use for a while.
        journal.compact()

    def append(self, events: int) -> float:
        """Append so many events, one at a time; return how many of them were durable in a second."""
        appends = list(self._singles(events))
        gc.collect()
        begun = perf_counter()
        append_all(self._journal, appends)
        return events / (perf_counter() - begun)

    def fold(self) -> float:
        """Fold every stream; return how many events that were in a second."""
        gc.collect()
        begun = perf_counter()
        events = sum(fold_stream(self._journal, stream_of(number))[1] for number in range(len(self._ends)))
        elapsed_s = perf_counter() - begun
        assert events == sum(self._ends)
        return events / elapsed_s

    def _singles(self, events: int) -> Iterator[Append]:
        for new in islice(self._news, events):
            number = self._random.randrange(len(self._ends))
            self._ends[number] += 1
            yield stream_of(number), (new,), self._ends[number] - 1


def _measure(grown: list[_Grown], events: int) -> Sample:
    small, large = grown
    return Sample((small.append(events), large.append(events)), (small.fold(), large.fold()))


if __name__ == "__main__":
    main()
