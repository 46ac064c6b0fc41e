"""How close does the journal come to the disk, and what does concurrency buy?

Many actors append durably; each one's next append comes after its own last one was durable. Beside them, in the same
rounds: the bare journal under the same load, and LMDB alone with one event in each commit (the floor) and with 1000.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from random import Random
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple

import lmdb
import msgspec

from clew.actors import ActorSystem, Decider, EventSourcedActor
from clew.journal import Commit, NewEvent, event
from clew.journal.lmdb import LmdbJournal

from .report import Report, machine, percentile_us, show_progress, versions
from .worker import Worker, serve

QUESTION: Final = "How close does the journal come to the disk, and what does concurrency buy?"

EVENTS: Final = 64
"""Different events; every contender writes the same ones."""

Answer = tuple[int, Callable[[], object]]
"""Whose append ended, and what raises if it failed."""

Send = Callable[[int, Callable[[Answer], None]], None]
"""Begins the next append of one actor; its end is handed to the second argument."""


@event("benchmark.noted", version=1)
class Noted(msgspec.Struct, frozen=True):
    """An event whose canonical form has about 300 bytes."""

    author: str
    words: int
    text: str


def _note(random: Random) -> Noted:
    words = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(40)]
    return Noted(author=f"customer-{random.randint(1000, 9999)}", words=len(words), text=" ".join(words)[:200])


_random: Final = Random(1)
NOTES: Final = tuple(_note(_random) for _ in range(EVENTS))

ACTOR: Final = EventSourcedActor[int, Noted, Noted, int](
    category="note",
    decider=Decider(
        initial=0,
        decide=lambda _, note: (note,),
        evolve=lambda notes, _: notes + 1,
        answer=lambda notes, _: notes,
    ),
    events=(Noted,),
)
CANONICAL: Final = tuple(ACTOR.catalog.encode(note)[0].canonical for note in NOTES)


class Sample(msgspec.Struct, frozen=True):
    """What one contender did in one round."""

    events_per_s: float
    latency_p50_us: float
    latency_p99_us: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One contender over all rounds: medians, and the slowest and fastest round."""

    contender: str
    concurrency: int
    events_per_s: float
    events_per_s_min: float
    events_per_s_max: float
    latency_p50_us: float
    latency_p99_us: float
    ratio_to_floor: float


class Plan(NamedTuple):
    """How long to measure what."""

    concurrency: Sequence[int]
    rounds: int
    seconds: float


FULL: Final = Plan((1, 8, 64, 512), rounds=5, seconds=0.9)
QUICK: Final = Plan((1, 8, 64, 512), rounds=3, seconds=0.5)
SMOKE: Final = Plan((1, 8), rounds=1, seconds=0.05)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.append", description=QUESTION)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--dir", type=Path, default=Path(), help="write below this directory (default: here)")
    parser.add_argument("--smoke", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()

    if options.worker:
        contender, concurrency, seconds, directory = options.worker
        measure = CONTENDERS[contender]
        serve(partial(_in_a_new_directory, Path(directory), measure, int(concurrency), float(seconds)))
        return
    plan = SMOKE if options.smoke else QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix=".clew-append-", dir=options.dir) as directory:
        report = compare(plan, Path(directory).resolve())
    report.show(QUESTION, as_json=options.json)


def compare(plan: Plan, directory: Path) -> Report:
    """Let all contenders take turns, round by round, so that a slow minute of the machine slows them all."""
    here = machine(directory)
    floors = [("lmdb_1_per_commit", 1), ("lmdb_1000_per_commit", 1)]
    ours = [(name, concurrency) for name in ("journal", "actors") for concurrency in plan.concurrency]
    samples: dict[tuple[str, int], list[Sample]] = {key: [] for key in floors + ours}
    with ExitStack() as stack:
        workers = {key: stack.enter_context(_start(*key, plan.seconds, directory)) for key in samples}
        for _ in show_progress(plan.rounds):
            for key, worker in workers.items():
                samples[key].append(worker.measure())

    floor = samples[floors[0]]
    rows = {key: _row(*key, found, floor) for key, found in samples.items()}
    return Report(
        machine=here,
        versions=versions(),
        rows=[rows[key] for key in ours],
        floor={"one_event_per_commit": rows[floors[0]], "thousand_events_per_commit": rows[floors[1]]},
    )


def _start(contender: str, concurrency: int, seconds: float, directory: Path) -> Worker[Sample]:
    return Worker(__spec__.name, contender, str(concurrency), str(seconds), str(directory), sample=Sample)


