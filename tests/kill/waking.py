"""A program to kill: actors set alarms, some for much later and some for now, and it prints what was acknowledged."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from clew.actors import ActorSystem
from tests.actors.reminders import Bell, Remind

HOUR = 3600 * 1_000_000_000


def main(path: Path) -> None:
    bell = Bell()
    with ActorSystem(path, actors=[bell.kind]) as system:
        print("ready", flush=True)
        number = 0
        while True:
            due = time.time_ns() + HOUR * (number % 2)
            asked = {f"a{number + n}": due for n in range(20)}
            replies = [system.ref(bell.kind, id_).ask(Remind("r", due)) for id_, due in asked.items()]
            for id_, reply in zip(asked, replies, strict=True):
                reply.get(timeout=60)
                print(f"{id_} {asked[id_]}", flush=True)
            number += 21


if __name__ == "__main__":
    main(Path(sys.argv[1]))
