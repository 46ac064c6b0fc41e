"""What does it cost a fresh process to open a large journal, and to have one of its threads again?

Imports are not counted, and the file is in the page cache: what is measured is our own work.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import msgspec

from clew.actors import ActorSystem, Decider, EventSourcedActor
from clew.journal.facts import THREAD_EVENTS, ThreadEvent
from clew.journal.lmdb import LmdbJournal
from clew.projections import messages

from .journal_dataset import Built, Datasets, Shape
from .journal_pool import LONG, stream_of
from .journal_reducer import fold_stream
from .journal_section import Section
from .worker import Worker, serve

__all__ = ["COLD_QUESTION", "OPEN_QUESTION", "measure_cold", "measure_opening"]

COLD_QUESTION: Final = "How long does a fresh process need for a thread of 1,000 messages among many events?"
OPEN_QUESTION: Final = "How long does a fresh process need to open a large journal, and to wake one actor in it?"


class Cold(msgspec.Struct, frozen=True):
    """What one fresh process needed for the long thread."""

    open_ms: float
    rebuild_ms: float
    messages_ms: float
    events: int
    messages: int


class Woken(msgspec.Struct, frozen=True):
    """What one fresh process needed to wake an actor."""

    open_ms: float
    wake_ms: float
    rss_mib: float


class ColdRow(msgspec.Struct, frozen=True, kw_only=True):
    """One journal over all rounds: medians, and the fastest and slowest in all.

    To rebuild is to fold the thread's typed events, and in all it is that and opening. The messages, in the form that
    a model is given, are made afterwards from the events read once more.
    """

    where: str
    events: int
    thread_events: int
    thread_messages: int
    open_ms: float
    rebuild_ms: float
    total_ms: float
    total_ms_min: float
    total_ms_max: float
    messages_ms: float


class OpenRow(msgspec.Struct, frozen=True, kw_only=True):
    """One journal over all rounds: medians, and the fastest and slowest in all."""

    where: str
    streams: int
    events: int
    open_ms: float
    wake_ms: float
    total_ms: float
    total_ms_min: float
    total_ms_max: float
    rss_mib: float


def measure_cold(datasets: Datasets, shape: Shape, *, rounds: int) -> Section[ColdRow]:
    """Open the journal and fold the long thread, each time in a new process; as it was built, and compacted."""
    rows = [_cold_row("as built", datasets.as_built(shape), rounds)]
    return Section(COLD_QUESTION, [*rows, _cold_row("compacted", datasets.compacted(shape)[0], rounds)])


def _cold_row(where: str, built: Built, rounds: int) -> ColdRow:
    found: list[Cold] = []
    for _ in range(rounds):
        with Worker(__spec__.name, "rebuild", built.path, sample=Cold) as worker:
            found.append(worker.measure())
    totals = [sample.open_ms + sample.rebuild_ms for sample in found]
    return ColdRow(
        where=where,
        events=built.events,
        thread_events=found[0].events,
        thread_messages=found[0].messages,
        open_ms=median(sample.open_ms for sample in found),
        rebuild_ms=median(sample.rebuild_ms for sample in found),
        total_ms=median(totals),
        total_ms_min=min(totals),
        total_ms_max=max(totals),
        messages_ms=median(sample.messages_ms for sample in found),
    )


def measure_opening(datasets: Datasets, shapes: Sequence[Shape], *, rounds: int) -> Section[OpenRow]:
    """Open each journal and wake one actor, each time in a new process; as it was built, and compacted."""
    rows = _open_rows("as built", [datasets.as_built(shape) for shape in shapes], rounds)
    compacted = [datasets.compacted(shape)[0] for shape in shapes]
    return Section(OPEN_QUESTION, rows + _open_rows("compacted", compacted, rounds))


def _open_rows(where: str, journals: Sequence[Built], rounds: int) -> list[OpenRow]:
    samples: list[list[Woken]] = [[] for _ in journals]
    for _ in range(rounds):
        for built, found in zip(journals, samples, strict=True):
            with Worker(__spec__.name, "wake", built.path, sample=Woken) as worker:
                found.append(worker.measure())
    return [_open_row(where, built, found) for built, found in zip(journals, samples, strict=True)]


def _open_row(where: str, built: Built, found: Sequence[Woken]) -> OpenRow:
    totals = [sample.open_ms + sample.wake_ms for sample in found]
    return OpenRow(
        where=where,
        streams=built.streams,
        events=built.events,
        open_ms=median(sample.open_ms for sample in found),
        wake_ms=median(sample.wake_ms for sample in found),
        total_ms=median(totals),
        total_ms_min=min(totals),
        total_ms_max=max(totals),
        rss_mib=median(sample.rss_mib for sample in found),
    )


def main() -> None:
    """Measure once, in the process of a `Worker`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", nargs=2, required=True)
    what, path = parser.parse_args().worker
    serve(partial({"wake": _wake, "rebuild": _rebuild}[what], Path(path)))


def _rebuild(path: Path) -> Cold:
    begun = perf_counter()
    with LmdbJournal(path) as journal:
        opened = perf_counter()
        _, events = fold_stream(journal, LONG)
        rebuilt = perf_counter()
        found = messages(journal.read(LONG))
        done = perf_counter()
    return Cold((opened - begun) * 1e3, (rebuilt - opened) * 1e3, (done - rebuilt) * 1e3, events, len(found))


def _wake(path: Path) -> Woken:
    """Open a system, and ask one actor for the number of its events: it has to fold them first."""
    counting = EventSourcedActor[int, None, ThreadEvent, int](
        category="thread",
        decider=Decider(
            initial=0,
            decide=lambda _, __: (),
            evolve=lambda events, _: events + 1,
            answer=lambda events, _: events,
        ),
        events=THREAD_EVENTS,
    )
    before = _resident_mib()
    begun = perf_counter()
    with ActorSystem(path, actors=(counting,)) as system:
        opened = perf_counter()
        answer = system.ref(counting, stream_of(1).partition("/")[2]).ask(None).get()
        done = perf_counter()
        assert answer == system.journal.head(stream_of(1)).sequence > 0
        return Woken((opened - begun) * 1e3, (done - opened) * 1e3, _resident_mib() - before)


def _resident_mib() -> float:
    """Return what this process has held at most."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


if __name__ == "__main__":
    main()
