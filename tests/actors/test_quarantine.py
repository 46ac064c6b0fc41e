"""An actor that cannot be woken is left alone after a few tries, visibly, until something about it changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clew.actors import ActivationFailed, ActorQuarantined, ActorSystem
from clew.actors.quarantine import ACTIVATIONS_MAX
from clew.journal import CellWrite, Journal, MemoryJournal, NewEvent, StreamDeleted
from clew.journal.lmdb import LmdbJournal
from tests.actors.support import ACCOUNT, WAIT_S, Deposit, Look, until
from tests.actors.test_containment import Fragile, Touched, touched

CELLS = b"quarantine/"


def fail(system: ActorSystem, fragile: Fragile, times: int = ACTIVATIONS_MAX) -> None:
    """Ask an actor that cannot be woken so often."""
    for _ in range(times):
        with pytest.raises(ActivationFailed):
            system.ref(fragile.kind, "x").ask("hello").get(timeout=WAIT_S)
    # The record is written beside the answers.
    until(lambda: times < ACTIVATIONS_MAX or list(system.journal.cells.scan(CELLS)))


@pytest.fixture
def fragile() -> Fragile:
    return Fragile("evolve")


@pytest.fixture(params=["memory", "lmdb"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    opened: Journal = MemoryJournal() if request.param == "memory" else LmdbJournal(tmp_path / "journal")
    touched(opened, "fragile/x")
    yield opened
    opened.close()


@pytest.mark.scenario("JRN-15", "RPL-11")
def test_an_actor_that_fails_again_and_again_is_not_tried_any_more_and_the_asker_is_told(
    fragile: Fragile, journal: Journal
) -> None:
    with ActorSystem(journal, actors=[fragile.kind, ACCOUNT], recover=False, clock=lambda: 42) as system:
        fail(system, fragile)
        assert fragile.activations == {"fragile/x": ACTIVATIONS_MAX}

        text = r"fragile/x: in quarantine after 5 .*sequence 1: LookupError"
        for _ in range(3):
            with pytest.raises(ActorQuarantined, match=text) as told:
                system.ref(fragile.kind, "x").ask("hello").get(timeout=WAIT_S)
            assert (told.value.stream, told.value.sequence, told.value.failures) == ("fragile/x", 1, ACTIVATIONS_MAX)
        assert fragile.activations == {"fragile/x": ACTIVATIONS_MAX}
        assert system.live == 0

        assert [(q.stream, q.failures, q.sequence, q.since) for q in system.quarantine.listed()] == [
            ("fragile/x", 5, 1, 42)
        ]
        assert "LookupError: broken" in system.quarantine.listed()[0].reason
        assert system.ref(ACCOUNT, "a").ask(Deposit(5)).get(timeout=WAIT_S) == 5


def test_what_is_told_to_an_actor_in_quarantine_is_reported(fragile: Fragile, journal: Journal) -> None:
    with ActorSystem(journal, actors=[fragile.kind], recover=False) as system:
        fail(system, fragile)
        system.failures.clear()

        system.ref(fragile.kind, "x").tell("hello")

        assert [type(failure.error) for failure in system.failures] == [ActorQuarantined]


def test_the_next_start_leaves_it_alone_and_tries_it_once_when_it_is_asked(fragile: Fragile, journal: Journal) -> None:
    with ActorSystem(journal, actors=[fragile.kind], recover=False) as system:
        fail(system, fragile)
    fragile.activations.clear()

    with ActorSystem(journal, actors=[fragile.kind]) as system:
        assert [(f.what, type(f.error)) for f in system.failures] == [
            ("its open work was left alone", ActorQuarantined)
        ]
        assert fragile.activations == {}
        fail(system, fragile)

        assert fragile.activations == {"fragile/x": 1}
        assert [q.failures for q in system.quarantine.listed()] == [ACTIVATIONS_MAX + 1]


@pytest.mark.scenario("JRN-15")
def test_code_that_can_wake_it_takes_it_out_of_quarantine(fragile: Fragile, journal: Journal) -> None:
    with ActorSystem(journal, actors=[fragile.kind], recover=False) as system:
        fail(system, fragile)
    mended = Fragile()
    kind = replace(mended.kind, version=2)

    with ActorSystem(journal, actors=[kind]) as system:
        # Its work is open, so a start with other code wakes it by itself.
        until(lambda: mended.activations == {"fragile/x": 1} and not system.quarantine.listed())

        assert system.ref(kind, "x").ask("hello").get(timeout=WAIT_S) == "hello"
        until(lambda: not list(journal.cells.scan(CELLS)))
    with ActorSystem(journal, actors=[kind]) as system:
        assert system.quarantine.listed() == []


def test_an_event_that_is_registered_now_is_other_code() -> None:
    sound = Fragile()
    blind = replace(sound.kind, events=())

    assert blind.code != sound.kind.code
    assert replace(sound.kind).code == sound.kind.code
    assert replace(sound.kind, version=2).code != sound.kind.code
    assert replace(sound.kind, state_type=str).code != sound.kind.code


def test_an_actor_that_is_released_is_tried_again(fragile: Fragile, journal: Journal) -> None:
    with ActorSystem(journal, actors=[fragile.kind], recover=False) as system:
        fail(system, fragile)
        fragile.breaks = ""
        with pytest.raises(ActorQuarantined):
            system.ref(fragile.kind, "x").ask("hello").get(timeout=WAIT_S)

        system.quarantine.release("fragile/x")

        assert system.ref(fragile.kind, "x").ask("hello").get(timeout=WAIT_S) == "hello"
        assert system.quarantine.listed() == []
        until(lambda: not list(journal.cells.scan(CELLS)))


def test_a_success_between_failures_begins_the_count_anew(fragile: Fragile, journal: Journal) -> None:
    with ActorSystem(journal, actors=[fragile.kind], recover=False, idle_s=0.001) as system:
        for _ in range(3):
            fragile.breaks = "evolve"
            fail(system, fragile, ACTIVATIONS_MAX - 1)
            fragile.breaks = ""
            system.ref(fragile.kind, "x").ask("hello").get(timeout=WAIT_S)
            until(lambda: system.live == 0)

        assert system.quarantine.listed() == []


@pytest.mark.scenario("JRN-15")
def test_the_stream_of_an_actor_in_quarantine_is_listed_read_in_pages_and_deleted(
    fragile: Fragile, journal: Journal
) -> None:
    with ActorSystem(journal, actors=[fragile.kind], recover=False) as system:
        fail(system, fragile)

        assert [head.stream for head in journal.streams("fragile")] == ["fragile/x"]
        assert [page.events for page in journal.pages("fragile/x", fragile.kind.catalog)] == [[Touched("before")]]
        journal.delete("fragile/x", expected=1).wait()

        assert system.quarantine.listed() == []
        with pytest.raises(StreamDeleted):
            system.ref(fragile.kind, "x").ask("hello").get(timeout=WAIT_S)
        until(lambda: not list(journal.cells.scan(CELLS)))


def test_a_journal_keeps_who_is_in_quarantine(tmp_path: Path) -> None:
    fragile, names = Fragile("evolve"), ["x", "é" * 900, "y/z"]
    with LmdbJournal(tmp_path) as journal:
        touched(journal, *(f"fragile/{name}" for name in names))
    for start in (1, 2):
        with ActorSystem(tmp_path, actors=[fragile.kind], recover=False) as system:
            for name in names if start == 1 else ():
                for _ in range(ACTIVATIONS_MAX):
                    with pytest.raises(ActivationFailed):
                        system.ref(fragile.kind, name).ask("hello").get(timeout=WAIT_S)

            assert {q.stream for q in system.quarantine.listed()} == {f"fragile/{name}" for name in names}


def test_a_record_of_quarantine_that_cannot_be_read_counts_for_nothing(journal: Journal) -> None:
    fragile = Fragile()
    journal.cells.write([CellWrite(CELLS + b"fragile/x", b"\xffnonsense")])

    with ActorSystem(journal, actors=[fragile.kind]) as system:
        assert system.quarantine.listed() == []
        assert system.ref(fragile.kind, "x").ask("hello").get(timeout=WAIT_S) == "hello"


def test_an_event_that_is_not_known_leads_to_quarantine_too() -> None:
    journal = MemoryJournal()
    journal.append("account/a", [NewEvent(b'{"event":"no.such","version":1,"data":{}}')], expected=0)
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        for _ in range(ACTIVATIONS_MAX + 1):
            with pytest.raises(ActivationFailed, match=r"no\.such"):
                system.ref(ACCOUNT, "a").ask(Look()).get(timeout=WAIT_S)

        assert [q.stream for q in system.quarantine.listed()] == ["account/a"]
