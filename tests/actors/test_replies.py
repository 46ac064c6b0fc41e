"""The reply to an ask is a pykka future that can be awaited, and that refuses to stop the whole system."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pykka
import pytest

from clew.actors import ActorRef, ActorSystem, BlockingAsk, CommandRejected, Effect, Reply
from clew.actors.local import LocalActor
from tests.actors.support import (
    ACCOUNT,
    WAIT_S,
    Call,
    Close,
    Deposit,
    Look,
    Open,
    SlowDisk,
    Withdraw,
    Workers,
    desk_kind,
    until,
)


def test_a_reply_is_a_pykka_future_with_its_own_timeout() -> None:
    journal = SlowDisk()
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        reply = system.ref(ACCOUNT, "a").ask(Deposit(5))
        journal.appended()

        with pytest.raises(pykka.Timeout):
            reply.get(timeout=0.01)

        journal.flush()
        assert isinstance(reply, pykka.Future)
        assert pykka.get_all([reply], timeout=WAIT_S) == [5]
        assert reply.done


def test_actors_are_pykka_actors_that_pykka_s_registry_does_not_know() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        system.ref(ACCOUNT, "a").ask(Deposit(5)).get(timeout=WAIT_S)

        assert issubclass(LocalActor, pykka.Actor)
        assert system.live == 1
        assert pykka.ActorRegistry.get_all() == []


def test_a_reply_can_be_mapped_joined_and_reduced_as_pykka_s() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        one, two = (system.ref(ACCOUNT, name).ask(Deposit(cents)) for name, cents in (("a", 1), ("b", 2)))

        assert one.map(lambda balance: balance * 10).get(timeout=WAIT_S) == 10
        assert list(one.join(two).get(timeout=WAIT_S)) == [1, 2]
        assert one.join(two).reduce(lambda total, balance: total + balance, 0).get(timeout=WAIT_S) == 3


async def test_a_mapped_reply_can_be_awaited() -> None:
    journal = SlowDisk()
    async with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        mapped = ref.ask(Deposit(5)).map(lambda balance: balance * 10)
        refused = ref.ask(Withdraw(99)).map(lambda balance: balance * 10)
        await asyncio.to_thread(journal.appended)
        asyncio.get_running_loop().call_soon(journal.flush)

        assert await mapped == 50
        with pytest.raises(CommandRejected):
            await refused


async def test_a_reply_that_is_there_is_awaited_at_once_and_as_often_as_one_likes() -> None:
    async with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        reply = system.ref(ACCOUNT, "a").ask(Deposit(5))

        assert [await reply, await reply, reply.get()] == [5, 5, 5]


def test_one_reply_can_be_awaited_on_several_loops_and_got_on_threads_at_once() -> None:
    journal, answers = SlowDisk(), list[int]()

    async def wait(reply: Reply[int]) -> int:
        both = await asyncio.gather(_await(reply), _await(reply))
        return sum(both)

    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        reply = system.ref(ACCOUNT, "a").ask(Deposit(5))
        waits: list[Callable[[], int]] = [lambda: asyncio.run(wait(reply)), lambda: reply.get(timeout=WAIT_S)]
        threads = [threading.Thread(target=_collect, args=(answers, get)) for get in waits * 3]
        for thread in threads:
            thread.start()
        journal.appended()

        journal.flush()

        for thread in threads:
            thread.join(WAIT_S)
    assert sorted(answers) == [5, 5, 5, 10, 10, 10]


def _collect(answers: list[int], get: Callable[[], int]) -> None:
    answers.append(get())


async def _await(reply: Awaitable[int]) -> int:
    return await reply


async def test_a_wait_that_is_cancelled_leaves_the_reply_to_others() -> None:
    journal = SlowDisk()
    async with ActorSystem(journal, actors=[ACCOUNT]) as system:
        reply = system.ref(ACCOUNT, "a").ask(Deposit(5))
        await asyncio.to_thread(journal.appended)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_await(reply), timeout=0.001)

        journal.flush()

        assert await reply == 5


def test_an_answer_that_comes_after_its_loop_has_closed_harms_nobody() -> None:
    journal = SlowDisk()

    async def give_up(reply: Reply[int]) -> None:
        await asyncio.wait_for(_await(reply), timeout=0.001)

    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        reply = system.ref(ACCOUNT, "a").ask(Deposit(5))
        journal.appended()
        with pytest.raises(TimeoutError):
            asyncio.run(give_up(reply))

        journal.flush()

        assert reply.get(timeout=WAIT_S) == 5
        assert list(system.failures) == []


class ClosingLoop(asyncio.SelectorEventLoop):
    """A loop that closes just after it was asked whether it is closed."""

    closes = False

    def is_closed(self) -> bool:
        return False if self.closes else super().is_closed()


def test_an_answer_that_comes_while_its_loop_closes_harms_nobody() -> None:
    journal = SlowDisk()

    async def give_up(reply: Reply[int]) -> None:
        await asyncio.wait_for(_await(reply), timeout=0.001)

    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        reply = system.ref(ACCOUNT, "a").ask(Deposit(5))
        journal.appended()
        loop = ClosingLoop()
        with pytest.raises(TimeoutError):
            loop.run_until_complete(give_up(reply))
        loop.close()
        loop.closes = True

        journal.flush()

        assert system.ref(ACCOUNT, "a").ask(Look()).get(timeout=WAIT_S) == 5
        assert list(system.failures) == []
        loop.closes = False


@pytest.mark.scenario("CON-11")
def test_an_actor_that_waits_for_itself_or_for_another_is_refused() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        own, other = system.ref(ACCOUNT, "a"), system.ref(ACCOUNT, "b")
        own.ask(Deposit(5)).get(timeout=WAIT_S)

        for asked in (own, other):
            with pytest.raises(BlockingAsk, match="could stop them all"):
                own.ask(Call(lambda asked=asked: asked.ask(Look()).get(timeout=WAIT_S))).get(timeout=WAIT_S)

        assert own.ask(Look()).get(timeout=WAIT_S) == 5
        assert other.ask(Look()).get(timeout=WAIT_S) == 0


@pytest.mark.scenario("CON-11")
def test_a_cycle_of_actors_that_wait_for_each_other_is_refused() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        x, y = system.ref(ACCOUNT, "x"), system.ref(ACCOUNT, "y")

        def ask_back() -> object:
            return y.ask(Call(lambda: x.ask(Look()).get(timeout=WAIT_S))).get(timeout=WAIT_S)

        with pytest.raises(BlockingAsk):
            x.ask(Call(ask_back)).get(timeout=WAIT_S)


@pytest.mark.scenario("CON-11")
def test_an_actor_may_tell_itself_and_take_a_reply_that_is_there() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        there = ref.ask(Deposit(5))
        there.get(timeout=WAIT_S)

        ref.ask(Call(lambda: ref.tell(Deposit(there.get())))).get(timeout=WAIT_S)

        until(lambda: ref.ask(Look()).get(timeout=WAIT_S) == 10)


@pytest.mark.scenario("CON-11")
def test_an_effect_may_await_its_actor_and_others_and_may_not_block_on_them(workers: Workers) -> None:
    seen: list[object] = []

    async def ask_around(effect: Effect, actor: ActorRef[Any, Any]) -> object:
        try:
            actor.ask(Look()).get(timeout=WAIT_S)
        except BlockingAsk as error:
            seen.append(type(error))
        seen.append(await actor.ask(Look()))
        seen.append(await system.ref(desk, "other").ask(Look()))
        return Close(effect.key)

    workers.jobs["a"] = ask_around
    desk = desk_kind(workers)
    with ActorSystem("memory:", actors=[desk]) as system:
        system.ref(desk, "d").ask(Open("a")).get(timeout=WAIT_S)

        assert [workers.note(), workers.note()] == ["a started", "a ended"]
    assert seen == [BlockingAsk, ["a"], []]


def test_a_callback_that_raises_harms_neither_the_actor_nor_other_callbacks() -> None:
    journal, called = SlowDisk(), list[str]()
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        reply = ref.ask(Deposit(5))
        reply.when_done(lambda: called.append(str(1 / 0)))
        reply.when_done(lambda: called.append("second"))
        journal.appended()

        journal.flush()

        assert ref.ask(Look()).get(timeout=WAIT_S) == 5
        assert called == ["second"]
        assert list(system.failures) == []


def test_a_reply_is_answered_once() -> None:
    reply: Reply[int] = Reply()
    reply.set(1)

    with pytest.raises(Exception):  # noqa: B017, PT011  (pykka raises `queue.Full`)
        reply.set(2)

    assert reply.get() == 1


def test_an_error_that_is_told_again_and_again_does_not_grow() -> None:
    error = CommandRejected("no")
    replies: list[Reply[int]] = [Reply(), Reply()]
    for reply in replies:
        reply.fail(error)

    depths: list[int] = []
    for reply in replies * 10:
        with pytest.raises(CommandRejected) as told:
            reply.get()
        depths.append(len(told.traceback))

    assert len(set(depths)) == 1
