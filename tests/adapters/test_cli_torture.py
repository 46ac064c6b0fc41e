"""`clew journal torture`: it kills and damages, counts what became of it, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.adapters.cli.torture_facts import CATALOG, Written, torn
from clew.adapters.cli.torture_kills import Kills, look_through
from clew.adapters.cli.torture_orders import Acknowledged, cell_of
from clew.journal import GENESIS, CellWrite, chain
from clew.journal.lmdb import LmdbJournal

from .command import Clew

KEYS = ("kills", "acknowledged", "lost", "half_written", "gaps", "corruptions_injected", "corruptions_detected")


@pytest.mark.crash
def test_it_kills_writers_and_damages_copies_and_says_what_became_of_them(clew: Clew) -> None:
    done = clew(
        "journal", "torture", "--json", "--kills", "5", "--damages", "24", "--writers", "8", "--seed", "3", "--in", "."
    )

    assert done.code == 0, done
    assert set(KEYS) <= set(done.json)
    assert (done.json["kills"], done.json["corruptions_injected"]) == (5, 24)
    assert done.json["acknowledged"] > 0
    assert [done.json[key] for key in ("lost", "half_written", "gaps", "silently_wrong", "crashed")] == [0] * 5
    assert done.json["corruptions_detected"] == 24
    assert done.json["problems"] == []
    assert list(clew.folder.glob("clew-torture-*")) == []


def test_it_says_it_in_words(clew: Clew) -> None:
    done = clew("journal", "torture", "--kills", "1", "--damages", "2", "--writers", "2", "--seed", "7", "--in", ".")

    assert done.code == 0, done
    assert "1 kill: " in done.out
    assert "2 bytes changed: 2 noticed, 0 silently wrong, 0 crashed" in done.out
    assert "seed 7" in done.out


def group(*members: int, size: int = 3, name: str = "g") -> list[Written]:
    return [Written(name, size, member, "") for member in members]


@pytest.mark.parametrize(
    ("events", "found"),
    [
        (group(0, 1, 2) + group(0, size=1, name="h"), []),
        (group(0, 1), ["g"]),
        (group(1, 2), ["g"]),
        (group(0, 2), ["g"]),
        (group(0, 1) + group(0, size=1, name="h"), ["h"]),
        (group(0, 1, 2, 2), ["g"]),
    ],
)
def test_a_part_of_a_group_is_noticed(events: list[Written], found: list[str]) -> None:
    assert torn(events) == found


EVENT = CATALOG.encode(Written("g", 1, 0, ""))[0]
DIGEST = chain(GENESIS, EVENT.canonical)


def told(what: str, sequence: int, digest: bytes = b"") -> Acknowledged:
    return Acknowledged(what, "torture/1", sequence, digest.hex())


@pytest.mark.parametrize(
    ("lines", "lost"),
    [
        ([told("appended", 1, DIGEST)], 0),
        ([told("appended", 1, DIGEST[::-1])], 1),
        ([told("appended", 1, DIGEST), told("appended", 2, DIGEST)], 1),
        ([told("appended", 1, DIGEST), told("deletes", 1), told("deleted", 1, DIGEST)], 1),
        ([told("appended", 1, DIGEST), told("deletes", 1)], 0),
        ([told("deleted", 4, DIGEST), told("begins", 0)], 0),
    ],
)
def test_what_was_acknowledged_and_is_not_there_is_counted(
    lines: list[Acknowledged], lost: int, tmp_path: Path
) -> None:
    with LmdbJournal(tmp_path / "journal") as journal:
        cells = [CellWrite(cell_of("torture/1"), b"1")]
        journal.append("torture/1", [EVENT], expected=0, cells=cells).wait()
    found = Kills()

    look_through(tmp_path, lines, found)

    assert found.lost == lost
    assert bool(found.problems) == bool(lost)
    assert (found.half_written, found.gaps) == (0, 0)
