"""What does an actor cost: to ask, to tell, to keep awake, to start?

Ours, on a pool of two threads over a journal in memory, with commands that change nothing: the actor layer is what is
measured. Beside them pykka's `ThreadingActor`, a thread for each actor, and as the floor a bare thread behind a queue.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import msgspec

from .designs import CONTENDERS, FLOOR, Sample
from .report import Report, machine, show_progress, versions
from .worker import Worker, serve

QUESTION: Final = "What does an actor cost: to ask, to tell, to keep awake, to start?"

LIVE_FOR_MEMORY: Final = 1000
"""Fewer actors than this are lost in the granularity of pages."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One contender over all rounds: medians, and the slowest and fastest round; nothing where it does not work."""

    contender: str
    live: int
    rounds: int = 0
    ask_p50_us: float | None = None
    ask_p99_us: float | None = None
    tells_per_s: float | None = None
    tells_per_s_min: float | None = None
    tells_per_s_max: float | None = None
    start_us: float | None = None
    kib_per_actor: float | None = None
    failed: str | None = None


class Contest(NamedTuple):
    """One contender with so many live actors."""

    contender: str
    live: int
    rounds: int


class Plan(NamedTuple):
    """What to measure, and how long each of the two phases lasts in a round."""

    contests: Sequence[Contest]
    seconds: float


def _plan(lives: Sequence[int], rounds: Sequence[int], seconds: float) -> Plan:
    floor = Contest(FLOOR, 1, rounds[0])
    pairs = zip(lives, rounds, strict=True)
    return Plan([floor, *(Contest(name, *pair) for pair in pairs for name in ("clew", "pykka"))], seconds)


FULL: Final = _plan((1, 1000, 10_000, 100_000), (5, 5, 3, 2), seconds=0.4)
QUICK: Final = _plan((1, 1000, 10_000, 100_000), (3, 3, 1, 1), seconds=0.25)
SMOKE: Final = _plan((1, 10), (1, 1), seconds=0.02)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.actors", description=QUESTION)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--smoke", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()

    if options.worker:
        contender, live, seconds = options.worker
        serve(lambda: CONTENDERS[contender](int(live), float(seconds)))
        # Not a return: thousands of threads would be waited for.
        os._exit(0)
    plan = SMOKE if options.smoke else QUICK if options.quick else FULL
    _compare(plan).show(QUESTION, as_json=options.json)


def _compare(plan: Plan) -> Report:
    """Let all contenders take turns, round by round, each time in a new process."""
    samples: dict[Contest, list[Sample]] = {contest: [] for contest in plan.contests}
    for number in show_progress(max(contest.rounds for contest in plan.contests)):
        for contest, found in samples.items():
            if number < contest.rounds and not any(sample.failed for sample in found):
                found.append(_measure(contest, plan.seconds))

    rows = [_row(contest, found) for contest, found in samples.items()]
    return Report(machine=machine(Path()), versions=versions(), rows=rows[1:], floor={"bare_thread": rows[0]})


def _measure(contest: Contest, seconds: float) -> Sample:
    with Worker(__spec__.name, contest.contender, str(contest.live), str(seconds), sample=Sample) as worker:
        return worker.measure()


def _row(contest: Contest, found: Sequence[Sample]) -> Row:
    failed = next((sample.failed for sample in found if sample.failed), None)
    if failed:
        return Row(contender=contest.contender, live=contest.live, failed=failed)
    tells = [sample.tells_per_s for sample in found]
    return Row(
        contender=contest.contender,
        live=contest.live,
        rounds=len(found),
        ask_p50_us=median(sample.ask_p50_us for sample in found),
        ask_p99_us=median(sample.ask_p99_us for sample in found),
        tells_per_s=median(tells),
        tells_per_s_min=min(tells),
        tells_per_s_max=max(tells),
        start_us=median(sample.start_us for sample in found),
        kib_per_actor=median(sample.kib_per_actor for sample in found) if contest.live >= LIVE_FOR_MEMORY else None,
    )


if __name__ == "__main__":
    main()
