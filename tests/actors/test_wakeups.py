"""Tasks that wait for replies are woken together, and none of them waits for what a user's function takes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from clew.actors import ActorSystem
from clew.actors.wakeups import gather_wakeups, send_wakeups, wake_up
from tests.actors.support import ACCOUNT, WAIT_S, Call, Deposit, Pause, SlowDisk


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts how often another thread woke it."""

    woken = 0

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, **options: Any) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(callback, *args, **options)


def test_all_that_one_commit_answers_wake_their_loop_a_few_times() -> None:
    journal, loop, many = SlowDisk(), CountingLoop(), 200

    async def ask_all() -> list[int]:
        replies = [system.ref(ACCOUNT, f"a{number}").ask(Deposit(number)) for number in range(many)]
        waits = [asyncio.ensure_future(_value(reply)) for reply in replies]
        await asyncio.to_thread(lambda: [journal.appended() for _ in replies])
        loop.woken = 0
        journal.flush()
        return await asyncio.gather(*waits)

    with ActorSystem(journal, actors=[ACCOUNT], threads=1) as system:
        answers = loop.run_until_complete(ask_all())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()

    assert answers == list(range(many))
    assert loop.woken < many / 4


async def _value(reply: Any) -> int:
    return await reply


async def test_who_was_answered_is_woken_before_another_actor_decides() -> None:
    journal, pause = SlowDisk(), Pause()
    async with ActorSystem(journal, actors=[ACCOUNT], threads=1) as system:
        reply = system.ref(ACCOUNT, "a").ask(Deposit(5))
        await asyncio.to_thread(journal.appended)
        held = Pause()
        system.ref(ACCOUNT, "b").tell(Call(held))
        await asyncio.to_thread(held.entered)
        # The only thread is held; then it lets go of the answer, and is held again by the next one.
        journal.flush()
        system.ref(ACCOUNT, "c").tell(Call(pause))
        held.over()
        await asyncio.to_thread(pause.entered)

        assert await asyncio.wait_for(_value(reply), WAIT_S) == 5
        pause.over()


async def test_a_thread_that_gathers_wakes_when_it_says_so_and_others_at_once() -> None:
    loop, gathered = asyncio.get_running_loop(), threading.Event()
    one, other = loop.create_future(), loop.create_future()
    go_on = threading.Event()

    def gather() -> None:
        gather_wakeups()
        wake_up(one)
        gathered.set()
        assert go_on.wait(WAIT_S)
        send_wakeups()

    thread = threading.Thread(target=gather)
    thread.start()
    await asyncio.to_thread(gathered.wait, WAIT_S)
    await asyncio.to_thread(wake_up, other)
    await asyncio.wait_for(other, WAIT_S)
    assert not one.done()

    go_on.set()

    await asyncio.wait_for(one, WAIT_S)
    thread.join(WAIT_S)
