"""A program to kill: it counts in several actors and prints each command that was acknowledged."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from clew.actors import ActorRef, ActorSystem, Decider, Effect, EventSourcedActor
from clew.journal import event

ACTORS = 8


@event("counter.added", version=1)
class Added(msgspec.Struct, frozen=True):
    n: int


class Add(msgspec.Struct, frozen=True):
    n: int


class Count(msgspec.Struct, frozen=True):
    total: int = 0
    commands: int = 0


def decide(count: Count, command: Add) -> list[Added]:
    return [Added(command.n)]


def evolve(count: Count, event: Added) -> Count:
    return Count(count.total + event.n, count.commands + 1)


def effects(count: Count) -> list[Effect]:
    return []


counters = EventSourcedActor(
    category="counter",
    decider=Decider(initial=Count(), decide=decide, evolve=evolve, answer=lambda count, _: count, effects=effects),
    events=[Added],
)


def main(path: Path) -> None:
    with ActorSystem(path, actors=[counters]) as system:
        refs: list[ActorRef[Add, Count]] = [system.ref(counters, str(number)) for number in range(ACTORS)]
        starts = [ref.ask(Add(0), command_id="hello").get(timeout=30).commands for ref in refs]
        print("ready", flush=True)
        for number in range(10**9):
            asked = [
                (ref, f"{start}-{number}", ref.ask(Add(1), command_id=f"{start}-{number}"))
                for ref, start in zip(refs, starts, strict=True)
            ]
            for ref, command_id, reply in asked:
                reply.get(timeout=30)
                print(ref.stream, command_id, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
