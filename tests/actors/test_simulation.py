"""Whatever happens in whatever order, what was acknowledged is there once, and what is open is what runs."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from clew.actors import ActorRef, ActorSystem, CommandRejected, Effect, Reply
from clew.journal import NewEvent
from tests.actors.support import (
    ACCOUNT,
    Close,
    DeskCommand,
    Deposit,
    DiskFailed,
    Look,
    Open,
    SlowDisk,
    Withdraw,
    desk_kind,
    marked,
    until,
)

NAMES = ["a", "b"]
FOREIGN = NewEvent(b'{"event":"account.deposited","version":1,"data":{"cents":7}}')


def settle(journal: SlowDisk, replies: list[Reply[Any]]) -> None:
    """Let the disk write until every reply is there."""

    def done() -> bool:
        journal.flush()
        return all(reply.done for reply in replies)

    until(done)


def outcome(reply: Reply[Any]) -> object:
    try:
        return reply.get(timeout=0)
    except (DiskFailed, CommandRejected) as error:
        return type(error)


@pytest.mark.property
@pytest.mark.parametrize("seed", range(25))
def test_acknowledged_commands_are_recorded_once_and_answered_alike(seed: int) -> None:
    dice, journal = random.Random(seed), SlowDisk()
    sent: dict[tuple[str, str], list[Reply[int]]] = {}
    system = ActorSystem(journal, actors=[ACCOUNT], threads=2, idle_s=0.0002)

    for number in range(150):
        name = dice.choice(NAMES)
        match dice.choices(["send", "again", "flush", "fail", "foreign", "restart"], [50, 20, 12, 5, 3, 1])[0]:
            case "send":
                command = dice.choice([Deposit(3), Withdraw(2), Look()])
                sent[name, f"c{number}"] = [system.ref(ACCOUNT, name).ask(command, command_id=f"c{number}")]
            case "again" if sent:
                # Under a known id another command changes nothing; one that failed is a new one.
                (name, id_), replies = dice.choice(list(sent.items()))
                replies.append(system.ref(ACCOUNT, name).ask(Deposit(1), command_id=id_))
            case "flush":
                journal.flush()
            case "fail":
                journal.fail(DiskFailed())
            case "foreign":
                settle(journal, [reply for replies in sent.values() for reply in replies])
                journal.append(f"account/{name}", [FOREIGN], expected=journal.head(f"account/{name}").sequence)
            case "restart":
                settle(journal, [reply for replies in sent.values() for reply in replies])
                system.close()
                system = ActorSystem(journal, actors=[ACCOUNT], threads=2, idle_s=0.0002)
            case _:
                pass
    settle(journal, [reply for replies in sent.values() for reply in replies])
    balances = {name: system.ref(ACCOUNT, name).ask(Deposit(0)) for name in NAMES}
    settle(journal, list(balances.values()))
    system.close()

    for name in NAMES:
        events = list(journal.read(f"account/{name}"))
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        recorded = Counter(event.cause for event in events if event.cause.startswith("c"))
        assert set(recorded.values()) <= {1}
        balance = 0
        after: dict[str, int] = {}
        for event in events:
            fact: Any = ACCOUNT.catalog.decode(event)
            balance += fact.cents if event.type.name == "account.deposited" else -fact.cents
            assert balance >= 0
            after[event.cause] = balance
        assert balances[name].get() == balance
        for (owner, id_), replies in sent.items():
            if owner == name and id_ in recorded:
                # Some may have come before the first that was recorded; since then all say the same.
                outcomes = [outcome(reply) for reply in replies]
                assert after[id_] in outcomes
                assert all(one == after[id_] for one in outcomes[outcomes.index(after[id_]) :]), (outcomes, after[id_])


class Crew:
    """Performs jobs until they are told to end, and sees to it that no key is worked on twice at a time."""

    def __init__(self) -> None:
        self.at_work: set[tuple[str, str]] = set()
        self.twice: list[str] = []
        self._ends: dict[tuple[str, str], tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}

    async def __call__(self, effect: Effect, actor: ActorRef[DeskCommand, list[str]]) -> object:
        job = (actor.stream, effect.key)
        if job in self.at_work:
            self.twice.append(effect.key)
        self.at_work.add(job)
        end = asyncio.Event()
        self._ends[job] = (asyncio.get_running_loop(), end)
        try:
            await end.wait()
            await actor.ask(Close(effect.key))
        finally:
            # A job takes its time to end.
            for _ in range(3):
                await asyncio.sleep(0)
            self.at_work.discard(job)
        return None

    def finish(self, stream: str, key: str) -> None:
        if (stream, key) in self._ends:
            loop, end = self._ends[stream, key]
            if not loop.is_closed():
                loop.call_soon_threadsafe(end.set)


@pytest.mark.property
@pytest.mark.parametrize("seed", range(25))
def test_what_is_open_is_what_runs_once_and_is_marked(seed: int) -> None:
    dice, journal, crew = random.Random(seed), SlowDisk(), Crew()
    desk = desk_kind(crew)
    replies: list[Reply[list[str]]] = []
    with ActorSystem(journal, actors=[desk], threads=2, idle_s=0.0002) as system:
        for _ in range(150):
            ref, key = system.ref(desk, dice.choice(NAMES)), dice.choice("xyz")
            match dice.choices(["open", "close", "finish", "flush", "fail"], [35, 20, 15, 25, 5])[0]:
                case "open":
                    replies.append(ref.ask(Open(key)))
                case "close":
                    replies.append(ref.ask(Close(dice.choice([key, None]))))
                case "finish":
                    crew.finish(ref.stream, key)
                case "flush":
                    journal.flush()
                case _:
                    journal.fail(DiskFailed())
        settle(journal, replies)

        def agreed() -> bool:
            looks = {name: system.ref(desk, name).ask(Look()) for name in NAMES}
            settle(journal, list(looks.values()))
            still_open = {(f"desk/{name}", key) for name, look in looks.items() for key in look.get()}
            marks = {name for name in NAMES if marked(journal, f"desk/{name}")}
            return crew.at_work == still_open and marks == {stream.removeprefix("desk/") for stream, _ in still_open}

        until(agreed)
    assert crew.twice == []
