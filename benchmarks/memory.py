"""How does looking around in an owner's memory grow with what is remembered, and how fast is it taught?

The graph and the episodes are folded from the journal into rows of the journal's own store (LMDB, fsync on), in
batches, as a system does in the background. Facts are spread at random over a fifth as many names; what is looked for
are two names in a sentence, two steps around, with the limits of every agent. Each size has a process of its own, so
that its memory is its own: what it holds when it has been looked around in.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from clew.journal import Catalog
from clew.journal.facts import NOTHING
from clew.journal.facts.memory import MEMORY_EVENTS, EpisodeTold, FactsLearned, MemoryEvent, RelationSeen
from clew.journal.lmdb import LmdbJournal
from clew.projections import DurableProjection, LiveRows
from clew.projections.episodes import Episodes, episodes
from clew.projections.graph import Graph, graph

from .report import Report, machine, percentile_us, versions

QUESTION: Final = (
    "How does looking around in an owner's memory grow with what is remembered, and how fast is it taught?"
)

SIZES: Final = (1_000, 100_000, 1_000_000)
QUICK: Final = (1_000, 10_000, 100_000)
SMOKE: Final = (200, 1_000)

FACTS_AT_ONCE: Final = 100
LOOKS: Final = 300
EPISODES: Final = 1_000
OWNER: Final = "ann"

_CATALOG: Final = Catalog(*MEMORY_EVENTS)


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """A graph with so many facts: what it took to teach, and to look around in."""

    facts: int
    names: int
    taught_per_s: float
    traverse_p50_ms: float
    traverse_p99_ms: float
    recall_p50_ms: float
    recall_p99_ms: float
    own_memory_mib: float
    disk_mib: float


def measure(directory: Path, facts: int) -> Remembered:
    """Teach so many facts, and look around in them."""
    random = Random(facts)
    names = max(2, facts // 5)
    with LmdbJournal(directory) as journal:
        _tell(journal, (_said(random, number, names) for number in range(0, facts, FACTS_AT_ONCE)))
        began = time.perf_counter()
        DurableProjection(journal, graph).catch_up()
        took = time.perf_counter() - began
        _tell(journal, (EpisodeTold(f"e{n}", f"Ann did number {n}.", None, NOTHING, n) for n in range(EPISODES)))
        DurableProjection(journal, episodes).catch_up()
        found = Graph(LiveRows(journal, graph), OWNER)
        recalled = Episodes(LiveRows(journal, episodes), OWNER)
        looks = _timed(
            lambda: found.traverse(f"What of name {random.randrange(names)} and of Name {random.randrange(names)}?")
        )
        recalls = _timed(lambda: recalled.recall(5))
    return Remembered(
        facts=facts,
        names=names,
        taught_per_s=facts / took,
        traverse_p50_ms=percentile_us(looks, 50) / 1000,
        traverse_p99_ms=percentile_us(looks, 99) / 1000,
        recall_p50_ms=percentile_us(recalls, 50) / 1000,
        recall_p99_ms=percentile_us(recalls, 99) / 1000,
        own_memory_mib=_own_memory_mib(),
        disk_mib=sum(file.stat().st_blocks * 512 for file in directory.rglob("*") if file.is_file()) / 2**20,
    )


def _own_memory_mib() -> float:
    """Return the memory that is the process's own: what is mapped of the journal's file is the page cache's."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lines = (line.split() for line in status.read_text().splitlines())
    return next(int(line[1]) for line in lines if line[0] == "RssAnon:") / 1024


def _said(random: Random, number: int, names: int) -> FactsLearned:
    relations = [
        RelationSeen(
            f"name {random.randrange(names)}",
            random.choice(("knows", "likes", "owns", "fears")),
            f"name {random.randrange(names)}",
            random.randrange(1, 101) / 100,
        )
        for _ in range(FACTS_AT_ONCE)
    ]
    return FactsLearned(f"source {number}", [], relations, None, NOTHING, number)


def _tell(journal: LmdbJournal, events: Iterable[MemoryEvent]) -> None:
    stream = f"memory/{OWNER}"
    commit = None
    for sequence, event in enumerate(events, journal.head(stream).sequence):
        commit = journal.append(stream, [_CATALOG.encode(event)[0]], expected=sequence)
    if commit is not None:
        commit.wait()


def _timed(look: Callable[[], object]) -> list[float]:
    took: list[float] = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        look()
        took.append(time.perf_counter() - began)
    return took


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=QUESTION)
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--dir", type=Path, default=None, help="where to write; the current directory by default")
    parser.add_argument("--quick", action="store_true", help="100000 facts at the most")
    parser.add_argument("--smoke", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--facts", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="clew-memory-", dir=chosen.dir or Path.cwd()))
    try:
        if chosen.facts:
            print(msgspec.json.encode(measure(directory, chosen.facts)).decode())
            return
        sizes = SMOKE if chosen.smoke else QUICK if chosen.quick else SIZES
        rows = [_in_its_own_process(directory, facts) for facts in sizes]
        Report(machine=machine(directory), versions=versions(), rows=rows, floor={}).show(QUESTION, as_json=chosen.json)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _in_its_own_process(directory: Path, facts: int) -> Remembered:
    command = [sys.executable, "-m", "benchmarks.memory", "--facts", str(facts), "--dir", str(directory)]
    done = subprocess.run(command, check=True, capture_output=True)
    return msgspec.json.decode(done.stdout, type=Remembered)


if __name__ == "__main__":
    main()
