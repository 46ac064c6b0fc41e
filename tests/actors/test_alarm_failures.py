"""Alarms that could not be handled are sent again, later each time; nothing else waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from clew.actors import (
    ActivationFailed,
    ActorQuarantined,
    ActorSystem,
    UnknownKind,
)
from clew.actors.testing import VirtualClock
from clew.journal import JournalClosed, JournalFull, MemoryJournal
from tests.actors.counted import CountedCells, Counting
from tests.actors.reminders import MARKER, SECOND, Ask, Bell, Hold, Remind, filed, pass_time, rang, remind
from tests.actors.support import ACCOUNT, WAIT_S, Pause, SlowDisk, until

HOUR = 3600 * SECOND

Place = Callable[[], MemoryJournal | str]


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.mark.parametrize("how", ["sleeps", "refuses"])
def test_an_actor_that_does_not_move_its_due_is_asked_again_later_each_time(
    how: str, journal: MemoryJournal, clock: VirtualClock
) -> None:
    bell = Bell(how=how)
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        ref = system.ref(bell.kind, "a")
        remind(system, bell, "a", clock.now)

        for asked, wait_s in enumerate((1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300), 1):
            until(lambda asked=asked: bell.fired["reminder/a"] == asked)
            pass_time(system, bell, clock, wait_s - 0.001)
            ref.ask(Ask()).get(timeout=WAIT_S)
            assert bell.fired["reminder/a"] == asked
            clock.advance(0.001)
        until(lambda: bell.fired["reminder/a"] == 12)

        bell.how = "rings"
        clock.advance(300)
        until(lambda: rang(journal, "reminder/a"))
        assert len(system.failures) == (12 if how == "refuses" else 0)


def test_an_actor_that_rests_is_asked_at_once_when_its_due_has_moved(
    journal: MemoryJournal, clock: VirtualClock
) -> None:
    bell = Bell(how="refuses")
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        remind(system, bell, "a", clock.now - 1)
        until(lambda: system.failures)

        bell.how = "rings"
        remind(system, bell, "a", clock.now)

        until(lambda: rang(journal, "reminder/a") == [clock.now])


def test_an_actor_rests_no_longer_because_the_clock_was_put_back(journal: MemoryJournal, clock: VirtualClock) -> None:
    bell = Bell(how="refuses")
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        remind(system, bell, "a", 0)
        until(lambda: system.failures)
        bell.how = "rings"

        clock.advance(-3600)
        pass_time(system, bell, clock, 0)
        pass_time(system, bell, clock, 1)

        until(lambda: rang(journal, "reminder/a") == [0])


def test_an_actor_that_cannot_wake_up_is_tried_until_it_is_in_quarantine_and_holds_up_nobody(
    journal: MemoryJournal, clock: VirtualClock
) -> None:
    bell = Bell()
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        remind(system, bell, "a", clock.now + SECOND)
    bell.broken.add("reminder/a")
    bell.woken.clear()
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        for tried, wait_s in enumerate((1, 1, 2, 4, 8), 1):
            pass_time(system, bell, clock, wait_s)
            until(lambda tried=tried: len(system.failures) == 2 * tried)
        assert [one.stream for one in system.quarantine.listed()] == ["reminder/a"]

        pass_time(system, bell, clock, 16)
        until(lambda: len(system.failures) == 11)
        assert isinstance(system.failures[-1].error, ActorQuarantined)
        assert bell.woken["reminder/a"] == 5

        bell.broken.clear()
        system.quarantine.release("reminder/a")
        clock.advance(32)
        until(lambda: rang(journal, "reminder/a"))


def test_an_actor_in_quarantine_is_not_woken_by_its_alarm_at_the_next_opening(
    journal: MemoryJournal, clock: VirtualClock
) -> None:
    bell = Bell()
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        remind(system, bell, "a", clock.now + SECOND)
    bell.broken.add("reminder/a")
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        for _ in range(5):
            with pytest.raises(ActivationFailed):
                system.ref(bell.kind, "a").ask(Ask()).get(timeout=WAIT_S)
    bell.woken.clear()

    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        pass_time(system, bell, clock, 1)
        until(lambda: [type(one.error) for one in system.failures] == [ActorQuarantined])
    assert bell.woken == {MARKER: 1}


def test_an_alarm_of_an_unknown_kind_is_reported_and_kept(journal: MemoryJournal, clock: VirtualClock) -> None:
    bell = Bell()
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        remind(system, bell, "a", clock.now + SECOND)
    clock.advance(1)

    with ActorSystem(journal, actors=[ACCOUNT], clock=clock) as system:
        until(lambda: system.failures)
        assert [(one.stream, type(one.error)) for one in system.failures] == [("reminder/a", UnknownKind)]
    assert filed(journal) == [(clock.now, "reminder/a")]


def test_an_alarm_gets_into_a_full_mailbox(journal: MemoryJournal, clock: VirtualClock) -> None:
    bell, pause = Bell(mailbox_size=1), Pause()
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        ref = system.ref(bell.kind, "a")
        remind(system, bell, "a", clock.now + SECOND)
        ref.tell(Hold(pause))
        pause.entered()
        waiting = ref.ask(Ask())

        pass_time(system, bell, clock, 1)
        pause.over()

        waiting.get(timeout=WAIT_S)
        until(lambda: rang(journal, "reminder/a"))
        assert list(system.failures) == []


def test_an_alarm_whose_commit_failed_is_sent_again(clock: VirtualClock) -> None:
    bell, journal = Bell(), SlowDisk()
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        system.ref(bell.kind, "a").tell(Remind("r", clock.now + SECOND))
        journal.appended()
        journal.flush()

        clock.advance(1)
        journal.appended()
        journal.fail(JournalFull(path="x", reason="a test"))
        until(lambda: system.failures)
        clock.advance(1)
        journal.appended()
        journal.flush()

        assert rang(journal, "reminder/a") == [clock.now - SECOND]
        until(lambda: filed(journal) == [])
    assert bell.fired == {"reminder/a": 2}


def test_alarms_go_on_after_the_journal_could_not_be_read(clock: VirtualClock) -> None:
    class Flaky(CountedCells):
        fails = False

        def scan(self, prefix: bytes, *, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
            if self.fails:
                raise OSError("cannot be read")
            return super().scan(prefix, after=after)

    journal, bell = Counting(), Bell()
    journal._cells = journal.counted = flaky = Flaky(journal)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (its cells are its own)
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        flaky.fails = True
        remind(system, bell, "a", clock.now)
        until(lambda: system.failures)
        flaky.fails = False
        clock.advance(1)

        until(lambda: rang(journal, "reminder/a"))
    assert {(one.stream, str(one.error)) for one in system.failures} == {("alarms", "cannot be read")}


def test_no_alarm_fires_once_its_journal_is_closed(journal: MemoryJournal, clock: VirtualClock) -> None:
    bell = Bell()
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        remind(system, bell, "a", clock.now + SECOND)
        journal.close()
        clock.advance(1)

        until(lambda: [type(one.error) for one in system.failures] == [JournalClosed])
    assert bell.fired == {}
