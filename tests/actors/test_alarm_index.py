"""Alarms are filed in cells, with the events that move them, and put right when an actor wakes up."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from clew.actors import Activation, ActivationFailed, ActorSystem, Decider, EventSourcedActor
from clew.actors.testing import VirtualClock
from clew.journal import CellWrite, MemoryJournal
from clew.journal.history import DUE_MAX, alarm_mark, due_mark, filed_due, refile
from clew.journal.journal import CELL_KEY_BYTES_MAX
from tests.actors.reminders import (
    SECOND,
    Ask,
    Bell,
    Cancel,
    Fire,
    Remind,
    Reminders,
    ReminderSet,
    awake,
    filed,
    tell,
)
from tests.actors.support import ACCOUNT, Deposit, DiskFailed, SlowDisk, until


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


def test_an_alarm_is_filed_in_the_append_of_the_events_that_set_it() -> None:
    journal = SlowDisk()
    activation = awake(Bell(), journal)

    tell(activation, Remind("r", 5))
    assert (activation.due, filed(journal)) == (5, [])
    journal.fail(DiskFailed())
    assert filed(journal) == []

    activation = awake(Bell(), journal)
    tell(activation, Remind("r", 5))
    journal.flush()
    assert (filed(journal), filed_due(journal.cells, "reminder/a")) == ([(5, "reminder/a")], 5)


def test_alarms_stand_in_the_order_in_which_they_are_due(journal: MemoryJournal) -> None:
    for id_, due in (("b", 300), ("a", 2**40), ("c", 5), ("d", 300)):
        tell(awake(Bell(), journal, id_), Remind("r", due))

    assert filed(journal) == [(5, "reminder/c"), (300, "reminder/b"), (300, "reminder/d"), (2**40, "reminder/a")]


@pytest.mark.parametrize("seed", range(5))
def test_an_actor_has_at_most_one_alarm_the_earliest_whatever_it_was_told(seed: int, journal: MemoryJournal) -> None:
    dice, bell = random.Random(seed), Bell()
    activation = awake(bell, journal)
    for _ in range(200):
        name = dice.choice("xyz")
        tell(activation, dice.choice([Remind(name, dice.randrange(20)), Cancel(name), Fire(dice.randrange(20)), Ask()]))
        if dice.random() < 0.1:
            activation = awake(bell, journal)

        dues = activation.state.due.values()
        assert filed(journal) == ([(min(dues), "reminder/a")] if dues else [])
        assert filed_due(journal.cells, "reminder/a") == (min(dues) if dues else None)


def test_events_that_leave_the_due_as_it_is_write_no_cells(journal: MemoryJournal) -> None:
    class Counting(MemoryJournal):
        cells_written = 0

        def append(self, *args: Any, **options: Any) -> Any:
            self.cells_written += len(options.get("cells", ()))
            return super().append(*args, **options)

    counting = Counting()
    activation = awake(Bell(), counting)
    tell(activation, Remind("r", 5))
    before = counting.cells_written

    tell(activation, Remind("s", 6), Cancel("s"))
    account = Activation(ACCOUNT, "a", counting)
    account.handle(Deposit(1), "1")

    assert (before, counting.cells_written) == (2, 2)


@pytest.mark.parametrize("id_", ["x" * 391, "x" * 392, "é" * 500])
def test_the_alarm_of_a_name_beyond_the_length_of_a_cell_key_is_filed_too(id_: str, journal: MemoryJournal) -> None:
    stream = f"reminder/{id_}"

    tell(awake(Bell(), journal, id_), Remind("r", 5))

    assert filed(journal) == [(5, stream)]
    assert max(len(alarm_mark(5, stream)), len(due_mark(stream))) <= CELL_KEY_BYTES_MAX
    tell(awake(Bell(), journal, id_), Cancel("r"))
    assert filed(journal) == []


@pytest.mark.parametrize(("due", "filed_under"), [(-5, 0), (0, 0), (DUE_MAX, DUE_MAX), (10**40, DUE_MAX)])
def test_a_due_outside_of_what_can_be_filed_is_the_nearest_that_can(
    due: int, filed_under: int, journal: MemoryJournal
) -> None:
    bell = Bell(late=due)
    tell(awake(bell, journal), Remind("r", 0))

    assert filed(journal) == [(filed_under, "reminder/a")]
    assert awake(bell, journal).due == filed_under


def test_another_due_of_changed_code_is_filed_when_the_actor_wakes_up(journal: MemoryJournal) -> None:
    tell(awake(Bell(), journal), Remind("r", 5))

    awake(Bell(late=2), journal)

    assert (filed(journal), filed_due(journal.cells, "reminder/a")) == ([(7, "reminder/a")], 7)


def test_an_alarm_is_not_put_right_over_one_that_is_under_way() -> None:
    journal = SlowDisk()
    activation = awake(Bell(), journal)
    tell(activation, Remind("r", 5))
    journal.flush()
    tell(activation, Remind("r", 9))

    # It wakes up on what is durable, with other code, while a commit of the one before is under way.
    awake(Bell(late=2), journal)
    journal.flush()

    assert (filed(journal), filed_due(journal.cells, "reminder/a")) == ([(9, "reminder/a")], 9)


def test_an_alarm_that_rings_when_nothing_is_due_is_not_decided_and_writes_nothing(journal: MemoryJournal) -> None:
    bell = Bell()
    activation = awake(bell, journal)
    for before in ((), (Remind("r", 5),), (Cancel("r"),)):
        tell(activation, *before)
        events, cells = list(journal.read_all()), dict(journal.cells.scan(b""))

        handled = activation.ring(4, "late")

        assert (handled.error, handled.commit) == (None, None)
        assert (list(journal.read_all()), dict(journal.cells.scan(b""))) == (events, cells)
    assert bell.fired == {}


def test_an_alarm_that_rings_while_its_cancellation_is_synced_waits_for_that_and_writes_nothing() -> None:
    bell, journal = Bell(), SlowDisk()
    activation = awake(bell, journal)
    tell(activation, Remind("r", 5))
    journal.flush()
    cancelled = activation.handle(Cancel("r"), "cancel").commit
    cells = dict(journal.cells.scan(b""))

    assert activation.ring(9, "late").commit is cancelled
    assert dict(journal.cells.scan(b"")) == cells
    journal.flush()
    assert (bell.fired, filed(journal)) == ({}, [])


def test_an_alarm_of_a_kind_that_has_none_any_more_is_removed_when_it_rings(journal: MemoryJournal) -> None:
    bell = Bell()
    tell(awake(bell, journal), Remind("r", 5))
    kind = bell.kind
    without = EventSourcedActor[Any, Any, Any, Any](
        category=kind.category,
        decider=Decider(
            initial=Reminders("", {}), decide=kind.decider.decide, evolve=kind.decider.evolve, answer=lambda _, __: None
        ),
        events=kind.events,
    )

    Activation(without, "a", journal).ring(9, "late")

    assert (filed(journal), list(journal.cells.scan(b"due/"))) == ([], [])


def test_a_kind_with_a_due_and_no_alarm_is_refused_where_it_is_declared() -> None:
    with pytest.raises(ValueError, match="reminder: its decider has a due, so it needs an `alarm`"):
        EventSourcedActor(category="reminder", decider=Bell().kind.decider, events=(ReminderSet,))


@pytest.mark.parametrize("broken", [1.5, LookupError("broken")])
def test_a_due_that_is_no_time_is_the_askers_error_and_nothing_is_written(broken: Any, journal: MemoryJournal) -> None:
    class Breaking(Bell):
        breaks = False

        def _due(self, state: Reminders) -> int | None:
            if self.breaks and isinstance(broken, Exception):
                raise broken
            return broken if self.breaks else super()._due(state)

    bell = Breaking()
    activation = awake(bell, journal)
    tell(activation, Remind("r", 5))
    bell.breaks = True

    handled = activation.handle(Remind("r", 6), "next")

    assert isinstance(handled.error, (TypeError, LookupError))
    assert (filed(journal), activation.sequence) == ([(5, "reminder/a")], 1)
    with pytest.raises(ActivationFailed, match=r"due\(\) raised"):
        Activation(bell.kind, "a", journal)


def test_a_stray_alarm_is_removed_and_wakes_nobody(journal: MemoryJournal) -> None:
    clock, bell = VirtualClock(), Bell()
    tell(awake(bell, journal), Remind("r", clock.now + 9 * SECOND))
    for id_ in ("a", "b"):
        journal.cells.write([CellWrite(alarm_mark(clock.now, f"reminder/{id_}"), f"reminder/{id_}".encode())]).wait()

    with ActorSystem(journal, actors=[bell.kind], clock=clock) as system:
        until(lambda: filed(journal) == [(clock.now + 9 * SECOND, "reminder/a")])
        assert system.live == 0


def test_an_alarm_is_refiled_only_from_where_it_is(journal: MemoryJournal) -> None:
    journal.cells.write(refile("reminder/a", None, 5)).wait()

    failed = journal.cells.write(refile("reminder/a", 4, 6, only_if=True))

    assert failed.error is not None
    assert filed(journal) == [(5, "reminder/a")]


def test_the_cells_of_an_alarm_are_those_of_every_version() -> None:
    assert alarm_mark(258, "a/b") == b"alarm/\0\0\0\0\0\0\1\2a/b"
    assert due_mark("a/b") == b"due/a/b"
    assert refile("a/b", 1, 2)[0] == CellWrite(b"due/a/b", b"\0\0\0\0\0\0\0\2")
    assert msgspec.structs.asdict(refile("a/b", 1, None)[1])["key"] == b"alarm/\0\0\0\0\0\0\0\1a/b"
