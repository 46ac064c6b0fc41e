"""Alarms wake actors when they are due: once, in time, and after whatever happened in between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clew.actors import (
    ActorSystem,
    system_clock,
)
from clew.actors.testing import VirtualClock
from clew.journal import MemoryJournal
from clew.journal.history import DUE_MAX
from tests.actors.reminders import MARKER, SECOND, Ask, Bell, Cancel, Hold, Remind, filed, pass_time, rang, remind
from tests.actors.support import WAIT_S, Pause, until

HOUR = 3600 * SECOND

Place = Callable[[], MemoryJournal | str]


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=["memory", "lmdb", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where a journal is that can be opened more than once."""
    if request.param == "memory":
        kept = MemoryJournal()
        return lambda: kept
    return lambda: str(tmp_path / "journal") if request.param == "lmdb" else f"sqlite:///{tmp_path / 'journal.db'}"


def test_an_alarm_fires_when_it_is_due_and_not_before(place: Place, clock: VirtualClock) -> None:
    bell = Bell()
    with ActorSystem(place(), actors=[bell.kind], clock=clock) as system:
        due = clock.now + 60 * SECOND
        remind(system, bell, "a", due)

        pass_time(system, bell, clock, 59.999_999)
        system.ref(bell.kind, "a").ask(Ask()).get(timeout=WAIT_S)
        assert bell.fired["reminder/a"] == 0

        clock.jump_to(due)
        until(lambda: rang(system.journal, "reminder/a") == [due])
        until(lambda: filed(system.journal) == [])
        assert list(system.failures) == []
    assert bell.fired["reminder/a"] == 1


@pytest.mark.scenario("SCH-14")
def test_an_alarm_that_was_due_while_the_system_was_down_fires_at_the_next_opening(
    place: Place, clock: VirtualClock
) -> None:
    bell = Bell()
    with ActorSystem(place(), actors=[bell.kind], clock=clock) as system:
        for number in range(3):
            remind(system, bell, f"a{number}", clock.now + 60 * SECOND)
        remind(system, bell, "later", clock.now + 2 * HOUR)
    clock.advance(3600)

    with ActorSystem(place(), actors=[bell.kind], clock=clock) as system:
        until(lambda: all(rang(system.journal, f"reminder/a{number}") for number in range(3)))
        assert filed(system.journal) == [(clock.now + HOUR, "reminder/later")]
        assert system.live == 3
    with ActorSystem(place(), actors=[bell.kind], clock=clock) as system:
        pass_time(system, bell, clock, 0)
    assert bell.fired == {"reminder/a0": 1, "reminder/a1": 1, "reminder/a2": 1, "reminder/~marker": 1}


def test_an_actor_sleeps_until_its_alarm(journal: MemoryJournal, clock: VirtualClock) -> None:
    bell = Bell()
    with ActorSystem(journal, actors=[bell.kind], clock=clock, idle_s=0.0005) as system:
        for _ in range(5):
            remind(system, bell, "a", clock.now + HOUR)
            until(lambda: system.live == 0)
            clock.advance(3600)
            until(lambda: rang(journal, "reminder/a")[-1:] == [clock.now])
    assert bell.fired == {"reminder/a": 5}


def test_a_system_opened_to_look_around_fires_no_alarm_until_it_is_told_to(
    journal: MemoryJournal, clock: VirtualClock
) -> None:
    bell = Bell()
    before = set(threading.enumerate())
    with ActorSystem(journal, actors=[bell.kind], clock=clock, recover=False) as system:
        remind(system, bell, "a", clock.now)
        assert "clew-alarms" not in {thread.name for thread in set(threading.enumerate()) - before}
        assert bell.fired == {}

        system.recover()
        until(lambda: rang(journal, "reminder/a"))


def test_an_alarm_fires_by_the_clock_of_the_machine() -> None:
    bell = Bell()
    with ActorSystem("memory:", actors=[bell.kind]) as system:
        remind(system, bell, "far", DUE_MAX)
        due = system_clock() + SECOND // 20
        remind(system, bell, "a", due)

        until(lambda: rang(system.journal, "reminder/a"))

        [*_, last] = system.journal.read("reminder/a")
        assert last.recorded_at >= due
        assert filed(system.journal) == [(DUE_MAX, "reminder/far")]


def test_a_due_in_the_past_fires_at_once(journal: MemoryJournal, clock: VirtualClock) -> None:
    bell = Bell()
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        remind(system, bell, "ahead", clock.now + HOUR)
        for due in (0, clock.now - HOUR, clock.now):
            remind(system, bell, "a", due)
            until(lambda due=due: rang(journal, "reminder/a")[-1:] == [due])


