"""A process is killed while alarms are set and while they fire: each that was acknowledged fires, and counts once."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from clew.actors import ActorSystem
from clew.actors.testing import VirtualClock
from tests.actors.reminders import Bell, filed, rang
from tests.actors.support import until
from tests.kill.test_kill import killed_after, program
from tests.kill.waking import HOUR

KILLS = 4


@pytest.mark.crash
@pytest.mark.scenario("SCH-14")
def test_every_acknowledged_alarm_fires_after_a_kill_and_none_counts_twice(tmp_path: Path) -> None:
    dice, alarms = random.Random(0), 0
    for kill in range(KILLS):
        path = tmp_path / f"{kill}"
        with program("waking", path) as process:
            lines = killed_after(process, dice.uniform(0.02, 0.3))
        acknowledged = [line.split() for line in lines if line != "ready"]
        alarms += len(acknowledged)
        bell = Bell()

        with ActorSystem(path, actors=[bell.kind], clock=VirtualClock(time.time_ns() + 2 * HOUR)) as system:
            until(lambda system=system: filed(system.journal) == [])

            for id_, due in acknowledged:
                # A cell can be read a moment before the events that it was written with.
                until(lambda system=system, id_=id_: rang(system.journal, f"reminder/{id_}"))
                assert rang(system.journal, f"reminder/{id_}") == [int(due)]
            assert list(system.failures) == []
    assert alarms > 0
