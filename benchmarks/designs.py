"""The contenders of `benchmarks.actors`: three designs of an actor, all exercised alike."""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from queue import SimpleQueue
from random import Random
from threading import Thread
from time import perf_counter
from typing import Final, Generic, Protocol, TypeVar

import msgspec
import pykka

from clew.actors import ActorRef, ActorSystem, Decider, EventSourcedActor

from .report import percentile_us

__all__ = ["CONTENDERS", "FLOOR", "Sample"]

R = TypeVar("R")

FLOOR: Final = "thread"

STARTED_TOGETHER: Final = 1000
"""Actors that are started before the first of them is waited for."""

TOLD_TOGETHER: Final = 500
"""Actors that are told something in turn; then each of them is asked, which shows that it has handled it all."""

MESSAGES_TOGETHER: Final = 5000
"""Messages to them in all, the asks among them."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What one contender did in one process; `failed` says why it could not."""

    failed: str | None = None
    start_us: float = 0
    kib_per_actor: float = 0
    tells_per_s: float = 0
    ask_p50_us: float = 0
    ask_p99_us: float = 0


class Answer(Protocol):
    """What an ask returns at once, in every design: something to wait for."""

    def get(self) -> object:
        """Block until the answer is there."""
        ...


@dataclass(frozen=True)
class Design(Generic[R]):
    """The three things that are done to the actors of a contender."""

    start: Callable[[int], R]
    tell: Callable[[R], object]
    ask: Callable[[R], Answer]


def _exercise(design: Design[R], live: int, seconds: float) -> Sample:
    """Start the actors, then ask and tell them in an order that no cache can guess."""
    gc.collect()
    before, begun = _resident_bytes(), perf_counter()
    refs = _start(design, live)
    started, after = perf_counter(), _resident_bytes()
    Random(1).shuffle(refs)
    latencies = list(_ask(design, refs, seconds))
    return Sample(
        start_us=(started - begun) / live * 1e6,
        kib_per_actor=(after - before) / live / 1024,
        tells_per_s=_tell(design, refs, seconds),
        ask_p50_us=percentile_us(latencies, 50),
        ask_p99_us=percentile_us(latencies, 99),
    )


def _start(design: Design[R], live: int) -> list[R]:
    """Return so many actors, each of which has answered once."""
    refs: list[R] = []
    while len(refs) < live:
        new = [design.start(len(refs) + number) for number in range(min(STARTED_TOGETHER, live - len(refs)))]
        for answer in [design.ask(ref) for ref in new]:
            answer.get()
        refs += new
    return refs


def _ask(design: Design[R], refs: Sequence[R], seconds: float) -> Iterator[float]:
    """Ask one after the other, each time waiting for the answer; yield how long that took."""
    begun = now = perf_counter()
    for ref in cycle(refs):
        before = perf_counter()
        design.ask(ref).get()
        now = perf_counter()
        yield now - before
        if now > begun + seconds:
            return


def _tell(design: Design[R], refs: Sequence[R], seconds: float) -> float:
    """Tell some of the actors at a time, until all they were told is handled; return messages in a second."""
    together = min(TOLD_TOGETHER, len(refs))
    order = cycle(refs)
    begun = now = perf_counter()
    messages = 0
    while now < begun + seconds:
        some = list(islice(order, together))
        for _ in range(MESSAGES_TOGETHER // together - 1):
            for ref in some:
                design.tell(ref)
        for answer in [design.ask(ref) for ref in some]:
            answer.get()
        messages += MESSAGES_TOGETHER
        now = perf_counter()
    return messages / (now - begun)


def _clew(live: int, seconds: float) -> Sample:
    kind = EventSourcedActor[None, str, msgspec.Struct, None](
        category="quiet",
        decider=Decider(
            initial=None, decide=lambda _, __: (), evolve=lambda state, _: state, answer=lambda state, _: state
        ),
        events=(),
        mailbox_size=MESSAGES_TOGETHER,
    )
    # Nobody falls asleep while we measure.
    system = ActorSystem("memory:", actors=(kind,), idle_s=3600)
    design = Design[ActorRef[str, None]](
        start=lambda number: system.ref(kind, str(number)),
        tell=lambda ref: ref.tell("go on"),
        ask=lambda ref: ref.ask("go on"),
    )
    sample = _exercise(design, live, seconds)
    assert system.live == live
    assert not system.failures
    return sample


class _Quiet(pykka.ThreadingActor):
    """Answers everything with nothing, as ours do."""

    use_daemon_thread = True

    def on_receive(self, message: object) -> None:
        """Do nothing."""


def _pykka(live: int, seconds: float) -> Sample:
    if live > 10_000:
        return Sample(failed="not tried: a thread each")
    design = Design[pykka.ActorRef[_Quiet]](
        start=lambda _: _Quiet.start(),
        tell=lambda ref: ref.tell("go on"),
        ask=lambda ref: ref.ask("go on", block=False),
    )
    try:
        return _exercise(design, live, seconds)
    except RuntimeError as error:
        # "can't start new thread"
        return Sample(failed=f"does not work: {error}")


Inbox = SimpleQueue[SimpleQueue[None] | None]


def _thread(live: int, seconds: float) -> Sample:
    """The least that a hand-over to another thread and back costs."""

    def run(inbox: Inbox) -> None:
        while True:
            if (answer := inbox.get()) is not None:
                answer.put(None)

    def start(_: int) -> Inbox:
        inbox: Inbox = SimpleQueue()
        Thread(target=run, args=(inbox,), daemon=True).start()
        return inbox

    def ask(inbox: Inbox) -> SimpleQueue[None]:
        answer: SimpleQueue[None] = SimpleQueue()
        inbox.put(answer)
        return answer

    design = Design[Inbox](start=start, tell=lambda inbox: inbox.put(None), ask=ask)
    return _exercise(design, live, seconds)


CONTENDERS: Final[dict[str, Callable[[int, float], Sample]]] = {"clew": _clew, "pykka": _pykka, FLOOR: _thread}


def _resident_bytes() -> int:
    """Return what this process holds in memory; elsewhere than on Linux, the most it ever held."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