def _row(contender: str, concurrency: int, found: Sequence[Sample], floor: Sequence[Sample]) -> Row:
    rates = [sample.events_per_s for sample in found]
    return Row(
        contender=contender,
        concurrency=concurrency,
        events_per_s=median(rates),
        events_per_s_min=min(rates),
        events_per_s_max=max(rates),
        latency_p50_us=median(sample.latency_p50_us for sample in found),
        latency_p99_us=median(sample.latency_p99_us for sample in found),
        ratio_to_floor=median(rate / other.events_per_s for rate, other in zip(rates, floor, strict=True)),
    )


Measure = Callable[[Path, int, float], Sample]


def _in_a_new_directory(parent: Path, measure: Measure, concurrency: int, seconds: float) -> Sample:
    directory = Path(tempfile.mkdtemp(dir=parent))
    try:
        return measure(directory, concurrency, seconds)
    finally:
        shutil.rmtree(directory)


def _lmdb(directory: Path, _: int, seconds: float, *, events_per_commit: int) -> Sample:
    """What the journal is built on, alone, in the same file format; the events come in order, as in a log."""
    latencies: list[float] = []
    numbers = count(1)
    with lmdb.open(str(directory), map_size=1 << 32, lib_version=0) as env:
        begun = now = perf_counter()
        while now < begun + seconds:
            with env.begin(write=True) as txn:
                for number in (next(numbers) for _ in range(events_per_commit)):
                    txn.put(number.to_bytes(8, "big"), CANONICAL[number % EVENTS], append=True)
            before, now = now, perf_counter()
            latencies.append(now - before)
    return _sample(latencies, now - begun, events_per_commit)


def _journal(directory: Path, concurrency: int, seconds: float) -> Sample:
    """The journal alone, with one stream for each actor; the events are encoded beforehand."""
    appended = [0] * concurrency
    # As long as the ids of commands, which is what actors put there.
    news = [NewEvent(canonical, f"{number:032x}") for number, canonical in enumerate(CANONICAL)]
    with LmdbJournal(directory / "journal") as journal:

        def send(number: int, ended: Callable[[Answer], None]) -> None:
            expected = appended[number]
            appended[number] += 1

            def tell(commit: Commit) -> None:
                ended((number, commit.wait))

            commit = journal.append(f"note/{number}", (news[expected % EVENTS],), expected=expected)
            commit.add_done_callback(tell)

        sample = _drive(send, concurrency, seconds)
        assert journal.stats().events == sum(appended)
    return sample


def _actors(directory: Path, concurrency: int, seconds: float) -> Sample:
    """Actors of a system, each asked anew when it has answered."""
    asked = [0] * concurrency
    with ActorSystem(directory / "journal", actors=(ACTOR,)) as system:
        refs = [system.ref(ACTOR, str(number)) for number in range(concurrency)]

        def send(number: int, ended: Callable[[Answer], None]) -> None:
            asked[number] += 1
            reply = refs[number].ask(NOTES[asked[number] % EVENTS])
            reply.when_done(partial(ended, (number, reply.get)))

        sample = _drive(send, concurrency, seconds)
        assert [system.journal.head(ref.stream).sequence for ref in refs] == asked
    return sample


CONTENDERS: Final[dict[str, Measure]] = {
    "lmdb_1_per_commit": partial(_lmdb, events_per_commit=1),
    "lmdb_1000_per_commit": partial(_lmdb, events_per_commit=1000),
    "journal": _journal,
    "actors": _actors,
}


def _drive(send: Send, concurrency: int, seconds: float) -> Sample:
    """Keep one append of each actor under way, from one thread; measured is what that thread sees."""
    ended: SimpleQueue[Answer] = SimpleQueue()
    # The first append of each makes its stream and its actor.
    for number in range(concurrency):
        send(number, ended.put)
    for _ in range(concurrency):
        ended.get()[1]()

    latencies: list[float] = []
    sent = [0.0] * concurrency
    begun = now = perf_counter()
    for number in range(concurrency):
        sent[number] = perf_counter()
        send(number, ended.put)
    waiting = concurrency
    while waiting:
        number, result = ended.get()
        now = perf_counter()
        result()
        latencies.append(now - sent[number])
        if now < begun + seconds:
            sent[number] = perf_counter()
            send(number, ended.put)
        else:
            waiting -= 1
    return _sample(latencies, now - begun, 1)


def _sample(latencies: Sequence[float], elapsed_s: float, events_each: int) -> Sample:
    return Sample(
        events_per_s=len(latencies) * events_each / elapsed_s,
        latency_p50_us=percentile_us(latencies, 50),
        latency_p99_us=percentile_us(latencies, 99),
    )


if __name__ == "__main__":
    main()
