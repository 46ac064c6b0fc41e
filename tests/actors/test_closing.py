"""Closing handles what waits, keeps what was acknowledged, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from clew.actors import ActorRef, ActorSystem, BlockingAsk, Effect, Reply, SystemClosed
from clew.actors.effects_loop import EffectsLoop
from clew.journal import JournalClosed, MemoryJournal
from clew.journal.lmdb import LmdbJournal
from tests.actors.support import (
    ACCOUNT,
    WAIT_S,
    Call,
    Deposit,
    Look,
    Open,
    Pause,
    SlowDisk,
    Workers,
    account_kind,
    desk_kind,
    marked,
    until,
)


def test_closing_handles_what_waits_and_answers_it(tmp_path: Path) -> None:
    with ActorSystem(tmp_path, actors=[ACCOUNT]) as system:
        refs = [system.ref(ACCOUNT, f"a{number}") for number in range(20)]
        replies = [ref.ask(Deposit(1)) for _ in range(20) for ref in refs]

    assert sorted(reply.get(timeout=0) for reply in replies) == sorted(list(range(1, 21)) * 20)
    with LmdbJournal(tmp_path) as journal:
        assert len(list(journal.read_all())) == 400


@pytest.mark.parametrize("attempt", range(5))
def test_whatever_is_sent_while_a_system_closes_is_answered_and_what_is_acknowledged_is_there(
    attempt: int, tmp_path: Path
) -> None:
    senders, start = 4, threading.Barrier(5)
    journal, account = LmdbJournal(tmp_path), account_kind(mailbox_size=100_000)
    system = ActorSystem(journal, actors=[account], threads=3)

    def send(sender: int) -> list[Reply[int]]:
        replies: list[Reply[int]] = []
        start.wait(WAIT_S)
        try:
            for number in range(10_000):
                ref = system.ref(account, f"a{number % 7}")
                replies.append(ref.ask(Deposit(1), command_id=f"{sender}:{number}"))
        except SystemClosed:
            return replies
        return replies

    with ThreadPoolExecutor(senders) as pool:
        sending = [pool.submit(send, sender) for sender in range(senders)]
        start.wait(WAIT_S)
        until(lambda: system.live > attempt)
        system.close()
        sent = [reply for future in sending for reply in future.result(WAIT_S)]

    assert all(reply.done for reply in sent)
    acknowledged = sum(_acknowledged(reply) for reply in sent)
    assert 0 < acknowledged <= len(list(journal.read_all()))
    journal.close()


def _acknowledged(reply: Reply[int]) -> bool:
    try:
        return reply.get(timeout=0) > 0
    except SystemClosed:
        return False


def test_a_command_that_is_being_decided_when_the_system_closes_is_answered() -> None:
    journal, pause = SlowDisk(), Pause()
    system = ActorSystem(journal, actors=[ACCOUNT])
    ref = system.ref(ACCOUNT, "a")
    reply = ref.ask(Call(pause, cents=5))
    pause.entered()
    closing = threading.Thread(target=system.close)
    closing.start()
    until(lambda: _refused(lambda: ref.tell(Look())))

    pause.over()
    journal.appended()
    journal.flush()

    closing.join(WAIT_S)
    assert reply.get(timeout=0) == 5


def _refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except SystemClosed:
        return True
    return False


def test_closing_cancels_what_runs_and_the_next_opening_goes_on_with_it() -> None:
    journal, workers = MemoryJournal(), Workers()
    desk = desk_kind(workers)
    with ActorSystem(journal, actors=[desk]) as system:
        for key in "abc":
            system.ref(desk, key).tell(Open(key))
        assert {workers.note() for _ in range(3)} == {"a started", "b started", "c started"}
    assert {workers.note() for _ in range(3)} == {"a cancelled", "b cancelled", "c cancelled"}
    assert list(system.failures) == []

    with ActorSystem(journal, actors=[desk]):
        assert {workers.note() for _ in range(3)} == {"a started", "b started", "c started"}


def test_closing_keeps_the_mark_of_work_that_was_decided_and_not_started() -> None:
    journal, workers = SlowDisk(), Workers()
    desk = desk_kind(workers)
    system = ActorSystem(journal, actors=[desk])
    reply = system.ref(desk, "d").ask(Open("a"))
    journal.appended()
    closing = threading.Thread(target=system.close)
    closing.start()
    until(lambda: _refused(lambda: system.ref(desk, "d").tell(Look())))

    journal.flush()

    closing.join(WAIT_S)
    assert reply.get(timeout=0) == ["a"]
    assert marked(journal, "desk/d")


@pytest.mark.parametrize("owned", [True, False])
def test_closing_leaves_no_thread_behind_and_closes_the_journal_it_opened(owned: bool, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    journal = MemoryJournal()
    workers = Workers()
    desk = desk_kind(workers)
    with ActorSystem(tmp_path if owned else journal, actors=[desk], threads=3) as system:
        system.ref(desk, "d").tell(Open("a"))
        assert workers.note() == "a started"

    assert set(threading.enumerate()) == before
    assert system.journal.closed is owned
    if owned:
        with pytest.raises(JournalClosed):
            system.journal.read("desk/d")


def test_a_system_can_be_closed_twice_and_from_many_threads_and_each_waits() -> None:
    pause, journal = Pause(), MemoryJournal()
    system = ActorSystem(journal, actors=[ACCOUNT])
    reply = system.ref(ACCOUNT, "a").ask(Call(pause, cents=5))
    pause.entered()
    answered: list[bool] = []

    def close() -> None:
        system.close()
        answered.append(reply.done)

    closing = [threading.Thread(target=close) for _ in range(4)]
    for thread in closing:
        thread.start()

    pause.over()

    for thread in closing:
        thread.join(WAIT_S)
    assert answered == [True] * 4
    system.close()


async def test_a_system_closes_without_stopping_the_loop_that_closes_it() -> None:
    pause = Pause()
    async with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        reply = system.ref(ACCOUNT, "a").ask(Call(pause, cents=5))
        await asyncio.to_thread(pause.entered)
        asyncio.get_running_loop().call_later(0.001, pause.over)

    assert reply.get(timeout=0) == 5


def test_a_thread_that_drives_actors_cannot_close_their_system(workers: Workers) -> None:
    refused: list[type] = []

    async def close(effect: Effect, actor: ActorRef[Any, Any]) -> object:
        try:
            system.close()
        except BlockingAsk as error:
            refused.append(type(error))
        return None

    workers.jobs["a"] = close
    desk = desk_kind(workers)
    with ActorSystem("memory:", actors=[desk, ACCOUNT]) as system:
        system.ref(desk, "d").tell(Open("a"))
        assert [workers.note(), workers.note()] == ["a started", "a ended"]
        with pytest.raises(BlockingAsk):
            system.ref(ACCOUNT, "a").ask(Call(system.close)).get(timeout=WAIT_S)

        assert refused == [BlockingAsk]
        assert system.ref(ACCOUNT, "a").ask(Deposit(5)).get(timeout=WAIT_S) == 5


def test_commits_that_never_come_are_not_waited_for_for_ever() -> None:
    journal = SlowDisk()
    system = ActorSystem(journal, actors=[ACCOUNT])
    replies = [system.ref(ACCOUNT, f"a{number}").ask(Deposit(5)) for number in range(5)]
    for _ in replies:
        journal.appended()

    system.close(timeout_s=0.01)

    for reply in replies:
        with pytest.raises(SystemClosed):
            reply.get(timeout=0)


def test_an_effect_that_does_not_end_is_left_behind_and_reported(workers: Workers) -> None:
    async def stubborn(effect: Effect, actor: ActorRef[Any, Any]) -> object:
        while True:
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue

    workers.jobs["a"] = stubborn
    desk = desk_kind(workers)

    def close() -> tuple[int, list[str]]:
        system = ActorSystem("memory:", actors=[desk, ACCOUNT])
        system.ref(desk, "d").tell(Open("a"))
        assert workers.note() == "a started"
        waiting = system.ref(ACCOUNT, "a").ask(Deposit(5))
        system.close(timeout_s=0.01)
        assert system.journal.closed
        return waiting.get(timeout=0), [failure.what for failure in system.failures]

    assert close() == (5, ["an effect may still do something"])
    gc.collect()  # What was left behind ends here, and not in the middle of another test.
    assert workers.note() == "a ended"


def test_an_effect_that_blocks_its_loop_is_left_behind_and_reported(workers: Workers) -> None:
    released = threading.Event()

    async def blocking(effect: Effect, actor: ActorRef[Any, Any]) -> object:
        released.wait(WAIT_S)
        return None

    workers.jobs["a"] = blocking
    desk = desk_kind(workers)
    system = ActorSystem("memory:", actors=[desk])
    system.ref(desk, "d").tell(Open("a"))
    assert workers.note() == "a started"

    system.close(timeout_s=0.01)

    assert [failure.what for failure in system.failures] == ["an effect may still do something"]
    released.set()
    assert workers.note() == "a ended"
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "clew-effects"])


def test_tasks_that_others_start_while_they_are_cancelled_are_cancelled_too(workers: Workers) -> None:
    ended: list[str] = []

    async def late() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("late")

    async def early(effect: Effect, actor: ActorRef[Any, Any]) -> object:
        try:
            await asyncio.Event().wait()
        finally:
            task = asyncio.create_task(late())
            await asyncio.sleep(0)
            ended.append(f"early, before {task.get_name()[:4]}")
        return None

    workers.jobs["a"] = early
    desk = desk_kind(workers)
    with ActorSystem("memory:", actors=[desk]) as system:
        system.ref(desk, "d").tell(Open("a"))
        assert workers.note() == "a started"

    assert ended == ["early, before Task", "late"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("turns", range(6))
def test_a_task_that_has_not_taken_its_first_step_is_not_dropped_with_what_it_was_given(turns: int) -> None:
    effects, begun = EffectsLoop(name="test"), list[int]()

    async def given() -> None:
        begun.append(turns)
        await asyncio.Event().wait()

    async def wrapped(work: Coroutine[object, object, None]) -> None:
        await work

    async def work() -> None:
        loop = asyncio.get_running_loop()
        wind_down = effects._wind_down(loop, WAIT_S)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (at this very turn)
        asyncio.run_coroutine_threadsafe(wind_down, loop)
        for _ in range(turns):
            await asyncio.sleep(0)
        await asyncio.create_task(wrapped(given()))

    effects.start(work, lambda: None)
    for thread in threading.enumerate():
        if thread.name == "test":
            thread.join(WAIT_S)

    gc.collect()
    assert begun in ([], [turns])
