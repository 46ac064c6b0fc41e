"""Idle actors go to sleep and come back with the next message; nothing is lost between the two."""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pykka
import pytest

from clew.actors import ActorSystem, Effect
from tests.actors.support import (
    ACCOUNT,
    WAIT_S,
    Close,
    Deposit,
    Look,
    Open,
    SlowDisk,
    Workers,
    desk_kind,
    marked,
    until,
)

SLEEPY = 0.0005


def test_an_idle_actor_goes_to_sleep_and_comes_back_as_it_was() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT], idle_s=SLEEPY) as system:
        ref = system.ref(ACCOUNT, "a")
        ref.ask(Deposit(5)).get(timeout=WAIT_S)

        until(lambda: system.live == 0)

        assert ref.ask(Deposit(1)).get(timeout=WAIT_S) == 6


def test_an_actor_whose_work_is_open_stays_awake(workers: Workers) -> None:
    desk = desk_kind(workers)
    with ActorSystem("memory:", actors=[desk], idle_s=SLEEPY) as system:
        ref, other = system.ref(desk, "d"), system.ref(desk, "other")
        ref.ask(Open("a")).get(timeout=WAIT_S)
        assert workers.note() == "a started"
        for _ in range(3):
            other.ask(Look()).get(timeout=WAIT_S)
            until(lambda: system.live == 1)

        ref.ask(Close("a")).get(timeout=WAIT_S)

        assert workers.note() == "a cancelled"
        until(lambda: system.live == 0)


def test_an_actor_that_waits_for_the_disk_stays_awake() -> None:
    journal = SlowDisk()
    with ActorSystem(journal, actors=[ACCOUNT], idle_s=SLEEPY) as system:
        held = system.ref(ACCOUNT, "a").ask(Deposit(5))
        journal.appended()
        for _ in range(3):
            system.ref(ACCOUNT, "other").ask(Look()).get(timeout=WAIT_S)
            until(lambda: system.live == 1)

        journal.flush()

        assert held.get(timeout=WAIT_S) == 5
        until(lambda: system.live == 0)


@pytest.mark.parametrize("seed", range(3))
def test_no_message_is_lost_between_falling_asleep_and_waking_up(seed: int) -> None:
    senders, each, actors = 6, 150, 5
    with ActorSystem("memory:", actors=[ACCOUNT], threads=4, idle_s=0.00001) as system:
        refs = [system.ref(ACCOUNT, f"a{number}") for number in range(actors)]

        def send(sender: int) -> Counter[str]:
            dice, sent = random.Random(seed * 100 + sender), Counter[str]()
            for _ in range(each):
                ref = dice.choice(refs)
                sent[ref.stream] += 1
                if dice.random() < 0.5:
                    ref.tell(Deposit(1))
                else:
                    ref.ask(Deposit(1)).get(timeout=WAIT_S)
            return sent

        with ThreadPoolExecutor(senders) as pool:
            sent = sum(pool.map(send, range(senders)), Counter[str]())

        answers = {ref.stream: ref.ask(Look()).get(timeout=WAIT_S) for ref in refs}
        assert answers == sent
        assert sum(sent.values()) == senders * each
        assert list(system.failures) == []
        until(lambda: system.live == 0)


def test_no_wake_up_is_lost_when_commits_come_while_actors_fall_asleep() -> None:
    journal, stop = SlowDisk(), threading.Event()

    def flush() -> None:
        while not stop.is_set():
            journal.flush()

    disk = threading.Thread(target=flush)
    disk.start()
    try:
        with ActorSystem(journal, actors=[ACCOUNT], threads=3, idle_s=0.00001) as system:
            for round_ in range(40):
                replies = [system.ref(ACCOUNT, f"a{n}").ask(Deposit(1)) for n in range(5)]
                assert {reply.get(timeout=WAIT_S) for reply in replies} == {round_ + 1}
    finally:
        stop.set()
        disk.join(WAIT_S)


def test_effects_that_come_and_go_while_actors_fall_asleep_run_once_each(workers: Workers) -> None:
    async def finish(effect: Effect, actor: object) -> object:
        return Close(effect.key)

    desk, rounds = desk_kind(workers), 60
    with ActorSystem("memory:", actors=[desk], idle_s=0.00001) as system:
        ref = system.ref(desk, "d")
        for number in range(rounds):
            workers.jobs[f"job {number}"] = finish
            ref.ask(Open(f"job {number}")).get(timeout=WAIT_S)
            assert [workers.note(), workers.note()] == [f"job {number} started", f"job {number} ended"]
        until(lambda: ref.ask(Look()).get(timeout=WAIT_S) == [])
        until(lambda: system.live == 0)

        assert not marked(system.journal, "desk/d")
    assert set(workers.starts.values()) == {1}


def test_an_actor_can_be_sent_to_sleep_by_pykka_s_own_stop() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        ref.ask(Deposit(5)).get(timeout=WAIT_S)
        [actor] = system._live()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (pykka's side of an actor has no name of its own)

        assert actor.actor_ref.stop(timeout=WAIT_S)

        assert actor.actor_stopped.wait(WAIT_S)
        with pytest.raises(pykka.ActorDeadError):
            actor.actor_ref.tell("hello")
        assert ref.ask(Look()).get(timeout=WAIT_S) == 5
