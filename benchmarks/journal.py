"""How fast, how large and how lasting is the journal? Six questions, answered in one run on one machine.

    python -m benchmarks.journal [--quick] [--json] [--only NAME]

Each part measures its floor beside it: what the disk, LMDB or the decoder alone need for the same work.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from . import append
from .journal_compression import measure_compression
from .journal_dataset import Datasets, Shape
from .journal_fold import measure_folds
from .journal_growth import measure_growth
from .journal_open import measure_cold, measure_opening
from .journal_section import Section
from .journal_size import measure_sizes
from .report import Machine, machine, show_where, table, versions, wide_console

QUESTION: Final = "How fast, how large and how lasting is the journal?"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much to measure; `rounds` is how often each thing is, `processes` for what needs a new one each time.

    `size` looks at the journals of `fold`, and at its own.
    """

    rounds: int
    processes: int
    threads: int
    long_turns: int
    concurrency: Sequence[int]
    append_seconds: float
    fold: Sequence[Shape]
    cold: Shape
    open: Sequence[Shape]
    size: Sequence[Shape]
    growth_small: int
    growth_large: int
    growth_streams: int
    compression_bytes: int
    levels: Sequence[int]


FULL: Final = Plan(
    rounds=5,
    processes=5,
    threads=200,
    long_turns=500,
    concurrency=(1, 8, 64, 512, 1000),
    append_seconds=0.9,
    fold=(Shape(1, 1_000_000, sealing=False), Shape(10_000, 100, sealing=False)),
    cold=Shape(1987, 100, long=True),
    open=(Shape(100_000, 10), Shape(1_000_000, 1)),
    size=(Shape(100_000, 10, sealing=False),),
    growth_small=10_000,
    growth_large=1_000_000,
    growth_streams=10_000,
    compression_bytes=8_000_000,
    levels=(1, 3, 6, 9),
)
QUICK: Final = msgspec.structs.replace(
    FULL,
    rounds=3,
    processes=2,
    append_seconds=0.15,
    fold=(Shape(1, 30_000, sealing=False), Shape(300, 100, sealing=False)),
    cold=Shape(1987, 100, long=True),
    open=(Shape(10_000, 10), Shape(50_000, 1)),
    size=(Shape(1000, 10, sealing=False),),
    growth_large=30_000,
    growth_streams=5_000,
    compression_bytes=200_000,
    levels=(1, 3, 9),
)
SMOKE: Final = Plan(
    rounds=1,
    processes=1,
    threads=4,
    long_turns=10,
    concurrency=(1, 8),
    append_seconds=0.05,
    fold=(Shape(1, 400, sealing=False), Shape(4, 100, sealing=False)),
    cold=Shape(5, 20, long=True),
    open=(Shape(20, 10), Shape(50, 1)),
    size=(Shape(20, 10, sealing=False),),
    growth_small=20,
    growth_large=100,
    growth_streams=10,
    compression_bytes=20_000,
    levels=(1, 3),
)


class Document(msgspec.Struct, frozen=True):
    """What one run found."""

    machine: Machine
    versions: dict[str, str]
    plan: Plan
    parts: dict[str, Section[Any]]

    def show(self, *, as_json: bool) -> None:
        """Print it as one line of JSON, or as a table below each question."""
        if as_json:
            print(msgspec.json.encode(self).decode())
            return
        console = wide_console()
        console.print(f"{QUESTION}\n", highlight=False)
        show_where(console, self.machine, self.versions)
        for name, section in self.parts.items():
            console.print(f"\n{name}: {section.question}", highlight=False)
            console.print(table([*section.floor, *section.rows]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.journal", description=QUESTION)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--quick", action="store_true", help="smaller journals, fewer and shorter rounds")
    parser.add_argument("--only", choices=PARTS, help="run this part alone")
    parser.add_argument("--dir", type=Path, default=Path(), help="write below this directory (default: here)")
    parser.add_argument("--smoke", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()

    plan = SMOKE if options.smoke else QUICK if options.quick else FULL
    names = [options.only] if options.only else list(PARTS)
    with tempfile.TemporaryDirectory(prefix=".clew-journal-", dir=options.dir) as directory:
        datasets = Datasets(Path(directory).resolve(), threads=plan.threads, long_turns=plan.long_turns)
        parts = {name: PARTS[name](plan, datasets) for name in _show_progress(names)}
        document = Document(machine(datasets.directory), versions(), plan, parts)
    document.show(as_json=options.json)


def _show_progress(names: Sequence[str]) -> Iterator[str]:
    """Say on standard error which part it is, when somebody is there to see it."""
    for name in names:
        if sys.stderr.isatty():
            print(f"\r\033[K{name} ", end="", file=sys.stderr, flush=True)
        yield name
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _append(plan: Plan, datasets: Datasets) -> Section[Any]:
    report = append.compare(append.Plan(plan.concurrency, plan.rounds, plan.append_seconds), datasets.directory)
    return Section(append.QUESTION, report.rows, list(report.floor.values()))


def _fold(plan: Plan, datasets: Datasets) -> Section[Any]:
    return measure_folds(datasets, plan.fold, rounds=plan.rounds)


def _cold(plan: Plan, datasets: Datasets) -> Section[Any]:
    return measure_cold(datasets, plan.cold, rounds=plan.processes)


def _open(plan: Plan, datasets: Datasets) -> Section[Any]:
    return measure_opening(datasets, plan.open, rounds=plan.processes)


def _size(plan: Plan, datasets: Datasets) -> Section[Any]:
    return measure_sizes(datasets, [*plan.fold, *plan.size])


def _growth(plan: Plan, datasets: Datasets) -> Section[Any]:
    return measure_growth(
        datasets, small=plan.growth_small, large=plan.growth_large, streams=plan.growth_streams, rounds=plan.rounds
    )


def _compression(plan: Plan, datasets: Datasets) -> Section[Any]:
    return measure_compression(datasets, levels=plan.levels, bytes_max=plan.compression_bytes, rounds=plan.rounds)


# In this order: `size` looks at what the others have built.
PARTS: Final[dict[str, Callable[[Plan, Datasets], Section[Any]]]] = {
    "append": _append,
    "fold": _fold,
    "cold": _cold,
    "open": _open,
    "size": _size,
    "growth": _growth,
    "compression": _compression,
}


if __name__ == "__main__":
    main()
