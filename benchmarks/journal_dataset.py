"""The journals that are looked at: each is built by a process of its own, once for all the parts that need it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter

import msgspec

from clew.journal.lmdb import LmdbJournal, shrink

from .journal_footprint import Footprint, footprint
from .journal_pool import Append, Pool, append_all, load_pool, make_pool, one_stream, streams, with_long
from .journal_threads import data_of
from .worker import Worker, serve

__all__ = ["Built", "Compacted", "Datasets", "Shape"]


class Built(msgspec.Struct, frozen=True):
    """A journal as it was built: `data_bytes` are its events without their envelopes."""

    path: str
    streams: int
    events: int
    canonical_bytes: int
    data_bytes: int
    seconds: float
    footprint: Footprint


class Shape(msgspec.Struct, frozen=True):
    """How many streams of how many events, with the long thread among them or not.

    While it is built it is sealed in the background as by default, or not at all.
    """

    streams: int
    each: int
    long: bool = False
    sealing: bool = True


class Compacted(msgspec.Struct, frozen=True):
    """A journal all of whose events are sealed, and how small its file becomes when it is written anew."""

    seconds: float
    footprint: Footprint
    shrunk_bytes: int


class Datasets:
    """The journals below one directory."""

    def __init__(self, directory: Path, *, threads: int, long_turns: int) -> None:
        self.directory = directory
        self.pool = directory / "pool"
        self._built: dict[Shape, Built] = {}
        self._compacted: dict[Shape, Compacted] = {}
        make_pool(self.pool, threads=threads, long_turns=long_turns)

    def as_built(self, shape: Shape) -> Built:
        """Return the journal of that shape, as it was when the last event had been appended."""
        assert shape not in self._compacted, f"{shape} is compacted; look at it before that"
        return self._build(shape)

    def compacted(self, shape: Shape) -> tuple[Built, Compacted]:
        """Compact the journal of that shape; return what it was before, and what it is now."""
        built = self._build(shape)
        if shape not in self._compacted:
            with Worker(__spec__.name, "compact", built.path, sample=Compacted) as worker:
                self._compacted[shape] = worker.measure()
        return built, self._compacted[shape]

    def _build(self, shape: Shape) -> Built:
        if shape not in self._built:
            path = self.directory / f"journal-{len(self._built)}"
            arguments = ("build", str(path), str(self.pool), msgspec.json.encode(shape).decode())
            with Worker(__spec__.name, *arguments, sample=Built) as worker:
                self._built[shape] = worker.measure()
        return self._built[shape]


def main() -> None:
    """Build or compact a journal, in the process of a `Worker`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", nargs="+", required=True)
    what, path, *more = parser.parse_args().worker
    if what == "compact":
        serve(partial(_compact, Path(path)))
    else:
        pool, shape = more
        serve(partial(_build, Path(path), load_pool(Path(pool)), msgspec.json.decode(shape, type=Shape)))


def _build(path: Path, pool: Pool, shape: Shape) -> Built:
    size = _Size()
    with LmdbJournal(path) if shape.sealing else LmdbJournal(path, seal_after=None) as journal:
        begun = perf_counter()
        append_all(journal, size.count(_appends(pool, shape)))
        seconds = perf_counter() - begun
        found = journal.stats()
        assert found.events == size.events
    return Built(str(path), found.streams, found.events, size.canonical, size.data, seconds, footprint(path))


def _appends(pool: Pool, shape: Shape) -> Iterator[Append]:
    if shape.streams == 1:
        return one_stream(pool, shape.each)
    return (with_long if shape.long else streams)(pool, shape.streams, shape.each)


class _Size:
    """Counts what passes by."""

    def __init__(self) -> None:
        self.events = self.canonical = self.data = 0

    def count(self, appends: Iterable[Append]) -> Iterator[Append]:
        for append in appends:
            for new in append[1]:
                self.events += 1
                self.canonical += len(new.canonical)
                self.data += len(data_of(new.canonical))
            yield append


def _compact(path: Path) -> Compacted:
    with LmdbJournal(path) as journal:
        begun = perf_counter()
        journal.compact()
        seconds = perf_counter() - begun
    found = footprint(path)
    return Compacted(seconds, found, shrink(path)[1])


if __name__ == "__main__":
    main()
