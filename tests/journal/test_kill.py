"""A writing process is killed again and again: what it had acknowledged is there, and nothing is torn."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from clew.journal import GENESIS, Journal, chain
from clew.journal.contract.subject import text_of
from clew.journal.lmdb import LmdbJournal
from tests.journal.process import process

KILLS = 50


@pytest.mark.crash
@pytest.mark.scenario("JRN-08")
def test_nothing_acknowledged_is_lost_and_nothing_is_torn_by_kills_at_random_moments(tmp_path: Path) -> None:
    moments = random.Random(20)
    path = tmp_path / "journal"
    survivors = Survivors()

    for kill in range(KILLS):
        # The first ones hit the creation of the journal; full and relaxed syncs are the same to a kill.
        acknowledgements = 0 if kill < 4 else moments.randrange(60)
        durability = "relaxed" if kill % 5 == 4 else "commit"
        acknowledged = run_and_kill(path, acknowledgements, {"durability": durability, "map_bytes": 1 << 20})

        with LmdbJournal(path) as journal:
            survivors.check(journal, acknowledged)
            if kill % 10 == 9:
                assert journal.verify().problems == []

    assert sum(sequence for sequence, _ in survivors.ends.values()) > KILLS * 10


def run_and_kill(path: Path, acknowledgements: int, options: dict[str, object]) -> dict[str, int]:
    """Let a process append until it has acknowledged so many appends, kill it, and return all that it acknowledged."""
    acknowledged: dict[str, int] = {}
    with process() as writer:
        output = writer.popen.stdout
        assert output
        writer.send("append_until_killed", str(path), 3, options)
        assert output.readline() == "starting\n"
        for _ in range(acknowledgements):
            take(output.readline(), acknowledged)
        writer.kill()
        for line in output:
            take(line, acknowledged)
    return acknowledged


def take(line: str, acknowledged: dict[str, int]) -> None:
    assert line.endswith("\n")
    stream, sequence = line.split()
    acknowledged[stream] = int(sequence)


class Survivors:
    """What was there after the last kill, to look only at what is new."""

    def __init__(self) -> None:
        self.ends: dict[str, tuple[int, bytes]] = {}

    def check(self, journal: Journal, acknowledged: dict[str, int]) -> None:
        heads = {head.stream: head for head in journal.streams()}
        assert set(heads) >= set(self.ends) | set(acknowledged)
        for stream, head in heads.items():
            sequence, digest = self.ends.get(stream, (0, GENESIS))
            assert head.sequence >= max(sequence, acknowledged.get(stream, 0))
            for event in journal.read(stream, after=sequence):
                sequence += 1
                digest = chain(digest, event.canonical)
                assert (event.sequence, event.digest) == (sequence, digest)
                assert text_of(event.canonical).startswith(f"{stream} {sequence} ")
            assert (sequence, digest) == (head.sequence, head.digest)
            # The cell was written with the events, so it says the same, also of an append that nobody heard of.
            assert journal.cells.get(stream.encode()) == b"%d" % head.sequence
            self.ends[stream] = (sequence, digest)
