"""The clock of the alarms: what it reads, how many it sends at a time, and how a test drives it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from clew.actors import (
    ActorSystem,
    Reply,
)
from clew.actors.alarms import RINGING_MAX, AlarmClock
from clew.actors.testing import VirtualClock
from clew.journal import MemoryJournal
from clew.journal.history import refile
from tests.actors.counted import Counting
from tests.actors.reminders import SECOND, Bell, pass_time, rang, remind
from tests.actors.support import until

HOUR = 3600 * SECOND

Place = Callable[[], MemoryJournal | str]


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def test_opening_reads_one_alarm_whatever_number_sleeps_and_firing_one_reads_the_next(clock: VirtualClock) -> None:
    bell, journal = Bell(), Counting()
    with ActorSystem(journal, actors=[bell.kind], clock=clock, recover=False) as system:
        remind(system, bell, "first", clock.now + HOUR)
    late = [f"reminder/a{number}" for number in range(100_000)]
    journal.cells.write(
        [change for number, one in enumerate(late) for change in refile(one, None, clock.now + 2 * HOUR + number)]
    ).wait()
    journal.counted.seen.clear()

    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        until(lambda: journal.counted.seen)
        pass_time(system, bell, clock, 1)
        alarms = [key for key in journal.counted.seen if key.startswith(b"alarm/")]
        # The first, to sleep until it is due; then the marker, and the first again.
        assert len(alarms) == 3

        journal.counted.seen.clear()
        clock.advance(3600)
        until(lambda: rang(journal, "reminder/first"))
    assert len([key for key in journal.counted.seen if key.startswith(b"alarm/")]) == 2
    assert len(journal.counted.seen) < 20


class Ringing:
    """In place of a system: keeps what an alarm clock sends, for a test to answer."""

    def __init__(self, journal: MemoryJournal, clock: VirtualClock) -> None:
        self.sent: list[tuple[str, Reply[object]]] = []
        self.alarms = AlarmClock(journal, clock, self.ring, self.report)

    def ring(self, stream: str, at: int) -> Reply[object]:
        """Keep an alarm."""
        self.sent.append((stream, Reply()))
        return self.sent[-1][1]

    def report(self, stream: str, what: str, error: BaseException) -> None:
        """Nothing fails here."""
        raise AssertionError(what) from error

    @property
    def streams(self) -> list[str]:
        """Who was sent an alarm, in order."""
        return [stream for stream, _ in self.sent]


def test_an_actor_has_one_alarm_at_a_time_and_gets_the_next_once_it_has_answered(
    journal: MemoryJournal, clock: VirtualClock
) -> None:
    ringing = Ringing(journal, clock)
    journal.cells.write(refile("reminder/a", None, clock.now - 5)).wait()
    ringing.alarms.start()
    until(lambda: ringing.streams == ["reminder/a"])

    # It moves while it has not answered, and the look that finds it where it is now goes on to another one.
    journal.cells.write(refile("reminder/a", clock.now - 5, clock.now - 3)).wait()
    journal.cells.write(refile("reminder/b", None, clock.now - 2)).wait()
    ringing.alarms.expect(clock.now - 3)
    until(lambda: len(ringing.sent) > 1)
    assert ringing.streams == ["reminder/a", "reminder/b"]

    ringing.sent[0][1].set(None)
    until(lambda: ringing.streams == ["reminder/a", "reminder/b", "reminder/a"])
    ringing.alarms.close()


def test_only_so_many_alarms_are_without_an_answer_at_a_time(journal: MemoryJournal, clock: VirtualClock) -> None:
    journal.cells.write(
        [change for number in range(1000) for change in refile(f"reminder/{number:03}", None, clock.now)]
    ).wait()
    ringing = Ringing(journal, clock)
    ringing.alarms.start()
    until(lambda: len(ringing.sent) == RINGING_MAX)
    for answered in range(1000):
        stream, reply = ringing.sent[answered]
        journal.cells.write(refile(stream, clock.now, None)).wait()
        reply.set(None)
        until(lambda answered=answered: len(ringing.sent) >= min(RINGING_MAX + answered + 1, 1000))
        assert len(ringing.sent) <= RINGING_MAX + answered + 1
    ringing.alarms.close()

    assert ringing.streams == [f"reminder/{number:03}" for number in range(1000)]


def test_a_virtual_clock_jumps_to_a_time_with_a_zone_and_to_no_other(clock: VirtualClock) -> None:
    clock.jump_to(datetime(2026, 3, 8, 2, 30, 0, 5, tzinfo=timezone(-timedelta(hours=5))))
    assert clock.now == 1_772_955_000_000_005_000

    with pytest.raises(ValueError, match="has no zone"):
        clock.jump_to(datetime(2026, 3, 8))  # noqa: DTZ001  (that is what is refused)
