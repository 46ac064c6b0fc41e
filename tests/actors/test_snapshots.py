"""An actor that wakes from a snapshot is the very actor that wakes from all of its events."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast
from zlib import crc32

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.actors import Activation, Decider, EventSourcedActor
from clew.journal import CellWrite, JournalFull, MemoryJournal, NewEvent, NotRepresentable, RecordedEvent
from clew.journal.snapshot import SnapshotPolicy
from tests.actors.diary import DIARY, Diary, Mood, Write
from tests.actors.story import THREAD, start
from tests.actors.support import ACCOUNT, Deposit, Deposited, SlowDisk, Withdraw
from tests.actors.test_thread_laws import histories

NOW = 1_767_225_600_000_000_000

Kind = EventSourcedActor[Any, Any, Any, Any]


def eager(kind: Kind, every: int = 1) -> Kind:
    return replace(kind, snapshot=SnapshotPolicy(every=every))


COUNTED = eager(replace(ACCOUNT, state_type=int))


class Counting(MemoryJournal):
    """Counts the events that are read from it, also in pages."""

    loaded = 0

    def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
        for recorded in super().read(stream, after=after):
            self.loaded += 1
            yield recorded


def typed(value: object) -> object:
    """Return a value with the type of everything in it."""
    kind: type = type(value)
    match value:
        case msgspec.Raw():
            return ("Raw", bytes(value))
        case msgspec.Struct():
            return (kind, [(name, typed(getattr(value, name))) for name in value.__struct_fields__])
        case _ if dataclasses.is_dataclass(value):
            return (
                type(value),
                [(field.name, typed(getattr(value, field.name))) for field in dataclasses.fields(value)],
            )
        case dict():
            pairs = cast("dict[object, object]", value).items()
            return (kind, [(typed(key), typed(item)) for key, item in pairs])
        case list() | tuple():
            return (kind, [typed(item) for item in cast("Sequence[object]", value)])
        case set() | frozenset():
            members = cast("frozenset[object]", value)
            return (kind, sorted([typed(item) for item in members], key=repr))
        case _:
            return (kind, repr(value))


def copy(events: Sequence[RecordedEvent], journal: MemoryJournal) -> None:
    """Append events as they are."""
    for recorded in events:
        new = NewEvent(recorded.canonical, recorded.cause, recorded.recorded_at)
        journal.append(recorded.stream, [new], expected=recorded.sequence - 1)


def check_every_position(kind: Kind, commands: Sequence[object]) -> None:
    """Take one snapshot at each position of a history, and compare what wakes from it with what wakes without."""
    source = MemoryJournal()
    author = Activation(kind, "x", source)
    for number, command in enumerate(commands):
        author.handle(command, f"c{number}")
    events = list(source.read(author.stream))
    full = Activation(replace(kind, snapshot=None), "x", source)

    for position in range(len(events) + 1):
        journal = Counting()
        copy(events[:position], journal)
        Activation(kind, "x", journal).snapshot(NOW, last=True)
        copy(events[position:], journal)
        journal.loaded = 0

        woken = Activation(kind, "x", journal)

        # The tail, and what the snapshot is checked against.
        assert journal.loaded <= len(events) - position + 1
        assert typed(woken.state) == typed(full.state)
        assert (woken.sequence, woken.effects) == (full.sequence, full.effects)
        for number, command in enumerate(commands):
            assert woken.handle(command, f"c{number}") == full.handle(command, f"c{number}")
        assert journal.head(woken.stream) == source.head(woken.stream)


law = settings(max_examples=25, deadline=None, derandomize=True)


@pytest.mark.property
@pytest.mark.scenario("SER-14")
@law
@given(histories.map(lambda commands: commands[:12]))
def test_a_conversation_from_a_snapshot_anywhere_is_the_one_from_all_events(history: list[object]) -> None:
    # Commands that became no event are decided anew, so only those that did are asked again.
    author, taken = Activation(THREAD, "x", MemoryJournal()), list[object]()
    for number, command in enumerate(history):
        before = author.sequence
        author.handle(cast("Any", command), f"{number}")
        if author.sequence > before:
            taken.append(command)

    check_every_position(eager(THREAD), taken)


days = st.builds(
    Write,
    st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001  (the zone is added)
    st.sampled_from([None, *Mood]),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-1000, max_value=1000),
    st.lists(st.text(max_size=3), max_size=3),
)


@pytest.mark.property
@pytest.mark.scenario("SER-14")
@law
@given(st.lists(days, max_size=8))
def test_a_state_of_rich_types_from_a_snapshot_anywhere_is_the_one_from_all_events(history: list[Write]) -> None:
    check_every_position(DIARY, history)


def test_the_comparison_of_these_tests_sees_a_type_that_changed() -> None:
    assert typed({"a": (1, 2)}) != typed({"a": [1, 2]})
    assert typed([1]) != typed([True])
    assert typed(Diary(spent=Decimal("1.0"))) != typed(Diary(spent=Decimal("1.00")))


def deposit(actor: Activation[Any, Any, Any, Any], count: int) -> None:
    """Handle so many commands, with snapshots taken as a host does."""
    for _ in range(count):
        actor.handle(Deposit(1), f"c{actor.sequence + 1}")
        if actor.snapshot_due:
            actor.snapshot(NOW)


@pytest.mark.scenario("JRN-15")
def test_an_actor_with_a_long_history_wakes_by_a_few_of_its_events_and_knows_all_ids() -> None:
    journal, kind = Counting(), replace(COUNTED, snapshot=SnapshotPolicy())
    deposit(Activation(kind, "a", journal), 50_000)
    journal.loaded = 0

    woken = Activation(kind, "a", journal)

    assert journal.loaded < 600
    assert (woken.state, woken.sequence) == (50_000, 50_000)
    assert [woken.handle(Deposit(1), f"c{n}").answer for n in (1, 777, 50_000)] == [1, 777, 50_000]
    assert journal.head("account/a").sequence == 50_000


def test_a_long_stream_without_a_snapshot_gets_one_when_it_was_folded_once() -> None:
    journal, kind = Counting(), eager(COUNTED, 100)
    deposit(Activation(replace(kind, snapshot=None), "a", journal), 1000)

    first = Activation(kind, "a", journal)
    assert first.snapshot_due
    first.snapshot(NOW)
    journal.loaded = 0

    assert Activation(kind, "a", journal).state == 1000
    assert journal.loaded == 0


def test_a_snapshot_is_taken_of_what_is_durable_and_not_before() -> None:
    journal = SlowDisk()
    actor = Activation(COUNTED, "a", journal)
    actor.handle(Deposit(5), "c1")

    assert (actor.snapshot_due, actor.snapshot(NOW)) == (True, None)
    journal.flush()
    commit = actor.snapshot(NOW)
    journal.flush()

    assert commit is not None
    assert (commit.done, commit.error, actor.snapshot_due) == (True, None, False)
    assert Activation(COUNTED, "a", journal).state == 5


def test_what_was_lost_is_never_in_a_snapshot() -> None:
    journal = SlowDisk()
    actor = Activation(COUNTED, "a", journal)
    actor.handle(Deposit(5), "c1")
    journal.fail(JournalFull(path="x", reason="full"))

    assert actor.snapshot(NOW) is None
    assert list(journal.cells.scan(b"snapshot/")) == []


def test_snapshots_that_meet_a_full_disk_are_in_nobodys_way_and_are_taken_when_there_is_room() -> None:
    journal = SlowDisk()
    actor = Activation(COUNTED, "a", journal)
    for number in range(1, 4):
        actor.handle(Deposit(1), f"c{number}")
        journal.flush()
        lost = actor.snapshot(NOW)
        journal.fail(JournalFull(path="x", reason="full"))
        assert lost is not None
        assert isinstance(lost.error, JournalFull)
    assert Activation(COUNTED, "a", journal).state == 3

    actor.handle(Deposit(1), "c4")
    journal.flush()
    actor.snapshot(NOW)
    journal.flush()

    woken = Activation(COUNTED, "a", journal)
    assert [woken.handle(Deposit(1), f"c{number}").answer for number in range(1, 5)] == [1, 2, 3, 4]
    assert journal.head("account/a").sequence == 4


def test_only_one_snapshot_of_an_actor_is_under_way() -> None:
    journal = SlowDisk()
    actor = Activation(COUNTED, "a", journal)
    actor.handle(Deposit(1), "c1")
    journal.flush()
    first = actor.snapshot(NOW)
    # Not flushed: the next one is due while the first is being written.
    actor.handle(Deposit(1), "c2")

    assert first is not None
    assert not first.done
    assert actor.snapshot(NOW) is None


def test_an_actor_that_goes_to_sleep_keeps_what_is_worth_it() -> None:
    journal, kind = Counting(), eager(COUNTED, 1000)
    few, many = Activation(kind, "few", journal), Activation(kind, "many", journal)
    deposit(few, 99)
    deposit(many, 100)

    assert few.snapshot(NOW, last=True) is None
    assert many.snapshot(NOW, last=True) is not None
    journal.loaded = 0
    assert Activation(kind, "many", journal).state == 100
    assert journal.loaded == 0
    assert many.snapshot(NOW, last=True) is None


def version_2() -> Kind:
    """The same account, which counts every cent twice now."""

    def evolve(balance: int, event: Deposited) -> int:
        return balance + 2 * event.cents

    return replace(COUNTED, decider=replace(COUNTED.decider, evolve=evolve), version=2)


@pytest.mark.scenario("RPL-14")
def test_a_new_version_folds_everything_again_and_takes_snapshots_of_its_own() -> None:
    journal = MemoryJournal()
    deposit(Activation(COUNTED, "a", journal), 10)

    woken = Activation(version_2(), "a", journal)
    assert woken.state == 20
    deposit(woken, 1)

    assert Activation(version_2(), "a", journal).state == 22
    assert Activation(COUNTED, "a", journal).state == 11


def as_text() -> Kind:
    """The same account, with another type for its state."""

    def evolve(balance: str, event: Deposited) -> str:
        return str(int(balance) + event.cents)

    decider = Decider[str, Any, Any, str](
        initial="0", decide=COUNTED.decider.decide, evolve=evolve, answer=lambda balance, _: balance
    )
    return replace(COUNTED, decider=cast("Any", decider), state_type=str)


def without_ids(journal: MemoryJournal) -> None:
    for key, value in list(journal.cells.scan(b"snapshot/")):
        if len(value) == 8:
            journal.cells.write([CellWrite(key, None)])


def with_damage(journal: MemoryJournal) -> None:
    for key, value in list(journal.cells.scan(b"snapshot/")):
        journal.cells.write([CellWrite(key, value[:-1] + b"\x99")])


def nothing(_: MemoryJournal) -> None:
    pass


@pytest.mark.parametrize(
    ("kind", "damage"),
    [(as_text(), nothing), (COUNTED, with_damage), (COUNTED, without_ids)],
    ids=["type", "damage", "ids"],
)
def test_a_snapshot_that_does_not_fit_is_passed_over_and_replaced(
    kind: Kind, damage: Callable[[MemoryJournal], None]
) -> None:
    journal = Counting()
    deposit(Activation(COUNTED, "a", journal), 10)
    damage(journal)
    journal.loaded = 0

    woken = Activation(kind, "a", journal)
    assert (typed(woken.state), journal.loaded) == (typed(kind.decider.evolve(kind.initial("a"), Deposited(10))), 10)
    assert woken.handle(Deposit(1), "c3").answer == woken.kind.decider.evolve(kind.initial("a"), Deposited(3))

    deposit(woken, 1)
    journal.loaded = 0
    assert Activation(kind, "a", journal).sequence == 11
    assert journal.loaded == 0


def test_a_state_that_would_come_back_different_ends_the_snapshots_of_its_kind_with_one_error() -> None:
    def evolve(seen: dict[str, Any], event: Deposited) -> dict[str, Any]:
        return {**seen, "last": (event.cents, event.cents)}

    decider = Decider[dict[str, Any], Any, Any, int](
        initial={}, decide=COUNTED.decider.decide, evolve=evolve, answer=lambda seen, _: len(seen)
    )
    kind: Kind = replace(COUNTED, decider=cast("Any", decider), state_type=dict[str, Any])
    journal = MemoryJournal()
    actor, other = Activation(kind, "a", journal), Activation(kind, "b", journal)
    actor.handle(Deposit(1), "c1")
    other.handle(Deposit(1), "c1")

    with pytest.raises(NotRepresentable, match=r"the state of account: the value at \$\.last .* a tuple .* a list"):
        actor.snapshot(NOW)

    assert other.snapshot(NOW) is None
    assert actor.handle(Deposit(2), "c2").error is None
    assert actor.snapshot(NOW) is None
    assert list(journal.cells.scan(b"snapshot/")) == []
    assert Activation(kind, "a", journal).state == {"last": (2, 2)}


@pytest.mark.parametrize("change", [{"state_type": None}, {"snapshot": None}])
def test_a_kind_without_a_type_or_a_policy_takes_no_snapshots(change: dict[str, Any]) -> None:
    journal, kind = MemoryJournal(), replace(COUNTED, **change)
    actor = Activation(kind, "a", journal)

    actor.handle(Deposit(5), "c1")

    assert (actor.snapshot_due, actor.snapshot(NOW, last=True)) == (False, None)
    assert list(journal.cells.scan(b"snapshot/")) == []


def test_a_version_is_a_whole_number_from_1() -> None:
    with pytest.raises(ValueError, match="account: the version is a whole number from 1, not 0"):
        replace(COUNTED, version=0)


def test_two_ids_that_share_a_checksum_are_two_commands() -> None:
    one, other = "plumless", "buckeroo"
    assert crc32(one.encode()) == crc32(other.encode())
    journal = MemoryJournal()
    actor = Activation(COUNTED, "a", journal)
    actor.handle(Deposit(5), one)
    actor.snapshot(NOW)

    woken = Activation(COUNTED, "a", journal)
    assert woken.handle(Deposit(1), other).answer == 6
    woken.snapshot(NOW)

    again = Activation(COUNTED, "a", journal)
    assert [again.handle(Deposit(9), id_).answer for id_ in (one, other)] == [5, 6]
    assert journal.head("account/a").sequence == 2


def test_a_command_of_several_events_is_remembered_whole() -> None:
    def decide(balance: int, command: Deposit) -> Sequence[Deposited]:
        return [Deposited(1)] * command.cents

    def answer(balance: int, events: Sequence[Any]) -> tuple[int, int]:
        return balance, len(events)

    kind: Kind = replace(
        COUNTED, decider=cast("Any", replace(COUNTED.decider, decide=decide, answer=cast("Any", answer)))
    )
    journal = MemoryJournal()
    actor = Activation(kind, "a", journal)
    for number, cents in enumerate((2, 3, 1)):
        actor.handle(Deposit(cents), f"c{number}")
        actor.snapshot(NOW)

    woken = Activation(kind, "a", journal)

    assert [woken.handle(Deposit(9), f"c{number}").answer for number in range(3)] == [(2, 2), (5, 3), (6, 1)]


def test_an_id_that_cannot_be_recorded_is_refused_also_after_a_snapshot() -> None:
    journal = MemoryJournal()
    deposit(Activation(COUNTED, "a", journal), 3)
    woken = Activation(COUNTED, "a", journal)

    assert woken.handle(Withdraw(99), "\ud800").error is not None
    assert woken.state == 3


def test_the_memory_of_ids_is_eight_bytes_a_command() -> None:
    journal = MemoryJournal()
    deposit(Activation(eager(COUNTED, 100), "a", journal), 1000)

    written = sum(len(value) for _, value in journal.cells.scan(b"snapshot/"))

    assert 8 * 1000 <= written < 8 * 1000 + 500


def test_a_conversation_keeps_its_state_in_a_snapshot() -> None:
    journal, kind = Counting(), eager(THREAD)
    Activation(kind, "t", journal).handle(start("r1"), "c1")
    actor = Activation(kind, "t", journal)
    actor.snapshot(NOW)
    journal.loaded = 0

    woken = Activation(kind, "t", journal)

    assert (woken.state, journal.loaded) == (actor.state, 0)
    assert woken.state.state == msgspec.Raw(b"null")
