"""Follow a stream on an asyncio loop: the same as on a thread, without blocking it."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable

import pytest

from clew.journal import MemoryJournal, NewEvent
from clew.projections import Follow

WAIT_S = 10.0


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


def grow(journal: MemoryJournal, count: int = 1, *, stream: str = "note/a") -> None:
    new = [NewEvent(b'{"event":"note.made","version":1,"data":{}}')] * count
    journal.append(stream, new, expected=journal.head(stream).sequence)


async def read(follow: Follow, count: int, into: list[int] | None = None) -> list[int]:
    """Return the first events, by sequence; with fewer of them, those up to the end."""
    seen = [] if into is None else into
    async with follow as events:
        async for event in events:
            seen.append(event.sequence)
            if len(seen) == count:
                break
    return seen


async def growing(journal: MemoryJournal, seen: list[int], count: int) -> None:
    """Append one event after the other, each once the last was seen."""
    for number in range(count):
        await until(lambda number=number: len(seen) >= number)
        await asyncio.to_thread(grow, journal)


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not fact():  # noqa: ASYNC110  (a list says nothing when it grows)
            await asyncio.sleep(0)


async def test_a_follower_catches_up_and_then_sees_what_happens(journal: MemoryJournal) -> None:
    grow(journal, 3)
    seen: list[int] = []

    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(read(Follow(journal, "note/a", after=1), 6, seen))
        tasks.create_task(growing(journal, seen, 5))

    assert seen == [2, 3, 4, 5, 6, 7]


@pytest.mark.requirement("L-RUN-8")
async def test_many_observers_on_one_loop_each_see_all_of_it(journal: MemoryJournal) -> None:
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as tasks:
        readers = [tasks.create_task(read(Follow(journal, "note/a"), 20)) for _ in range(10)]
        await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.to_thread(grow, journal)

    assert [reader.result() for reader in readers] == [list(range(1, 21))] * 10


async def test_the_whole_journal_is_followed_by_position(journal: MemoryJournal) -> None:
    for stream in ("note/b", "note/a", "note/b"):
        grow(journal, stream=stream)

    async with Follow(journal, after=1, live=False) as events:
        seen = [(event.position, event.stream) async for event in events]

    assert seen == [(2, "note/a"), (3, "note/b")]


@pytest.mark.parametrize("how", ["stop", "close"])
async def test_following_ends_when_it_is_stopped_or_the_journal_closes(how: str, journal: MemoryJournal) -> None:
    grow(journal)
    follow, seen = Follow(journal, "note/a"), list[int]()
    end = follow.stop if how == "stop" else journal.close

    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(read(follow, 99, seen))
        await growing(journal, seen, 2)
        await asyncio.to_thread(end)

    assert seen[:1] == [1]


async def test_a_stopped_follower_gives_nothing_more(journal: MemoryJournal) -> None:
    grow(journal, 10)
    seen: list[int] = []

    async with Follow(journal, "note/a") as events:
        async for event in events:
            seen.append(event.sequence)
            if event.sequence == 3:
                events.stop()

    assert seen == [1, 2, 3]


async def test_a_follower_whose_task_is_cancelled_lets_go(journal: MemoryJournal) -> None:
    follow = Follow(journal, "note/a")
    known = weakref.ref(follow)
    task = asyncio.create_task(read(follow, 1))
    del follow
    await asyncio.sleep(0)

    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    del task
    gc.collect()
    assert known() is None


@pytest.mark.scenario("STR-06")
async def test_two_hundred_followers_that_are_never_read_leave_nothing_behind(journal: MemoryJournal) -> None:
    threads, tasks = threading.active_count(), len(asyncio.all_tasks())
    followers: list[weakref.ref[Follow]] = []
    for number in range(200):
        follow = Follow(journal, "note/a")
        followers.append(weakref.ref(follow))
        if number % 2:
            async with follow:
                pass
        del follow

    gc.collect()

    assert [follower for follower in followers if follower() is not None] == []
    assert (threading.active_count(), len(asyncio.all_tasks())) == (threads, tasks)


@pytest.mark.scenario("STR-07")
async def test_an_observer_that_raises_harms_nobody_else(journal: MemoryJournal) -> None:
    async def fail() -> None:
        async with Follow(journal, "note/a") as events:
            async for _ in events:
                raise ZeroDivisionError

    good, bad = asyncio.create_task(read(Follow(journal, "note/a"), 10)), asyncio.create_task(fail())
    await asyncio.sleep(0)

    for _ in range(10):
        await asyncio.to_thread(grow, journal)

    async with asyncio.timeout(WAIT_S):
        assert await good == list(range(1, 11))
        with pytest.raises(ZeroDivisionError):
            await bad


def test_a_follower_whose_loop_has_closed_harms_nobody(journal: MemoryJournal) -> None:
    follow = Follow(journal, "note/a")
    seen: list[int] = []
    with follow, Follow(journal, "note/a") as other:
        loop = asyncio.new_event_loop()
        waiting = loop.create_task(_first(follow))
        loop.run_until_complete(asyncio.sleep(0))
        waiting.cancel()
        loop.run_until_complete(asyncio.wait([waiting]))
        loop.close()

        grow(journal)

        seen.append(next(iter(other)).sequence)
    assert seen == [1]


async def _first(follow: Follow) -> int:
    return (await anext(aiter(follow))).sequence


async def test_following_live_outside_a_block_is_refused(journal: MemoryJournal) -> None:
    with pytest.raises(RuntimeError, match="inside a with block"):
        await _first(Follow(journal, "note/a"))