def test_an_alarm_that_was_moved_or_cancelled_does_not_fire_where_it_was(
    journal: MemoryJournal, clock: VirtualClock
) -> None:
    bell, start = Bell(), clock.now
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        for id_ in ("earlier", "later", "cancelled"):
            remind(system, bell, id_, start + 10 * SECOND)
        remind(system, bell, "earlier", start + 5 * SECOND)
        remind(system, bell, "later", start + 15 * SECOND)
        system.ref(bell.kind, "cancelled").ask(Cancel("r")).get(timeout=WAIT_S)

        pass_time(system, bell, clock, 5)
        until(lambda: rang(journal, "reminder/earlier") == [start + 5 * SECOND])
        pass_time(system, bell, clock, 5)
        for id_ in ("earlier", "later", "cancelled"):
            system.ref(bell.kind, id_).ask(Ask()).get(timeout=WAIT_S)
        assert bell.fired == {"reminder/earlier": 1, "reminder/~marker": 2}
        pass_time(system, bell, clock, 5)
        until(lambda: rang(journal, "reminder/later") == [start + 15 * SECOND])
    assert bell.fired == {"reminder/earlier": 1, "reminder/later": 1, "reminder/~marker": 3}


def test_an_alarm_that_is_on_its_way_when_it_is_cancelled_is_not_decided(
    journal: MemoryJournal, clock: VirtualClock
) -> None:
    bell, pause = Bell(), Pause()
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        ref = system.ref(bell.kind, "a")
        remind(system, bell, "a", clock.now + SECOND)
        ref.tell(Hold(pause))
        pause.entered()
        cancelled = ref.ask(Cancel("r"))
        pass_time(system, bell, clock, 1)
        pause.over()

        assert cancelled.get(timeout=WAIT_S) == {}
        ref.ask(Ask()).get(timeout=WAIT_S)
        assert [one.type.name for one in journal.read("reminder/a")] == ["reminder.set", "reminder.cancelled"]
        assert list(system.failures) == []
    assert bell.fired == {MARKER: 1}


def test_a_thousand_actors_that_are_due_at_once_fire_once_each(place: Place, clock: VirtualClock) -> None:
    bell, many = Bell(), 1000
    with ActorSystem(place(), actors=[bell.kind], clock=clock, threads=3) as system:
        due = clock.now + SECOND
        for reply in [system.ref(bell.kind, f"a{number}").ask(Remind("r", due)) for number in range(many)]:
            reply.get(timeout=WAIT_S)

        clock.advance(1)
        until(lambda: filed(system.journal) == [])
        # A cell can be read a moment before the events that it was written with.
        until(lambda: all(rang(system.journal, f"reminder/a{number}") for number in range(many)))

        assert list(system.failures) == []
        assert all(rang(system.journal, f"reminder/a{number}") == [due] for number in range(many))
    assert set(bell.fired.values()) == {1}
    assert len(bell.fired) == many


def test_alarms_that_move_while_others_fire_all_ring(journal: MemoryJournal, clock: VirtualClock) -> None:
    bell = Bell()
    with ActorSystem(journal, actors=[bell.kind], clock=clock, threads=4) as system:
        for number in range(600):
            # Some are overdue already, and are moved while their alarm may be on its way.
            remind(system, bell, f"a{number}", clock.now + number % 3 - 1, name="x")
            remind(system, bell, f"a{number}", clock.now - number, name="y")
            clock.now += 1
        clock.advance(1)

        until(lambda: filed(journal) == [])
        assert all(len(rang(journal, f"reminder/a{number}")) == 2 for number in range(600))
        assert list(system.failures) == []


def test_a_clock_that_is_put_back_fires_nothing_again_and_one_that_is_put_on_fires_what_it_passes(
    journal: MemoryJournal, clock: VirtualClock
) -> None:
    bell, start = Bell(), clock.now
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        remind(system, bell, "a", start + 10 * SECOND)
        pass_time(system, bell, clock, 20)
        until(lambda: rang(journal, "reminder/a"))

        clock.jump_to(start)
        remind(system, bell, "b", start + 10 * SECOND)
        pass_time(system, bell, clock, 9)
        system.ref(bell.kind, "b").ask(Ask()).get(timeout=WAIT_S)
        assert bell.fired["reminder/b"] == 0

        clock.jump_to(datetime.fromtimestamp(start // SECOND, UTC).replace(year=2050))
        until(lambda: rang(journal, "reminder/b"))
        remind(system, bell, "a", clock.now)
        until(lambda: len(rang(journal, "reminder/a")) == 2)
    assert (bell.fired["reminder/a"], bell.fired["reminder/b"]) == (2, 1)


@pytest.mark.parametrize("attempt", range(4))
def test_a_system_that_is_closed_while_alarms_fire_fires_the_rest_at_the_next_opening(
    attempt: int, place: Place, clock: VirtualClock
) -> None:
    bell, many = Bell(), 600
    with ActorSystem(place(), actors=[bell.kind], clock=clock) as system:
        due = clock.now + SECOND
        for reply in [system.ref(bell.kind, f"a{number}").ask(Remind("r", due)) for number in range(many)]:
            reply.get(timeout=WAIT_S)
        clock.advance(1)
        until(lambda: len(bell.fired) > 50 * attempt)

    with ActorSystem(place(), actors=[bell.kind], clock=clock) as system:
        until(lambda: filed(system.journal) == [])
        until(lambda: all(rang(system.journal, f"reminder/a{number}") for number in range(many)))
        assert all(rang(system.journal, f"reminder/a{number}") == [due] for number in range(many))
        assert list(system.failures) == []
