"""A run that kills its process is parked after some restarts, and goes on when somebody has it resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.actors import ActorSystem
from tests.actors.support import WAIT_S
from tests.kill.parking import RECOVERIES_MAX, make_agent
from tests.kill.test_kill import killed_after, program


@pytest.mark.crash
@pytest.mark.scenario("CON-09")
def test_a_run_that_kills_its_process_is_parked_and_goes_on_when_it_is_resumed(tmp_path: Path) -> None:
    (tmp_path / "deadly").touch()
    said: list[list[str]] = []
    for _ in range(RECOVERIES_MAX + 2):
        with program("parking", tmp_path) as process:
            said.append(killed_after(process, None))
    (tmp_path / "deadly").unlink()
    agent = make_agent(tmp_path)
    with ActorSystem(tmp_path / "journal", agents=[agent]) as system:
        thread = system.thread(agent, "t")
        status = thread.status("r")
        thread.resume("r").get(timeout=WAIT_S)
        output = thread.attach("r").result(timeout_s=WAIT_S).output

    assert said == [[], [], [], ["its process ended 3 times without a new step of it being recorded"]]
    assert (status, output) == ("parked", "done")
