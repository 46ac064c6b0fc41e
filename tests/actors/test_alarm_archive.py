"""Alarms of streams that are archived, deleted and brought back."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path

import pytest

from clew.actors import ActorSystem
from clew.actors.testing import VirtualClock
from clew.journal import MemoryJournal, StreamDeleted, import_history, write_history
from clew.journal.archive import RetentionPolicy, archive, restore_archive
from clew.journal.history import DUE_MAX
from tests.actors.reminders import (
    SECOND,
    Bell,
    Remind,
    awake,
    filed,
    pass_time,
    rang,
    remind,
    tell,
)
from tests.actors.support import until


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


def test_a_stream_with_an_alarm_is_archived_only_when_that_is_asked_for(journal: MemoryJournal, tmp_path: Path) -> None:
    tell(awake(Bell(), journal), Remind("r", 5))
    idle = RetentionPolicy(category="reminder", idle_for=timedelta(0))

    assert archive(journal, idle, tmp_path, now=DUE_MAX).archived == []
    report = archive(journal, ["reminder/a"], tmp_path)
    assert report.left == {
        "reminder/a": "an alarm of it is set; let it fire or cancel it, or archive it with take_open=True"
    }
    assert filed(journal) == [(5, "reminder/a")]

    archive(journal, ["reminder/a"], tmp_path, take_open=True)
    assert list(journal.cells.scan(b"")) == []


def test_an_alarm_comes_back_with_its_stream(tmp_path: Path) -> None:
    clock, bell = VirtualClock(), Bell()
    journal = MemoryJournal(clock=clock)
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        remind(system, bell, "a", clock.now + SECOND)
    [archived] = archive(journal, ["reminder/a"], tmp_path, take_open=True).archived
    restore_archive(journal, archived.file)
    assert filed(journal) == []

    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        until(lambda: filed(journal) == [(clock.now + SECOND, "reminder/a")])
        assert bell.fired == {}
        pass_time(system, bell, clock, 1)
        until(lambda: rang(journal, "reminder/a") == [clock.now])


def test_an_imported_history_that_is_overdue_rings_at_the_next_opening(journal: MemoryJournal) -> None:
    clock, bell, history = VirtualClock(), Bell(), io.BytesIO()
    tell(awake(bell, journal), Remind("r", clock.now - SECOND))
    write_history(journal.read_all(), history)
    history.seek(0)
    other = MemoryJournal()
    import_history(other, history)

    with ActorSystem(other, actors=[bell.kind], clock=clock):
        until(lambda: rang(other, "reminder/a"))
    assert filed(other) == []


def test_a_late_alarm_of_a_deleted_stream_goes_without_a_word_and_writes_no_event(journal: MemoryJournal) -> None:
    clock, bell = VirtualClock(), Bell()
    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        remind(system, bell, "a", clock.now + SECOND)
        journal.delete("reminder/a", expected=1).wait()

        pass_time(system, bell, clock, 1)

        until(lambda: [key for key, _ in journal.cells.scan(b"") if key != b"system/open"] == [])
        assert list(system.failures) == []
    assert bell.fired == {"reminder/~marker": 1}
    with pytest.raises(StreamDeleted):
        journal.read("reminder/a")
