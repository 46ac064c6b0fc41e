"""Whatever happens in whatever order, what was acknowledged is there once, and what is open is what runs."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from clew.actors import ActorRef, ActorSystem, CommandRejected, Effect, Reply
from clew.journal import NewEvent
from tests.actors.support import (
    ACCOUNT,
    Close,
    Deposit,
    Deposited,
    DeskCommand,
    DiskFailed,
    Look,
    Open,
    SlowDisk,
    Withdraw,
    Withdrawn,
    desk_kind,
    marked,
    until,
)

NAMES = ["a", "b"]
THINGS, CHANCES = ["send", "look", "again", "flush", "fail", "foreign", "restart"], [35, 15, 20, 12, 5, 3, 1]
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


class Bank:
    """Two accounts on a disk that fails now and then, and all that was ever asked of them."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.journal = SlowDisk()
        self.sent: dict[tuple[str, str], list[Reply[int]]] = {}
        self.system = self.opened()

    def opened(self) -> ActorSystem:
        return ActorSystem(self.journal, actors=[ACCOUNT], threads=2, idle_s=0.0002)

    def ask(self, name: str, command: Deposit | Withdraw | Look, id_: str) -> None:
        reply = self.system.ref(ACCOUNT, name).ask(command, command_id=id_)
        self.sent.setdefault((name, id_), []).append(reply)

    def settle(self) -> None:
        settle(self.journal, [reply for replies in self.sent.values() for reply in replies])

    def happen(self, number: int) -> None:
        """Let one thing happen, whichever the dice say."""
        name = self.dice.choice(NAMES)
        match self.dice.choices(THINGS, CHANCES)[0]:
            case "send":
                self.ask(name, self.dice.choice([Deposit(3), Withdraw(2)]), f"c{number}")
            case "look":
                self.ask(name, Look(), f"look {number}")
            case "again" if known := [key for key in self.sent if key[1].startswith("c")]:
                # Under a known id another command changes nothing; under one that failed or was refused it is new.
                name, id_ = self.dice.choice(known)
                self.ask(name, Deposit(1), id_)
            case "flush":
                self.journal.flush()
            case "fail":
                self.journal.fail(DiskFailed())
            case "foreign":
                self.settle()
                stream = f"account/{name}"
                self.journal.append(stream, [FOREIGN], expected=self.journal.head(stream).sequence)
            case _:
                self.settle()
                self.system.close()
                self.system = self.opened()

    def balances(self, name: str) -> dict[str, int]:
        """The balance after each command that is recorded, by its id; each stands there once, and none is below 0."""
        events, balance, after = list(self.journal.read(f"account/{name}")), 0, dict[str, int]()
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        for recorded in events:
            fact = ACCOUNT.catalog.decode(recorded)
            assert isinstance(fact, Deposited | Withdrawn)
            balance += fact.cents if isinstance(fact, Deposited) else -fact.cents
            assert balance >= 0
            assert not recorded.cause or recorded.cause not in after
            after[recorded.cause] = balance
        return after


@pytest.mark.property
@pytest.mark.parametrize("seed", range(25))
def test_acknowledged_commands_are_recorded_once_and_answered_alike(seed: int) -> None:
    bank = Bank(random.Random(seed))

    for number in range(150):
        bank.happen(number)
    bank.settle()
    for name in NAMES:
        bank.ask(name, Deposit(0), "last")
    bank.settle()
    bank.system.close()

    for (name, id_), replies in bank.sent.items():
        recorded = bank.balances(name).get(id_)
        outcomes = [outcome(reply) for reply in replies]
        if recorded is not None:
            # Some may have come before the one that was recorded; since then all say the same.
            assert recorded in outcomes
            assert set(outcomes[outcomes.index(recorded) :]) == {recorded}


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
