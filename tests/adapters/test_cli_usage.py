"""`clew usage`: what was used, by owner, agent or model, for people and for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.actors import ActorSystem
from tests.actors.paid import desk, paid_answer

from .command import Clew

pytestmark = pytest.mark.requirement("L-LOOP-15")


@pytest.fixture
def spent(clew: Clew, tmp_path: Path) -> Clew:
    """The command in a project whose agents were paid for."""
    priced = desk(None, [paid_answer(tokens=100, usd="0.0100"), paid_answer(tokens=100, usd="0.02")])
    unknown = desk(None, [paid_answer(tokens=50, usd=None)], name="other")
    with ActorSystem(tmp_path / "clew-data", agents=[priced, unknown]) as system:
        for agent, key, owner in (
            (priced, "a", "ann"),
            (priced, "a", "ann"),
            (unknown, "b", "ann\x1b"),
            (unknown, "c", None),
        ):
            system.thread(agent, key, owner=owner).run("go").result(timeout_s=10)
    return clew


def test_people_see_a_line_for_each_owner_and_agent(spent: Clew) -> None:
    head, *lines = [line.split() for line in spent("usage").out.splitlines()]

    assert head == ["OWNER", "AGENT", "RUNS", "REQUESTS", "TOKENS", "IN", "OUT", "USD", "UNPRICED"]
    assert lines == [
        ["-", "other", "1", "1", "45", "5", "-", "1"],
        ["ann", "desk", "2", "2", "180", "20", "0.0300", "0"],
        ["ann\\x1b", "other", "1", "1", "45", "5", "-", "1"],
    ]
    assert spent("usage", "clew-data").out == spent("usage").out


@pytest.mark.parametrize(
    ("by", "names", "runs"),
    [
        ("owner", [None, "ann", "ann\x1b"], [1, 2, 1]),
        ("agent", ["desk", "other"], [2, 2]),
        ("model", ["following"], [4]),
    ],
)
def test_programs_get_exact_amounts_by_what_they_ask_for(
    spent: Clew, by: str, names: list[str], runs: list[int]
) -> None:
    rows = spent("usage", "--by", by, "--json").json

    assert [(row[by], row["runs"]) for row in rows] == list(zip(names, runs, strict=True))
    assert [row["usage"]["cost_usd"] for row in rows if row["usage"]["cost_usd"]] == ["0.0300"]
    assert sum(row["usage"]["unpriced"] for row in rows) == 2


def test_one_owner_alone(spent: Clew) -> None:
    [row] = spent("usage", "--owner", "ann", "--json").json

    assert (row["owner"], row["agent"], row["model"]) == ("ann", "desk", None)
    assert spent("usage", "--owner", "eve", "--json").json == []


def test_a_journal_that_is_not_there_and_a_wrong_word_are_refused(clew: Clew) -> None:
    assert clew("usage", "nowhere").code == 5
    assert clew("usage", "--by", "day").code == 2
