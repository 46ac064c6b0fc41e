"""Run seeded simulations: `python -m clew.actors.simulate --seeds 300 --json`, or `--seed 7` to repeat one."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from .testing.simulation import Simulated, Simulation

__all__ = ["main", "report", "simulated", "text"]

SHOWN_MAX = 20


def simulated(seeds: Sequence[int], *, processes: int = 1) -> Iterator[Simulated]:
    """Yield what the simulation of each seed came to, in the order in which they end."""
    if processes <= 1:
        yield from map(_simulate, seeds)
        return
    # Started anew and not forked, so that no thread of this process is missing in them.
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_simulate, seeds)


def _simulate(seed: int) -> Simulated:
    return Simulation(seed).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulations that are asked for and print what they came to; return 1 when something was wrong."""
    asked = _parser().parse_args(arguments)
    seeds = range(asked.first, asked.first + asked.seeds) if asked.seed is None else [asked.seed]
    # One seed repeats itself in this process, where a debugger can be.
    processes = 1 if asked.seed is not None else min(asked.processes, len(seeds))
    began = time.monotonic()
    ended = list(simulated(seeds, processes=processes))
    told = report(ended, time.monotonic() - began)
    print(json.dumps(told) if asked.json else text(told))  # noqa: T201  (its output is its purpose)
    return 1 if told["failures"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m clew.actors.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="how many seeds (100)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them (0)")
    parser.add_argument("--seed", type=int, metavar="SEED", help="this seed alone")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="one for each core")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def report(ended: Sequence[Simulated], seconds: float) -> dict[str, Any]:
    """Return the sums over all seeds, and those that failed, each with the line that repeats it."""
    failed = sorted((one for one in ended if one.wrong), key=lambda one: one.seed)
    told: dict[str, Any] = {
        "failures": len(failed),
        "seeds": len(ended),
        "steps": sum(one.steps for one in ended),
        "crashes": sum(one.crashes for one in ended),
        "faults": sum(one.faults for one in ended),
        "effects": sum(one.effects for one in ended),
        "redelivered": sum(one.redelivered for one in ended),
        "seconds": round(seconds, 1),
    }
    if failed:
        told["failed"] = [{"repeat": one.repeat, "wrong": list(one.wrong)} for one in failed[:SHOWN_MAX]]
    if len(ended) == 1:
        told["trace"] = ended[0].trace
    return told


def text(told: dict[str, Any]) -> str:
    """Return a report as lines of text."""
    lines = [f"{name}: {value}" for name, value in told.items() if name != "failed"]
    for one in told.get("failed", ()):
        lines += [one["repeat"], *(f"  {wrong}" for wrong in one["wrong"])]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
