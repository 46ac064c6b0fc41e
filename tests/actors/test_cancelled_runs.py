"""Runs that are stopped, and tools that do not want to be."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ToolReturnPart

from clew.actors import RunCancelled, RunFailed
from clew.actors.agent import tool_options
from clew.actors.testing import agent_harness, final_turn, invalid_for_provider, tool_call_turn, tool_calls_turn
from clew.journal.facts import StepCompleted
from clew.projections import Follow, conversation


@pytest.mark.requirement("L-RUN-3", "L-RUN-4", "L-RUN-11")
def test_a_cancelled_run_leaves_a_conversation_a_provider_accepts() -> None:
    agent = Agent("test", name="waiter")
    entered: list[str] = []

    @agent.tool_plain
    async def wait_for_ever() -> str:
        entered.append("waiting")
        await asyncio.Event().wait()
        return "never"

    @agent.tool_plain
    async def quick() -> str:
        return "quick"

    script = [tool_calls_turn(("q", "quick", {}), ("w", "wait_for_ever", {})), final_turn("fine")]
    with agent_harness(agent, script) as harness:
        thread = harness.conversation()
        run = thread.run("Wait.", run_id="r1")
        run.started(timeout_s=10)
        _until_step(harness.journal, "tool:quick:q")
        running = thread.status("r1")
        thread.cancel("r1", reason="enough").get(timeout=10)
        with pytest.raises(RunCancelled, match="enough"):
            run.result(timeout_s=10)
        harness.run("Are you there?")
        statuses = [one.status for one in harness.thread().runs]

    assert (running, statuses) == ("running", ["cancelled", "done"])
    sent = harness.script.requests[-1]
    assert invalid_for_provider(sent) == []
    results = [part for part in sent[2].parts if isinstance(part, ToolReturnPart)]
    assert [(part.content if part.outcome == "success" else part.outcome) for part in results] == [
        "quick",
        "interrupted",
    ]


def _until_step(journal: Any, step: str) -> None:
    with Follow(journal, "thread/test") as events:
        for event in events:
            fact = conversation.catalog.decode(event)
            if isinstance(fact, StepCompleted) and fact.step == step:
                return


@pytest.mark.scenario("CON-06")
@pytest.mark.parametrize("sequential", [True, False])
def test_a_tool_that_swallows_its_cancellation_does_not_keep_the_run_alive(*, sequential: bool) -> None:
    agent = Agent("test", name="stubborn")
    entered, left = threading.Event(), threading.Event()

    @agent.tool_plain(sequential=sequential)
    async def stubborn() -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            left.set()
        return "swallowed"

    with agent_harness(
        agent, [tool_call_turn("c1", "stubborn", {}), final_turn("on"), final_turn("too far")]
    ) as harness:
        thread = harness.conversation()
        run = thread.run("Go", run_id="r1")
        entered.wait(10)
        thread.cancel("r1").get(timeout=10)
        with pytest.raises(RunCancelled):
            run.result(timeout_s=10)
        left.wait(10)
        after = harness.run("Are you there?")

    # Only the second run asked again: had the first one gone on, it would have taken the turn "on".
    assert harness.script.calls == 2
    assert after.output == "on"
    assert invalid_for_provider(harness.script.requests[-1]) == []


@pytest.mark.scenario("CON-04")
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize(
    "error", [asyncio.CancelledError, TimeoutError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError]
)
def test_whatever_a_tool_raises_leaves_an_outcome_and_a_usable_thread(
    error: type[BaseException], *, is_async: bool
) -> None:
    async def hostile_async() -> str:
        raise error("as it likes")

    def hostile_sync() -> str:
        raise error("as it likes")

    tool = hostile_async if is_async else hostile_sync
    agent = Agent("test", name="hostile", tools=[Tool(tool, name="hostile", metadata=tool_options(attempts=1))])
    with agent_harness(agent, [tool_call_turn("c1", "hostile", {}), final_turn("fine")]) as harness:
        with pytest.raises(RunFailed, match=error.__name__):
            harness.run("Go")
        harness.restart()
        after = harness.run("Are you there?")

    assert after.output == "fine"
    assert invalid_for_provider(harness.script.requests[-1]) == []
