"""Every clause of the contract, on every journal."""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path

import pytest

from clew.journal import MemoryJournal
from clew.journal.contract import CLAUSES, DURABLE_CLAUSES, Clause, Opener, check
from clew.journal.lmdb import LmdbJournal
from clew.journal.sql import SqliteJournal, SqlJournal
from tests.journal.object_storage import ObjectStorage

pytestmark = pytest.mark.contract


def _name(clause: Clause) -> str:
    return clause.__name__


@pytest.mark.parametrize("clause", CLAUSES, ids=_name)
def test_the_memory_journal_keeps_the_contract(clause: Clause) -> None:
    clause(MemoryJournal)


@pytest.mark.parametrize("clause", CLAUSES + DURABLE_CLAUSES, ids=_name)
@pytest.mark.scenario("JRN-10", "JRN-12")
def test_the_lmdb_journal_keeps_the_contract(clause: Clause, tmp_path: Path) -> None:
    clause(partial(LmdbJournal, tmp_path / "journal"))


@pytest.mark.parametrize("clause", CLAUSES + DURABLE_CLAUSES, ids=_name)
def test_the_lmdb_journal_keeps_the_contract_while_it_is_sealed(clause: Clause, tmp_path: Path) -> None:
    clause(partial(LmdbJournal, tmp_path / "journal", seal_after=1, durability="relaxed"))


@pytest.mark.parametrize("clause", CLAUSES + DURABLE_CLAUSES, ids=_name)
def test_the_lmdb_journal_keeps_the_contract_in_a_map_that_must_grow(clause: Clause, tmp_path: Path) -> None:
    clause(partial(LmdbJournal, tmp_path / "journal", map_bytes=65536, durability="relaxed"))


@pytest.mark.parametrize("clause", CLAUSES + DURABLE_CLAUSES, ids=_name)
def test_the_sqlite_journal_keeps_the_contract(clause: Clause, tmp_path: Path) -> None:
    clause(partial(SqliteJournal, tmp_path / "journal.db"))


@pytest.mark.parametrize("clause", CLAUSES + DURABLE_CLAUSES, ids=_name)
def test_the_sql_journal_keeps_the_contract_within_the_limits_of_a_durable_object(clause: Clause) -> None:
    clause(partial(SqlJournal, ObjectStorage()))


def test_the_contract_can_be_checked_in_one_call(tmp_path: Path) -> None:
    numbers = count()

    check(lambda: partial(SqliteJournal, tmp_path / str(next(numbers))))

    assert next(numbers) == len(CLAUSES + DURABLE_CLAUSES)


def test_a_backend_that_breaks_the_contract_is_told_which_clause() -> None:
    class Forgetful(MemoryJournal):
        def close(self) -> None:
            """Forget to close."""

    def new() -> Opener:
        return Forgetful

    with pytest.raises(AssertionError, match="watches are told once when the journal closes"):
        check(new, durable=False)
