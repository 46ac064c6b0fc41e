"""Runs that meet other code than the one that recorded them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic_ai import Agent

from clew.actors import ActorSystem, RunConflict, RunHalted
from clew.actors.agent import AgentDefinition, replay
from tests.actors.robot import Robot, history_of, journal_with

FULL = history_of(Robot(), "one", "two")


class Changed(Robot):
    """The same agent after a deploy that changed what it says."""

    def __init__(self, change: Callable[[Agent[None, str]], None]) -> None:
        super().__init__()
        change(self.agent)


def _other_instructions(agent: Agent[None, str]) -> None:
    agent.instructions(lambda: "Multiply.")


def _another_tool(agent: Agent[None, str]) -> None:
    agent.tool_plain(lambda: "x", name="new_tool")  # pyright: ignore[reportCallIssue, reportArgumentType]


@pytest.mark.crash
@pytest.mark.scenario("RPL-04", "RPL-06")
@pytest.mark.parametrize(
    ("change", "field"), [(_other_instructions, "request.instructions"), (_another_tool, "request.tools")]
)
def test_a_run_whose_code_changed_is_halted_once_and_nothing_is_lost(
    change: Callable[[Agent[None, str]], None], field: str
) -> None:
    journal, changed = journal_with(FULL[:5]), Changed(change)

    with ActorSystem(journal, agents=[changed.agent]) as system:
        thread = system.thread(changed.agent, "t", owner="ann")
        with pytest.raises(RunHalted, match=field):
            thread.attach("one").result(timeout_s=10)
        halted = thread.status("one")
        with pytest.raises(RunConflict, match="halted"):
            thread.run("two").result(timeout_s=10)

    assert halted == "halted"
    assert changed.calls == {}
    assert [e.type.name for e in journal.read("thread/t", after=5)] == ["run.halted"]


@pytest.mark.crash
def test_a_halted_run_goes_on_with_the_code_that_recorded_it() -> None:
    journal, changed, same = journal_with(FULL[:5]), Changed(_another_tool), Robot()
    with ActorSystem(journal, agents=[changed.agent]) as system, pytest.raises(RunHalted):
        system.thread(changed.agent, "t", owner="ann").attach("one").result(timeout_s=10)

    with ActorSystem(journal, agents=[same.agent]) as system:
        thread = system.thread(same.agent, "t", owner="ann")
        thread.resume("one").get(timeout=10)
        answer = thread.attach("one").result(timeout_s=10)
        replayed = replay(thread, same.agent)

    assert answer.output == "the sums are [2, 4, 6]"
    assert replayed.digests_equal


@pytest.mark.crash
def test_a_run_of_an_agent_that_is_not_there_waits_for_it() -> None:
    journal, other, robot = journal_with(FULL[:5]), Agent("test", name="other"), Robot()

    with ActorSystem(journal, agents=[other]) as system:
        system.thread(other, "elsewhere").run("hi").result(timeout_s=10)
        reported = [failure for failure in system.failures if failure.stream == "thread/t"]
    with ActorSystem(journal, agents=[robot.agent]) as system:
        answer = system.thread(robot.agent, "t", owner="ann").attach("one").result(timeout_s=10)

    assert "robot" in str(reported[0].error)
    assert answer.output == "the sums are [2, 4, 6]"


def test_a_definition_may_be_replaced_between_runs() -> None:
    robot = Robot()
    journal = journal_with(FULL)
    other = AgentDefinition(agent=Agent("test", name="robot", instructions="Be brief."))

    with ActorSystem(journal, agents=[other]) as system:
        answer = system.thread(other, "t", owner="ann").run("three").result(timeout_s=10)

    assert answer.output
    assert robot.calls == {}
