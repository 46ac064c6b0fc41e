"""Whatever goes wrong in whatever order, what must be true is true; and a seed repeats itself."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from clew.actors import simulate
from clew.actors.testing import Simulated, Simulation
from clew.actors.testing.laws import broken_laws

CHUNKS, CHUNK = 30, 10
"""300 seeds in all."""


@pytest.mark.property
@pytest.mark.parametrize("first", range(0, CHUNKS * CHUNK, CHUNK))
def test_nothing_is_wrong_at_the_end_of_any_seed(first: int) -> None:
    ended = [Simulation(seed).run() for seed in range(first, first + CHUNK)]

    assert [f"{one.repeat}: {wrong}" for one in ended for wrong in one.wrong] == []


def test_a_seed_takes_the_same_way_in_every_process() -> None:
    command = [sys.executable, "-m", "clew.actors.simulate", "--seed", "3", "--json"]

    told = [
        json.loads(
            subprocess.run(command, check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": seed}).stdout
        )
        for seed in ("1", "2")
    ]

    assert told[0]["trace"] == told[1]["trace"]
    assert told[0]["failures"] == 0
    assert told[0]["crashes"] > 0


def test_a_seed_that_fails_is_told_with_the_line_that_repeats_it() -> None:
    ended = [Simulated(seed, wrong, 1, 2, 3, 4, 5, "trace") for seed, wrong in ((6, ()), (7, ("a cent is missing",)))]

    told = simulate.report(ended, 1.0)

    assert (told["failures"], told["seeds"], told["crashes"]) == (1, 2, 4)
    assert "python -m clew.actors.simulate --seed 7\n  a cent is missing" in simulate.text(told)


def test_what_was_acknowledged_and_is_not_recorded_is_found() -> None:
    simulation = Simulation(9)
    assert simulation.run().wrong == ()

    simulation.people.known["fill a lost"] = 5
    simulation.people.decided["t0", "r9/approval:c9"] = "approved"

    assert broken_laws(simulation.world, simulation.workers, simulation.people) == [
        "'fill a lost' was acknowledged, and nothing of it is recorded",
        "thread/t0: r9/approval:c9 was acknowledged as approved, and [] is recorded",
    ]


def test_a_request_that_no_provider_takes_is_found() -> None:
    simulation = Simulation(9)
    simulation.workers.refused.append("message 2: an empty text")

    assert simulation.run().wrong == ("a request that no provider takes: message 2: an empty text",)


def test_importing_the_tools_imports_no_pytest() -> None:
    program = "import sys, clew.actors.testing; sys.exit('pytest' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
