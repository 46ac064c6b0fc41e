"""A real process is killed with SIGKILL at random moments; what it acknowledged is there when it comes back."""

from __future__ import annotations

import random
import select
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.actors import ActorSystem
from clew.actors.agent import replay
from clew.journal.facts import StepCompleted
from clew.journal.lmdb import LmdbJournal
from clew.projections import conversation, view_of
from tests.kill.working import THREADS, make_agent

KILLS = 50
RUN_KILLS = 10
"""Fewer: each start imports pydantic-ai."""


@contextmanager
def program(name: str, path: Path) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", f"tests.kill.{name}", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def killed_after(process: subprocess.Popen[str], seconds: float | None) -> list[str]:
    """Read what the program prints until it is killed, `seconds` after it said that it is ready (None: to its end)."""
    assert process.stdout is not None
    lines: list[str] = []
    timer: threading.Timer | None = None
    for line in process.stdout:
        if timer is None and seconds is not None:
            timer = threading.Timer(seconds, process.kill)
            timer.start()
        # A line that was cut in the middle was not printed; whoever reads it knows nothing.
        if line.endswith("\n"):
            lines.append(line.strip())
    if timer is not None:
        timer.cancel()
    return lines


@pytest.mark.crash
@pytest.mark.timeout(240)
def test_every_acknowledged_command_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    dice = random.Random(20261130)
    acknowledged: list[tuple[str, str]] = []

    for _ in range(KILLS):
        with program("counting", tmp_path / "journal") as process:
            lines = killed_after(process, dice.uniform(0, 0.06))
        acknowledged += [(stream, command) for stream, command in (line.split() for line in lines if " " in line)]

    with LmdbJournal(tmp_path / "journal") as journal:
        causes = Counter((event.stream, event.cause) for event in journal.read_all())
        report = journal.verify()
    assert len(acknowledged) > KILLS
    assert [one for one in acknowledged if causes[one] != 1] == []
    assert max(causes.values()) == 1
    assert list(report.problems) == []


@pytest.mark.crash
@pytest.mark.timeout(240)
@pytest.mark.requirement("L-REPLAY-2")
@pytest.mark.scenario("CON-09")
def test_runs_killed_at_random_moments_finish_without_repeating_a_recorded_step(tmp_path: Path) -> None:
    dice = random.Random(7)
    kills, lines = 0, list[str]()

    for seconds in [*(dice.uniform(0.02, 0.2) for _ in range(RUN_KILLS)), None]:
        with program("working", tmp_path) as process:
            lines = killed_after(process, seconds)
        kills += "finished" not in lines
    assert "finished" in lines

    agent = make_agent(tmp_path)
    notes = Counter((tmp_path / "notes").read_text().splitlines())
    started = {text.removeprefix("start "): count for text, count in notes.items() if text.startswith("start ")}
    with LmdbJournal(tmp_path / "journal", readonly=True) as journal:
        streams = [head.stream for head in journal.streams("thread")]
        events = {stream: list(journal.read(stream)) for stream in streams}
    assert len(streams) == THREADS
    assert {view_of(own).status for own in events.values()} == {"done"}
    for stream, own in events.items():
        facts = [conversation.catalog.decode(event) for event in own]
        steps = Counter(f"{stream}/{fact.run}/{fact.step}" for fact in facts if isinstance(fact, StepCompleted))
        assert set(steps.values()) == {1}
        assert {key for key in started if key.startswith(f"{stream}/")} == {key for key in steps if "tool:" in key}
        assert replay(own, agent).digests_equal
    # A step ran again only because a kill cut it off: at most those in flight, on each kill.
    assert sum(started.values()) - len(started) <= kills * THREADS * 2
    assert kills > 0


@pytest.mark.crash
def test_a_second_system_on_the_same_journal_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    from clew.journal import JournalLocked

    with program("counting", tmp_path / "journal") as process:
        assert process.stdout is not None
        select.select([process.stdout], [], [], 60)
        with pytest.raises(JournalLocked) as locked:
            ActorSystem(tmp_path / "journal")

    assert locked.value.pid == process.pid
