"""What rests on a result that did not become durable is lost with it; found by the simulation."""

from __future__ import annotations

import msgspec
import pytest

from clew.actors import CommandRejected
from tests.actors.asks import suspend
from tests.actors.story import complete, decide, fail_step, given, start


def test_a_turn_that_rests_on_a_lost_result_is_not_recorded() -> None:
    turn = msgspec.structs.replace(complete("llm:turn:2"), needs=("tool:pay:c1",))

    for before in ([], [fail_step("tool:pay:c1")]):
        with pytest.raises(CommandRejected, match="tool:pay:c1, which did not become durable"):
            decide(given(start(), complete("llm:turn:1"), *before), turn)

    assert decide(given(start(), complete("llm:turn:1"), complete("tool:pay:c1")), turn) != ()


def test_a_run_does_not_wait_for_a_step_whose_result_came_while_its_driver_looked_elsewhere() -> None:
    """The result was on its way when the run was driven anew, and so the step seemed to be in doubt."""
    assert decide(given(start(), complete("tool:claim:c1")), suspend("tool:claim:c1")) == ()
