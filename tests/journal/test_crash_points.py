"""A process dies at every place where a journal changes its disk; what was acknowledged is there, and nothing is torn.

By default one place of each kind and some torn commits are tried; with CLEW_CRASH_POINTS=all every place there is.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from clew.journal import Journal, MemoryJournal, OutdatedJournal
from clew.journal.lmdb import LmdbJournal
from tests.journal.crash_scenario import EVERYTHING, SCENARIOS, Life, perform

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
ALL = os.environ.get("CLEW_CRASH_POINTS") == "all"
TORN_EVERY = 1 if ALL else 4

State = tuple[dict[str, Any], dict[bytes, bytes]]


class Forks:
    """Runs scenarios, each in a process of its own that may die."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "tests.journal.crash_scenario"]
        self.popen = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)

    def run(self, scenario: str, folder: Path, die_at: int = 0, *, torn: bool = False) -> tuple[int, int, Any]:
        """Return how the process ended, how many steps it had done, and at its end all places."""
        assert self.popen.stdin
        assert self.popen.stdout
        self.popen.stdin.write(json.dumps([scenario, str(folder), die_at, torn]) + "\n")
        self.popen.stdin.flush()
        code, steps, places = json.loads(self.popen.stdout.readline())
        return code, steps, places

    def close(self) -> None:
        self.popen.kill()
        self.popen.wait()
        for file in (self.popen.stdin, self.popen.stdout):
            assert file
            file.close()


@pytest.fixture(scope="module")
def forks() -> Generator[Forks]:
    running = Forks()
    yield running
    running.close()


def state_of(journal: Journal) -> State:
    """Return everything that can be read."""
    streams: dict[str, Any] = {}
    for head in journal.streams():
        assert journal.head(head.stream) == head
        events = [] if head.deleted else list(journal.read(head.stream))
        assert head.deleted or [event.sequence for event in events] == [*range(1, head.sequence + 1)]
        streams[head.stream] = head, [(event.cause, event.digest, event.canonical) for event in events]
    everything = [(event.stream, event.digest) for event in journal.read_all()]
    assert len(everything) == sum(len(events) for _, events in streams.values())
    for stream, (_, events) in streams.items():
        assert [digest for name, digest in everything if name == stream] == [digest for _, digest, _ in events]
    return streams, dict(journal.cells.scan(b""))


def state_in(path: Path) -> State:
    """Return what a journal holds that nobody has open, and see that nothing is wrong with it."""
    if not (path / "data.mdb").exists():
        return {}, {}
    try:
        journal = LmdbJournal(path, seal_after=10**9)
    except OutdatedJournal:
        journal = LmdbJournal(path, readonly=True)
    with journal:
        assert journal.verify().problems == []
        return state_of(journal)


def undisturbed(scenario: str, folder: Path) -> list[State]:
    """Return what is there before each step and at the end, when nothing happens in between."""
    life, states = Life(folder), [state_in(folder / "journal")]
    for number, step in enumerate(SCENARIOS[scenario]):
        life.step(step, number)
        life.close()
        states.append(state_in(life.path))
    return states


def chosen(places: list[tuple[int, str]]) -> list[int]:
    """Return the places to die at: all, or one of each kind, from all over the scenario."""
    kinds: dict[str, list[int]] = {}
    for number, (_, what) in enumerate(places, 1):
        kinds.setdefault(what, []).append(number)
    if ALL:
        return [*range(1, len(places) + 1)]
    return [numbers[len(numbers) * kind // len(kinds)] for kind, numbers in enumerate(kinds.values())]


def test_the_scenario_means_the_same_in_memory(tmp_path: Path) -> None:
    memory = MemoryJournal()

    for number, (step, there) in enumerate(zip(EVERYTHING, undisturbed("everything", tmp_path)[1:], strict=True)):
        perform(memory, step, number)
        assert state_of(memory) == there


@pytest.mark.scenario("JRN-08")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_crash_at_any_place_loses_nothing_and_everything_goes_on(scenario: str, forks: Forks, tmp_path: Path) -> None:
    states = undisturbed(scenario, tmp_path / "undisturbed")
    code, _, places = forks.run(scenario, tmp_path / "counted")
    assert code == 0
    deaths = [(number, False) for number in chosen(places)]
    commits = [number for number, (step, what) in enumerate(places, 1) if what == "before commit" and step]
    deaths += [(number, True) for number in commits[::TORN_EVERY]]

    for number, torn in deaths:
        folder = tmp_path / f"{number}{torn}"
        code, done, _ = forks.run(scenario, folder, number, torn=torn)
        where = f"{'torn ' if torn else ''}place {number}: step {places[number - 1]}, {done} done"
        assert code == -signal.SIGKILL, where
        go_on(scenario, folder, done, states, where)
        shutil.rmtree(folder)


def go_on(scenario: str, folder: Path, done: int, states: list[State], where: str) -> None:
    """See that all that was done is there, and the step that was begun is there or is not; then do the rest."""
    there = state_in(folder / "journal")
    assert there in states[done : done + 2], where
    life = Life(folder)
    for number, step in enumerate(SCENARIOS[scenario]):
        if number >= done + (there != states[done]):
            life.step(step, number)
    life.close()
    assert state_in(life.path) == states[-1], where
    assert {file.name for file in life.path.iterdir()} <= {"data.mdb", "lock.mdb", "writer.lock"}, where
    if (folder / "backup").exists():
        backed_up = states[SCENARIOS[scenario].index(("backup",))]
        assert state_in(folder / "backup") == backed_up, where
