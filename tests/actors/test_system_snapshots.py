"""The system takes snapshots by itself, and nothing that goes wrong with one is in the way of a command."""

from __future__ import annotations

import resource
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from clew.actors import ActorSystem, Decider
from clew.journal import Journal, JournalFull, NotRepresentable
from clew.journal.lmdb import LmdbJournal
from clew.journal.snapshot import SnapshotPolicy
from tests.actors.support import WAIT_S, Deposit, Deposited, Look, SlowDisk, Withdraw, until
from tests.actors.test_snapshots import COUNTED, NOW, Counting, Kind, eager


def kept(journal: Journal) -> int:
    """How many cells of snapshots there are."""
    return len(list(journal.cells.scan(b"snapshot/")))


def test_an_actor_that_is_awake_is_kept_in_snapshots() -> None:
    journal, kind = Counting(), eager(COUNTED, 100)
    with ActorSystem(journal, actors=[kind], clock=lambda: NOW) as system:
        ref = system.ref(kind, "a")
        for _ in range(10):
            for _ in range(50):
                ref.tell(Deposit(1))
            ref.ask(Look()).get(timeout=WAIT_S)
    journal.loaded = 0

    with ActorSystem(journal, actors=[kind]) as system:
        assert system.ref(kind, "a").ask(Look()).get(timeout=WAIT_S) == 500
    assert journal.loaded < 200


def test_an_actor_that_goes_to_sleep_is_kept_and_wakes_from_that(tmp_path: Path) -> None:
    kind = eager(COUNTED, 10)
    for number in range(1, 4):
        with ActorSystem(tmp_path, actors=[kind], idle_s=0.001) as system:
            ref = system.ref(kind, "a")
            assert ref.ask(Deposit(1), command_id=f"c{number}").get(timeout=WAIT_S) == number
            until(lambda system=system: system.live == 0)
            assert ref.ask(Deposit(1), command_id="c1").get(timeout=WAIT_S) == 1

    with LmdbJournal(tmp_path) as journal:
        assert kept(journal) > 0
        assert journal.head("account/a").sequence == 3


def test_no_reply_waits_for_a_snapshot() -> None:
    journal, kind = SlowDisk(), COUNTED
    with ActorSystem(journal, actors=[kind]) as system:
        ref = system.ref(kind, "a")
        for number in range(1, 4):
            reply = ref.ask(Deposit(1))
            journal.appended()
            journal.flush()
            # The snapshot of this command is under way, or will be, and nothing flushes it.
            assert reply.get(timeout=WAIT_S) == number
            assert ref.ask(Look()).get(timeout=WAIT_S) == number
        until(lambda: journal.flush() or kept(journal))


def test_a_snapshot_that_fails_is_reported_and_fails_no_command() -> None:
    journal, kind = SlowDisk(), COUNTED
    with ActorSystem(journal, actors=[kind]) as system:
        ref = system.ref(kind, "a")
        reply = ref.ask(Deposit(1))
        journal.appended()
        journal.flush()
        assert reply.get(timeout=WAIT_S) == 1

        until(lambda: journal.fail(JournalFull(path="x", reason="full")) or system.failures)

        assert [(f.stream, type(f.error)) for f in system.failures] == [("account/a", JournalFull)]
        again = ref.ask(Deposit(1))
        journal.appended()
        journal.flush()
        assert again.get(timeout=WAIT_S) == 2
        until(lambda: journal.flush() or kept(journal))


def test_a_kind_whose_states_cannot_be_kept_is_reported_once_and_works_on() -> None:
    def evolve(seen: tuple[int, ...], event: Deposited) -> tuple[int, ...]:
        return (*seen, event.cents)

    decider = Decider[tuple[int, ...], Any, Any, int](
        initial=(), decide=COUNTED.decider.decide, evolve=evolve, answer=lambda seen, _: len(seen)
    )
    kind: Kind = replace(COUNTED, decider=cast("Any", decider), state_type=list[int])
    with ActorSystem("memory:", actors=[kind], idle_s=0.001) as system:
        for number in range(1, 6):
            for name in "ab":
                assert system.ref(kind, name).ask(Deposit(7)).get(timeout=WAIT_S) == number
        until(lambda: system.live == 0)

        assert [(f.what, type(f.error)) for f in system.failures] == [("no snapshot is taken", NotRepresentable)]
        assert kept(system.journal) == 0


def test_a_refused_command_after_a_snapshot_is_decided_on_its_state() -> None:
    with ActorSystem("memory:", actors=[COUNTED], idle_s=0.001) as system:
        ref = system.ref(COUNTED, "a")
        ref.ask(Deposit(5)).get(timeout=WAIT_S)
        until(lambda: system.live == 0)

        assert ref.ask(Withdraw(5)).get(timeout=WAIT_S) == 0
        assert kept(system.journal) > 0


@contextmanager
def file_size(limit_bytes: int) -> Generator[None]:
    """Let no file of this process grow beyond that, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(sys.platform != "linux", reason="the disk is filled in a way of Linux")
def test_on_a_real_disk_that_is_full_nothing_is_lost_and_all_goes_on_when_there_is_room(tmp_path: Path) -> None:
    decider = Decider[str, Any, Any, int](
        initial="",
        decide=COUNTED.decider.decide,
        evolve=lambda text, event: text + "x" * event.cents,
        answer=lambda text, _: len(text),
    )
    policy = SnapshotPolicy(every=1)
    kind: Kind = replace(COUNTED, decider=cast("Any", decider), state_type=str, snapshot=policy)
    with ActorSystem(tmp_path, actors=[kind]) as system:
        ref, size = system.ref(kind, "a"), 0
        ref.ask(Deposit(10)).get(timeout=WAIT_S)
        with file_size((tmp_path / "data.mdb").stat().st_size + 400_000):
            # The state is large and the events are small, so it is a snapshot that meets the full disk first.
            ref.ask(Deposit(600_000)).get(timeout=WAIT_S)
            until(lambda: system.failures)
            assert isinstance(system.failures[0].error, JournalFull)

        for number in range(1, 4):
            size = ref.ask(Deposit(1), command_id=f"after {number}").get(timeout=WAIT_S)
        assert size == 600_013

    with ActorSystem(tmp_path, actors=[kind]) as system:
        ref = system.ref(kind, "a")
        assert ref.ask(Look()).get(timeout=WAIT_S) == 600_013
        assert ref.ask(Deposit(1), command_id="after 1").get(timeout=WAIT_S) == 600_011
        assert system.journal.head("account/a").sequence == 5
