"""How many conversations does one process carry, how late are their alarms, and what do sleeping schedules cost?

Threads are real ones: pydantic-ai's loop over the LMDB journal, fsync on, with a model that answers at once and calls
no network, so what is measured is everything but the model. Three parts, each in one process:

- `runs`: every thread sets a schedule and has one run; 64 runs are under way at a time.
- `alarms`: every thread has a schedule that is due once, spread evenly over some seconds; how late it fires.
- `sleeping`: a journal with many schedules far in the future: what opening it costs, and what it costs once open.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew.actors import ActorSystem, Decider, EventSourcedActor
from clew.actors.agent import AgentDefinition
from clew.actors.schedule import after, at, every
from clew.journal import Catalog, NewEvent, event
from clew.journal.facts import ScheduleFired, ScheduleSet, ThreadOpened
from clew.journal.history.mark import refile
from clew.journal.lmdb import LmdbJournal

from .report import Machine, Report, machine, percentile_us, versions

QUESTION: Final = (
    "How many conversations does one process carry, how late are their alarms, what do sleeping ones cost?"
)

UNDER_WAY: Final = 64
FAR_NS: Final = 10**18
BATCH: Final = 2000


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """Threads with a schedule and a run each, 64 under way at a time."""

    part: str = "runs"
    threads: int
    wall_s: float
    runs_per_s: float
    start_to_finish_p50_ms: float
    start_to_finish_p99_ms: float
    peak_memory_mib: float
    failed: int


class Alarms(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules that are due one after the other, and how late they fired."""

    part: str = "alarms"
    schedules: int
    spread_s: float
    late_p50_ms: float
    late_p99_ms: float
    late_max_ms: float


