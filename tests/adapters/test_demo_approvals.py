"""`clew demo approvals`: real kills around every approval, and each movement of money once."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from msgspec.structs import replace

from clew.adapters.cli.demo_movements import MoneyOutcome, Moved, moved

from .command import Clew

KEPT = MoneyOutcome(
    kills=1,
    killed={"waiting": 1},
    processes=2,
    runs=2,
    finished=2,
    decisions=2,
    rejected=1,
    movements=1,
    duplicates=0,
    lost=0,
    not_approved=0,
    cents=100,
    cents_approved=100,
    ran_again=0,
    settled=0,
    digests_equal=True,
    journal_bytes=1,
    seconds=1.0,
)


@pytest.mark.crash
@pytest.mark.requirement("L-HITL-8", "G-LEDGER-13")
def test_whenever_the_process_is_killed_what_was_approved_moves_once(clew: Clew) -> None:
    done = clew("demo", "approvals", "--json")

    assert done.code == 0, done
    found = done.json
    assert found["killed"] == dict.fromkeys(("waiting", "decided", "begun", "moved", "recorded"), 2)
    assert (found["kills"], found["processes"]) == (10, 11)
    assert found["runs"] == found["finished"] == found["decisions"] == 12
    assert (found["rejected"], found["movements"]) == (1, 11)
    assert found["duplicates"] == found["lost"] == found["not_approved"] == 0
    assert found["cents"] == found["cents_approved"] > 0
    # In the tool: the keyed one both times, the other only where the manager saw that no money had moved.
    assert (found["ran_again"], found["settled"]) == (3, 2)
    assert found["digests_equal"] is True


@pytest.mark.crash
def test_the_demo_tells_its_story_and_keeps_what_it_made(clew: Clew) -> None:
    done = clew("demo", "approvals", "--keep", "kept")
    threads = clew("threads", "--journal", "kept/journal", "--json").json
    with closing(sqlite3.connect(clew.folder / "kept" / "ledger.sqlite")) as books:
        keys, orders = zip(*books.execute("SELECT idempotency_key, order_id FROM movements"), strict=True)

    assert done.code == 0, done
    told = ["only when a manager has approved", "before the decision", "between decision and tool", "rejects it"]
    places = [done.out.index(text) for text in told]
    assert places == sorted(places)
    assert done.out.count("\nkilled  ") == 10
    assert done.out.count("\nkept  ") == 6
    assert "BROKEN" not in done.out
    assert done.err == ""
    assert [thread["status"] for thread in threads] == ["done"] * 12
    assert sorted(set(orders)) == sorted(orders)
    assert sum(key is not None for key in keys) == 6


def test_the_demos_are_told_apart(clew: Clew) -> None:
    told = clew("demo", "--help")

    assert "approvals  See money approved" in told.out
    assert clew("demo", "nothing").code == 2
    assert "not an empty directory" in clew("demo", "approvals", "--keep", ".").error


@pytest.mark.parametrize(
    "broken",
    [
        replace(KEPT, finished=1),
        replace(KEPT, decisions=3),
        replace(KEPT, not_approved=1),
        replace(KEPT, duplicates=1),
        replace(KEPT, lost=1),
        replace(KEPT, cents=99),
        replace(KEPT, digests_equal=False),
    ],
)
def test_each_broken_promise_is_noticed(broken: MoneyOutcome) -> None:
    assert KEPT.kept
    assert not broken.kept
    assert [kept for kept, _, _ in broken.promises].count(False) == 1


def test_movements_are_held_against_what_was_approved() -> None:
    approved = {"a": 10, "b": 20, "c": 30, "refused": 0}

    assert moved(approved, [("a", 10), ("b", 20), ("c", 30)]) == Moved(3, 0, 0, 0, 60, 60)
    assert moved(approved, [("a", 10), ("a", 10), ("b", 20)]) == Moved(3, 1, 1, 0, 40, 60)
    assert moved(approved, [("a", 9), ("b", 20), ("c", 30), ("refused", 5), ("x", 1)]) == Moved(5, 0, 0, 3, 65, 60)
