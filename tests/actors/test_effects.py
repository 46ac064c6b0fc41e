"""Effects start once their events are durable, once, and stop when what they are for is gone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from clew.actors import ActorRef, ActorSystem, Effect
from tests.actors.support import (
    WAIT_S,
    Close,
    DiskFailed,
    Look,
    Open,
    Performs,
    SlowDisk,
    Workers,
    desk_kind,
    events_of,
    until,
)


async def close_own(effect: Effect, actor: ActorRef[Any, Any]) -> object:
    await actor.ask(Close(effect.key))
    return None


async def return_close(effect: Effect, actor: ActorRef[Any, Any]) -> object:
    return Close(effect.key)


def test_an_effect_starts_when_its_events_are_durable_and_not_before() -> None:
    journal, workers = SlowDisk(), Workers()
    desk = desk_kind(workers)
    with ActorSystem(journal, actors=[desk], threads=1) as system:
        opened = system.ref(desk, "d").ask(Open("a"))
        journal.appended()
        system.ref(desk, "other").ask(Look()).get(timeout=WAIT_S)  # The turn of the first actor is over.
        assert workers.notes.empty()

        journal.flush()

        assert workers.note() == "a started"
        assert opened.get(timeout=WAIT_S) == ["a"]


def test_an_effect_whose_events_are_lost_never_starts() -> None:
    journal, workers = SlowDisk(), Workers()
    desk = desk_kind(workers)
    with ActorSystem(journal, actors=[desk]) as system:
        lost = system.ref(desk, "d").ask(Open("lost"))
        journal.appended()
        journal.fail(DiskFailed())
        with pytest.raises(DiskFailed):
            lost.get(timeout=WAIT_S)

        system.ref(desk, "d").ask(Open("kept"))
        journal.appended()
        journal.flush()

        assert workers.note() == "kept started"


def test_an_effect_that_is_gone_before_it_is_durable_never_starts() -> None:
    journal, workers = SlowDisk(), Workers()
    desk = desk_kind(workers)
    with ActorSystem(journal, actors=[desk]) as system:
        ref = system.ref(desk, "d")
        for command in (Open("gone"), Close("gone"), Open("kept")):
            ref.tell(command)
            journal.appended()

        journal.flush()

        assert workers.note() == "kept started"
    assert workers.starts == {"kept": 1}


def test_an_effect_starts_once_however_many_commands_find_it_open(workers: Workers) -> None:
    desk = desk_kind(workers)
    with ActorSystem("memory:", actors=[desk]) as system:
        ref = system.ref(desk, "d")
        for key in ("a", "b", "a", "c", "a"):
            ref.ask(Open(key)).get(timeout=WAIT_S)

        assert [workers.note() for _ in range(3)] == ["a started", "b started", "c started"]
        assert ref.ask(Look()).get(timeout=WAIT_S) == ["a", "b", "c"]
    assert workers.starts == {"a": 1, "b": 1, "c": 1}


def test_an_effect_that_an_outside_command_closes_is_cancelled(workers: Workers) -> None:
    desk = desk_kind(workers)
    with ActorSystem("memory:", actors=[desk]) as system:
        ref = system.ref(desk, "d")
        ref.tell(Open("a"))
        assert workers.note() == "a started"

        ref.tell(Close("a"))

        assert workers.note() == "a cancelled"


@pytest.mark.parametrize("finish", [close_own, return_close])
def test_an_effect_that_its_own_command_closes_ends_by_itself(finish: Performs, workers: Workers) -> None:
    desk = desk_kind(workers)
    workers.jobs["a"] = finish
    with ActorSystem("memory:", actors=[desk]) as system:
        ref = system.ref(desk, "d")

        ref.tell(Open("a"))

        assert [workers.note(), workers.note()] == ["a started", "a ended"]
        until(lambda: ref.ask(Look()).get(timeout=WAIT_S) == [])
    assert workers.notes.empty()


def test_an_effect_that_another_effect_closes_is_cancelled(workers: Workers) -> None:
    async def close_all(effect: Effect, actor: ActorRef[Any, Any]) -> object:
        await actor.ask(Close())
        return None

    desk = desk_kind(workers)
    workers.jobs["b"] = close_all
    with ActorSystem("memory:", actors=[desk]) as system:
        ref = system.ref(desk, "d")
        ref.tell(Open("a"))
        assert workers.note() == "a started"

        ref.tell(Open("b"))

        assert workers.note() == "b started"
        assert {workers.note(), workers.note()} == {"a cancelled", "b ended"}


class Lingering:
    """A job that takes its time to end: it waits until the test lets it go."""

    def __init__(self, closes_itself: bool) -> None:
        self.closes_itself = closes_itself
        self.lingers = threading.Event()
        self.let_go: Callable[[], object] = lambda: None

    async def __call__(self, effect: Effect, actor: ActorRef[Any, Any]) -> object:
        go, loop = asyncio.Event(), asyncio.get_running_loop()
        self.let_go = lambda: loop.call_soon_threadsafe(go.set)
        try:
            if self.closes_itself:
                await actor.ask(Close(effect.key))
            else:
                await asyncio.Event().wait()
        finally:
            self.lingers.set()
            await go.wait()
        return None


@pytest.mark.parametrize("closes_itself", [False, True])
def test_an_effect_that_opens_again_while_the_last_one_still_ends_starts_after_it(
    closes_itself: bool, workers: Workers
) -> None:
    desk = desk_kind(workers)
    workers.jobs["a"] = job = Lingering(closes_itself)
    with ActorSystem("memory:", actors=[desk]) as system:
        ref = system.ref(desk, "d")
        ref.ask(Open("a")).get(timeout=WAIT_S)
        assert workers.note() == "a started"
        if not closes_itself:
            ref.ask(Close("a")).get(timeout=WAIT_S)
        assert job.lingers.wait(WAIT_S)

        ref.ask(Open("a", "again")).get(timeout=WAIT_S)
        del workers.jobs["a"]
        job.let_go()

        assert workers.note() in {"a cancelled", "a ended"}
        assert workers.note() == "a started"


def test_an_effect_that_opens_again_and_is_closed_again_while_the_last_one_ends_stays_away(workers: Workers) -> None:
    desk = desk_kind(workers)
    workers.jobs["a"] = job = Lingering(closes_itself=False)
    with ActorSystem("memory:", actors=[desk]) as system:
        ref = system.ref(desk, "d")
        ref.ask(Open("a")).get(timeout=WAIT_S)
        assert workers.note() == "a started"
        for command in (Close("a"), Open("a"), Close("a")):
            ref.ask(command).get(timeout=WAIT_S)
        assert job.lingers.wait(WAIT_S)

        job.let_go()
        assert workers.note() == "a cancelled"
        ref.ask(Open("b")).get(timeout=WAIT_S)

        assert workers.note() == "b started"
    assert workers.starts == {"a": 1, "b": 1}


class Exit(SystemExit):
    """What a careless tool raises."""


@pytest.mark.parametrize("error", [RuntimeError("boom"), Exit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()])
def test_a_performer_that_raises_is_reported_and_harms_nothing(error: BaseException, workers: Workers) -> None:
    async def fail(effect: Effect, actor: ActorRef[Any, Any]) -> object:
        raise error

    desk = desk_kind(workers)
    workers.jobs["a"] = fail
    with ActorSystem("memory:", actors=[desk]) as system:
        ref = system.ref(desk, "d")

        ref.tell(Open("a"))

        until(lambda: system.failures)
        assert [(f.stream, f.error) for f in system.failures] == [("desk/d", error)]
        assert ref.ask(Open("b")).get(timeout=WAIT_S) == ["a", "b"]
        assert [workers.note() for _ in range(3)] == ["a started", "a ended", "b started"]


def test_a_task_of_a_performer_that_exits_does_not_take_the_loop_along(workers: Workers) -> None:
    async def leave() -> None:
        raise Exit(3)

    async def start_a_task(effect: Effect, actor: ActorRef[Any, Any]) -> object:
        await asyncio.gather(asyncio.create_task(leave()), return_exceptions=True)
        return Close(effect.key)

    desk = desk_kind(workers)
    workers.jobs["a"] = start_a_task
    with ActorSystem("memory:", actors=[desk]) as system:
        ref = system.ref(desk, "d")
        ref.tell(Open("a"))
        assert workers.note() == "a started"

        ref.ask(Open("b")).get(timeout=WAIT_S)

        assert {workers.note(), workers.note()} == {"a ended", "b started"}


def test_a_failed_effect_starts_again_with_the_next_activation(workers: Workers) -> None:
    async def fail(effect: Effect, actor: ActorRef[Any, Any]) -> object:
        raise RuntimeError("boom")

    desk = desk_kind(workers)
    workers.jobs["a"] = fail
    with ActorSystem("memory:", actors=[desk], idle_s=0.001) as system:
        ref = system.ref(desk, "d")
        ref.tell(Open("a"))
        assert [workers.note(), workers.note()] == ["a started", "a ended"]
        until(lambda: system.live == 0)
        workers.jobs["a"] = return_close

        ref.ask(Look()).get(timeout=WAIT_S)

        assert [workers.note(), workers.note()] == ["a started", "a ended"]
        until(lambda: events_of(system.journal, "desk/d") == ["opened", "closed"])


def test_work_without_a_performer_is_reported() -> None:
    desk = desk_kind(None)
    with ActorSystem("memory:", actors=[desk]) as system:
        system.ref(desk, "d").ask(Open("a")).get(timeout=WAIT_S)

        until(lambda: system.failures)
        assert "perform for desk" in str(system.failures[0].error)


def test_a_running_effect_outlives_a_failed_commit_and_is_not_started_twice(workers: Workers) -> None:
    journal = SlowDisk()
    desk = desk_kind(workers)
    with ActorSystem(journal, actors=[desk]) as system:
        ref = system.ref(desk, "d")
        ref.tell(Open("a"))
        journal.appended()
        journal.flush()
        assert workers.note() == "a started"

        lost = ref.ask(Close("a"))
        journal.appended()
        journal.fail(DiskFailed())
        with pytest.raises(DiskFailed):
            lost.get(timeout=WAIT_S)

        assert ref.ask(Look()).get(timeout=WAIT_S) == ["a"]
        assert workers.notes.empty()
    assert workers.starts == {"a": 1}
