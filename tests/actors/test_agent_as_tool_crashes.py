"""Killed anywhere while a thread waits for others: each of them is asked once, works once and answers once."""

from __future__ import annotations

import pytest

from clew.actors.agent import agent_as_tool, define_agent, replay, tool_step
from clew.actors.testing import (
    World,
    crash_points,
    final_turn,
    following_model,
    tool_call_turn,
    tool_calls_turn,
)
from clew.journal import MemoryJournal, RecordedEvent
from clew.journal.facts import (
    ChildEnded,
    ChildStarted,
    MessageDelivered,
    RunCancelled,
    RunStarted,
    RunSuspended,
    StepCompleted,
)
from tests.actors.family import Family, P
from tests.actors.robot import journal_with
from tests.actors.support import WAIT_S
from tests.actors.ticking import facts, settled


@pytest.mark.crash
@pytest.mark.scenario("SUB-06")
@pytest.mark.requirement("L-TOOLS-3")
def test_a_crash_anywhere_in_either_thread_asks_and_answers_once() -> None:
    async def life(world: World) -> list[int]:
        async def work() -> str:
            world.effect(tool_step().idempotency_key)
            return "worked"

        clerk = define_agent(
            "clerk", model=following_model([tool_call_turn("w", "work", {}), final_turn("worked")]), tools=[work]
        )
        calls = tool_calls_turn(("c1", "ask_clerk", {"prompt": "a"}), ("c2", "ask_clerk", {"prompt": "b"}))
        boss = define_agent("boss", model=following_model([calls, final_turn("done")]), tools=[agent_as_tool(clerk)])
        async with world.open(agents=[boss, clerk]) as system:
            await system.thread(boss, "top", owner="ann").run("go", run_id="r")
            streams = [head.stream for head in world.journal.streams("thread")]
            return [len(facts(world.journal, stream, RunStarted)) for stream in streams]

    assert len(crash_points(life).points) > 60


@pytest.mark.crash
def test_a_crash_anywhere_in_a_cancel_leaves_no_child_behind() -> None:
    async def life(world: World) -> list[int]:
        async def wait() -> str:
            return str(await tool_step().wait_for_signal("go"))

        clerk = define_agent("clerk", model=following_model([tool_call_turn("w", "wait", {})]), tools=[wait])
        call = tool_call_turn("c1", "ask_clerk", {"prompt": "a"})
        boss = define_agent("boss", model=following_model([call]), tools=[agent_as_tool(clerk)])
        async with world.open(agents=[boss, clerk]) as system:
            thread = system.thread(boss, "top", owner="ann")
            thread.run("go", run_id="r")
            await world.until(lambda: facts(world.journal, P, ChildStarted))
            [child] = {fact.thread for fact in facts(world.journal, P, ChildStarted)}
            await world.until(lambda: facts(world.journal, child, RunSuspended))
            await thread.cancel("r")
            for stream, number in ((P, 2), (child, 1)):
                await world.until(
                    lambda at=stream, most=number: len(facts(world.journal, at, MessageDelivered)) == most
                )
            return [len(facts(world.journal, stream, RunCancelled)) for stream in (P, child)]

    assert len(crash_points(life).points) > 30


def lived() -> list[RecordedEvent]:
    """A whole life of the family, without a crash."""
    family, journal = Family("a", "b"), MemoryJournal()
    with family.open(journal) as system:
        family.top(system).run("go", run_id="r").result(timeout_s=WAIT_S)
        settled(system)
    return list(journal.read_all())


@pytest.mark.crash
@pytest.mark.requirement("L-TOOLS-3")
def test_what_a_crash_cut_off_goes_on_to_the_same_end_and_replays_in_both_threads() -> None:
    full = lived()
    for cut in range(1, len(full) + 1):
        if cut == len(full) or full[cut].cause != full[cut - 1].cause:
            goes_on(full[:cut])


def goes_on(events: list[RecordedEvent]) -> None:
    family, journal = Family("a", "b"), journal_with(events)
    with family.open(journal) as system:
        answer = family.top(system).run("go", run_id="r").result(timeout_s=WAIT_S)
        settled(system)
        threads = [(family.top(system), family.boss), *((child, family.clerk) for child in family.children(system))]
        equal = [replay(thread, agent).digests_equal for thread, agent in threads]

    assert (answer.output, answer.usage.requests) == ("done", 5)
    assert equal == [True] * 3
    assert len(facts(journal, P, ChildStarted)) == len(facts(journal, P, ChildEnded)) == 2
    steps = [fact.step for fact in facts(journal, P, StepCompleted)]
    assert len(steps) == len(set(steps))
