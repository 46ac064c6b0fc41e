"""Projections that a system keeps up to date while it is open."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from clew.actors import ActorSystem
from clew.journal import Catalog, MemoryJournal, RecordedEvent
from clew.journal.lmdb import LmdbJournal
from clew.projections import LiveRows, RowProjection, Rows
from tests.actors.support import ACCOUNT, Deposit, Deposited

CATALOG = Catalog(Deposited)


def add_up(rows: Rows[int], event: msgspec.Struct, recorded: RecordedEvent) -> None:
    assert isinstance(event, Deposited)
    rows.set(recorded.stream, (rows.get(recorded.stream) or 0) + event.cents)


def fail(rows: Rows[int], event: msgspec.Struct, recorded: RecordedEvent) -> None:
    raise RuntimeError("it cannot add")


BALANCES = RowProjection(name="balances", version=1, catalog=CATALOG, row=int, apply=add_up, category="account")


@pytest.mark.parametrize("place", ["journal", "sqlite:///journal.db"])
def test_a_system_keeps_its_projections_and_the_next_one_goes_on_from_there(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for lap in (1, 2):
        with ActorSystem(place, actors=[ACCOUNT], projections=[BALANCES]) as system:
            for name in ("ann", "bob"):
                system.ref(ACCOUNT, name).ask(Deposit(5)).get()
            system.projections.settle(timeout_s=30)

            rows = LiveRows(system.journal, BALANCES)
            assert [rows.get(f"account/{name}") for name in ("ann", "bob")] == [5 * lap, 5 * lap]


def test_what_the_last_command_did_counts_after_closing_and_opening(tmp_path: Path) -> None:
    with ActorSystem(tmp_path, actors=[ACCOUNT], projections=[BALANCES]) as system:
        system.ref(ACCOUNT, "ann").ask(Deposit(7)).get()
    with LmdbJournal(tmp_path) as journal, ActorSystem(journal, actors=[ACCOUNT], projections=[BALANCES]) as system:
        system.projections.settle(timeout_s=30)

        assert LiveRows(journal, BALANCES).get("account/ann") == 7


def test_a_projection_that_fails_is_parked_and_the_actors_go_on() -> None:
    bad = RowProjection(name="bad", version=1, catalog=CATALOG, row=int, apply=fail, category="account")
    with ActorSystem("memory:", actors=[ACCOUNT], projections=[bad, BALANCES]) as system:
        for _ in range(3):
            system.ref(ACCOUNT, "ann").ask(Deposit(1)).get()
        system.projections.settle(timeout_s=30)

        assert LiveRows(system.journal, BALANCES).get("account/ann") == 3
        parked = {status.name for status in system.projections.status() if status.parked is not None}
        assert parked == {"bad"}


def test_two_projections_of_one_name_are_refused_before_anything_is_opened(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two projections share a name: balances, balances"):
        ActorSystem(tmp_path / "journal", projections=[BALANCES, BALANCES])

    assert not (tmp_path / "journal").exists()


def test_a_journal_that_is_given_stays_open_and_nothing_runs_on_it_afterwards() -> None:
    journal = MemoryJournal()
    with ActorSystem(journal, actors=[ACCOUNT], projections=[BALANCES]) as system:
        system.ref(ACCOUNT, "ann").ask(Deposit(1)).get()
        system.projections.settle(timeout_s=30)

    with pytest.raises(RuntimeError, match="settle inside the block"):
        system.projections.settle()
    assert LiveRows(journal, BALANCES).get("account/ann") == 1