class Sleeping(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules far in the future: opening and closing again, and the processor while nothing happens."""

    part: str = "sleeping"
    schedules: int
    build_s: float
    open_ms: float
    idle_cpu_percent: float
    memory_mib: float


class Tick(msgspec.Struct, frozen=True):
    """A command that a schedule sends."""

    number: int


@event("counter.ticked", version=1)
class Ticked(msgspec.Struct, frozen=True):
    """A counter was told to count."""

    number: int


COUNTER: Final = EventSourcedActor[int, Tick, Ticked, int](
    category="counter",
    decider=Decider(
        initial=0,
        decide=lambda _, command: (Ticked(command.number),),
        evolve=lambda count, _: count + 1,
        answer=lambda count, _: count,
    ),
    events=(Ticked,),
    commands={"tick": Tick},
)


def _answers(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
    return ModelResponse([TextPart("done")])


def _agent() -> AgentDefinition[Any, str]:
    return AgentDefinition(agent=Agent(FunctionModel(_answers, model_name="instant"), name="bench"))


def measure_runs(directory: Path, threads: int) -> Runs:
    """Run one run in each of so many threads."""
    agent, took, failed = _agent(), list[float](), 0

    async def main(system: ActorSystem) -> int:
        turn, lost = asyncio.Semaphore(UNDER_WAY), 0

        async def one(number: int) -> None:
            nonlocal lost
            async with turn:
                thread = system.thread(agent, f"t{number}", owner="ann")
                await thread.schedules.set("later", every(86_400), "again")
                began = time.perf_counter()
                try:
                    await thread.run("hello")
                except Exception as error:  # noqa: BLE001  (counted, and shown)
                    print(error, file=sys.stderr)
                    lost += 1
                took.append(time.perf_counter() - began)

        await asyncio.gather(*(one(number) for number in range(threads)))
        return lost

    with ActorSystem(directory / "runs", agents=[agent]) as system:
        began = time.perf_counter()
        failed = asyncio.run(main(system))
        wall = time.perf_counter() - began
    return Runs(
        threads=threads,
        wall_s=wall,
        runs_per_s=threads / wall,
        start_to_finish_p50_ms=percentile_us(took, 50) / 1000,
        start_to_finish_p99_ms=percentile_us(took, 99) / 1000,
        peak_memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        failed=failed,
    )


def measure_alarms(directory: Path, schedules: int, spread_s: float) -> Alarms:
    """Have so many schedules due, spread over so many seconds, each of which sends a command to an actor."""
    agent = _agent()
    with ActorSystem(directory / "alarms", agents=[agent], actors=[COUNTER]) as system:
        begin = time.time_ns() + round((2 + schedules / 2000) * 1e9)
        dues = [begin + round(spread_s * 1e9 * number / schedules) for number in range(schedules)]
        replies = [
            system.thread(agent, f"t{number}", owner="ann").schedules.send(
                "once", at(due), COUNTER, f"c{number % 100}", Tick(number)
            )
            for number, due in enumerate(dues)
        ]
        for reply in replies:
            reply.get(timeout=60)
        late = _late(system, schedules, (dues[-1] - time.time_ns()) / 1e9 + 30)
    return Alarms(
        schedules=schedules,
        spread_s=spread_s,
        late_p50_ms=percentile_us(late, 50) / 1000,
        late_p99_ms=percentile_us(late, 99) / 1000,
        late_max_ms=max(late) * 1000,
    )


def _late(system: ActorSystem, schedules: int, timeout_s: float) -> list[float]:
    """Return how late the schedules fired, in seconds, once all have."""
    catalog, deadline = Catalog(ScheduleFired), time.monotonic() + timeout_s
    late, position, woken = list[float](), 0, threading.Event()
    stop = system.journal.watch(woken.set)
    try:
        while len(late) < schedules and time.monotonic() < deadline:
            woken.wait(1)
            woken.clear()
            for recorded in system.journal.read_all(after=position, category="thread"):
                position = recorded.position
                if catalog.knows(recorded):
                    fired = cast("ScheduleFired", catalog.decode(recorded))
                    late.append((fired.at - fired.due) / 1e9)
    finally:
        stop()
    if len(late) < schedules:
        raise TimeoutError(f"{schedules - len(late)} of {schedules} schedules did not fire")
    return late


def measure_sleeping(directory: Path, schedules: int, idle_s: float) -> Sleeping:
    """Open a journal in which so many threads have a schedule far in the future."""
    place, agent = directory / "sleeping", _agent()
    began = time.perf_counter()
    _build(place, schedules)
    built = time.perf_counter() - began
    opened = list[float]()
    for _ in range(3):
        began = time.perf_counter()
        with ActorSystem(place, agents=[agent]):
            opened.append(time.perf_counter() - began)
    with ActorSystem(place, agents=[agent]) as system:
        before, began = time.process_time(), time.perf_counter()
        threading.Event().wait(idle_s)
        cpu = (time.process_time() - before) / (time.perf_counter() - began)
        assert system.live == 0, "somebody woke"
    return Sleeping(
        schedules=schedules,
        build_s=built,
        open_ms=sorted(opened)[1] * 1000,
        idle_cpu_percent=cpu * 100,
        memory_mib=_resident_mib(),
    )


def _build(place: Path, schedules: int) -> None:
    """Write the threads as their actors would, without an actor for each."""
    catalog = Catalog(ThreadOpened, ScheduleSet)
    now = time.time_ns()
    spec, action = msgspec.json.encode(after(10**8)), b'{"kind":"run","agent":"bench","prompt":"again"}'
    opened = catalog.encode(ThreadOpened("ann", None, now))[0].canonical
    with LmdbJournal(place) as journal:
        for number in range(schedules):
            due = now + FAR_NS // 10 + number
            fact = ScheduleSet("later", msgspec.Raw(spec), msgspec.Raw(action), "skip", "coalesce", 10, due, now)
            news = [NewEvent(opened), NewEvent(catalog.encode(fact)[0].canonical)]
            stream = f"thread/s{number}"
            commit = journal.append(stream, news, expected=0, cells=refile(stream, None, due))
            if number % BATCH == BATCH - 1:
                commit.wait()
        journal.compact()


def _resident_mib() -> float:
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(statm.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.threads", description=QUESTION)
    parser.add_argument("--threads", type=int, default=10_000, help="threads with a schedule and a run (10000)")
    parser.add_argument("--sleeping", type=int, default=1_000_000, help="sleeping schedules (1000000)")
    parser.add_argument("--dir", type=Path, default=None, help="where to write; the current directory by default")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--smoke", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    threads, sleeping, idle_s = options.threads, options.sleeping, 5.0
    if options.smoke:
        threads, sleeping, idle_s = 20, 200, 0.2
    elif options.quick:
        threads, sleeping = threads // 10, sleeping // 10
    directory = Path(tempfile.mkdtemp(prefix="clew-threads-", dir=options.dir or Path.cwd()))
    try:
        rows = [
            measure_runs(directory, threads),
            measure_alarms(directory, threads, spread_s=threads / 200),
            measure_sleeping(directory, sleeping, idle_s=idle_s),
        ]
        where, libraries = machine(directory), versions()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    _show(rows, where, libraries, as_json=options.json)


def _show(rows: Sequence[msgspec.Struct], where: Machine, libraries: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        Report(machine=where, versions=libraries, rows=rows, floor={}).show(QUESTION, as_json=True)
        return
    from .report import show_where, table, wide_console

    console = wide_console()
    console.print(f"{QUESTION}\n", highlight=False)
    show_where(console, where, libraries)
    for row in rows:
        console.print()
        console.print(table([row]))


if __name__ == "__main__":
    main()
