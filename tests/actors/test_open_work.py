"""The journal knows which actors have open work, so a start of the system wakes those and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.actors import ActorSystem, Effect, UnknownKind
from clew.journal import CellWrite, MemoryJournal, NewEvent, open_mark
from tests.actors.support import (
    ACCOUNT,
    WAIT_S,
    Close,
    Deposit,
    DiskFailed,
    Look,
    Open,
    SlowDisk,
    Workers,
    desk_kind,
    events_of,
    marked,
    until,
)

OPENED = NewEvent(b'{"event":"desk.opened","version":1,"data":{"key":"a","work":"foreign"}}')
CLOSED = NewEvent(b'{"event":"desk.closed","version":1,"data":{"key":"a"}}')


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


async def finish(effect: Effect, actor: object) -> object:
    return Close(effect.key)


def test_a_start_wakes_the_actors_with_open_work_and_no_others(tmp_path: Path) -> None:
    desk = desk_kind(Workers())
    with ActorSystem(tmp_path, actors=[desk, ACCOUNT]) as system:
        for number in range(6):
            ref = system.ref(desk, f"d{number}")
            ref.ask(Open("a")).get(timeout=WAIT_S)
            if number % 2:
                ref.ask(Close("a")).get(timeout=WAIT_S)
        system.ref(ACCOUNT, "a").ask(Deposit(5)).get(timeout=WAIT_S)

    workers = Workers()
    desk = desk_kind(workers)
    with ActorSystem(tmp_path, actors=[desk, ACCOUNT]) as system:
        assert [workers.note() for _ in range(3)] == ["a started"] * 3
        assert system.live == 3
    assert workers.starts == {"a": 3}


@pytest.mark.scenario("CON-13")
def test_recovery_starts_nothing_twice_whatever_is_sent_meanwhile(journal: MemoryJournal, workers: Workers) -> None:
    desk = desk_kind(workers)
    names = [f"d{number}" for number in range(100)]
    with ActorSystem(journal, actors=[desk]) as system:
        for name in names[:50]:
            system.ref(desk, name).ask(Open(name)).get(timeout=WAIT_S)
    workers.starts.clear()

    with ActorSystem(journal, actors=[desk], threads=4) as system:
        for name in names:
            system.ref(desk, name).tell(Open(name))
        assert system.recover() >= 50
        for name in names:
            assert system.ref(desk, name).ask(Open(name)).get(timeout=WAIT_S) == [name]
        until(lambda: len(workers.starts) == 100)
        system.recover()
        assert system.ref(desk, "d0").ask(Look()).get(timeout=WAIT_S) == ["d0"]
    assert workers.starts == dict.fromkeys(names, 1)


def test_open_work_goes_on_after_passivation_when_the_next_message_comes(journal: MemoryJournal) -> None:
    workers = Workers()
    desk = desk_kind(workers)
    with ActorSystem(journal, actors=[desk]) as system:
        system.ref(desk, "d").ask(Open("a")).get(timeout=WAIT_S)
        assert workers.note() == "a started"
    assert workers.note() == "a cancelled"

    again = Workers()
    again.jobs["a"] = finish
    desk = desk_kind(again)
    with ActorSystem(journal, actors=[desk], recover=False) as system:
        assert system.live == 0
        assert system.ref(desk, "d").ask(Look()).get(timeout=WAIT_S) == ["a"]
        until(lambda: events_of(journal, "desk/d") == ["opened", "closed"])
    assert not marked(journal, "desk/d")


def test_open_work_of_an_unknown_kind_is_reported_and_kept(journal: MemoryJournal) -> None:
    desk = desk_kind(Workers())
    with ActorSystem(journal, actors=[desk]) as system:
        system.ref(desk, "d").ask(Open("a")).get(timeout=WAIT_S)

    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        assert [(f.stream, type(f.error)) for f in system.failures] == [("desk/d", UnknownKind)]
        assert system.live == 0
    assert marked(journal, "desk/d")


def test_looking_around_leaves_open_work_alone(journal: MemoryJournal) -> None:
    desk = desk_kind(Workers())
    with ActorSystem(journal, actors=[desk]) as system:
        system.ref(desk, "d").ask(Open("a")).get(timeout=WAIT_S)

    with ActorSystem(journal, actors=[desk], recover=False) as system:
        assert (system.live, marked(system.journal, "desk/d")) == (0, True)


def test_a_mark_without_open_work_is_taken_away(journal: MemoryJournal, workers: Workers) -> None:
    journal.cells.write([CellWrite(open_mark("desk/d"), b"desk/d")])

    with ActorSystem(journal, actors=[desk_kind(workers)]):
        until(lambda: not marked(journal, "desk/d"))
    assert list(journal.read_all()) == []


def test_open_work_without_a_mark_is_marked_by_the_next_activation(journal: MemoryJournal, workers: Workers) -> None:
    journal.append("desk/d", [OPENED], expected=0)
    desk = desk_kind(workers)

    with ActorSystem(journal, actors=[desk]) as system:
        assert system.live == 0
        system.ref(desk, "d").ask(Look()).get(timeout=WAIT_S)

        assert workers.note() == "a started"
        assert marked(journal, "desk/d")


def test_the_mark_of_a_name_beyond_the_length_of_a_cell_key_is_kept_too(journal: MemoryJournal) -> None:
    name = "é" * 800
    desk = desk_kind(Workers())
    with ActorSystem(journal, actors=[desk]) as system:
        system.ref(desk, name).ask(Open("a")).get(timeout=WAIT_S)

    workers = Workers()
    workers.jobs["a"] = finish
    with ActorSystem(journal, actors=[desk_kind(workers)]):
        assert workers.note() == "a started"
        until(lambda: not marked(journal, f"desk/{name}"))


def test_work_that_another_writer_opens_or_closes_is_started_or_cancelled(
    journal: MemoryJournal, workers: Workers
) -> None:
    desk = desk_kind(workers)
    with ActorSystem(journal, actors=[desk]) as system:
        ref = system.ref(desk, "d")
        assert ref.ask(Look()).get(timeout=WAIT_S) == []

        journal.append("desk/d", [OPENED], expected=0)
        assert ref.ask(Open("b")).get(timeout=WAIT_S) == ["a", "b"]
        assert {workers.note(), workers.note()} == {"a started", "b started"}

        journal.append("desk/d", [CLOSED], expected=2)
        assert ref.ask(Open("c")).get(timeout=WAIT_S) == ["b", "c"]
        assert {workers.note(), workers.note()} == {"a cancelled", "c started"}
        assert marked(journal, "desk/d")

        ref.ask(Close()).get(timeout=WAIT_S)
        assert not marked(journal, "desk/d")
    assert workers.starts == {"a": 1, "b": 1, "c": 1}


def test_after_a_failed_commit_the_mark_is_that_of_the_durable_state(workers: Workers) -> None:
    journal = SlowDisk()
    desk = desk_kind(workers)
    with ActorSystem(journal, actors=[desk]) as system:
        ref = system.ref(desk, "d")
        for command, fails, mark in (
            (Open("a"), True, False),
            (Open("a"), False, True),
            (Close("a"), True, True),
            (Close("a"), False, False),
        ):
            reply = ref.ask(command)
            journal.appended()
            journal.fail(DiskFailed()) if fails else journal.flush()
            until(lambda reply=reply: reply.done)
            assert marked(journal, "desk/d") is mark
        ref.ask(Look()).get(timeout=WAIT_S)
        journal.flush()
        assert not marked(journal, "desk/d")
    assert workers.starts == {"a": 1}
