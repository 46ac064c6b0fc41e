"""Whatever a thread can do besides answering, dying anywhere in it changes nothing in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic_ai import Tool

from clew.actors import RunCancelled, RunFailed, SignalTimedOut
from clew.actors.agent import AgentDefinition, Run, Thread, agent_as_tool, define_agent, tool_options, tool_step
from clew.actors.schedule import at, every
from clew.actors.testing import World, crash_points, final_turn, following_model, tool_call_turn, tool_calls_turn
from tests.actors.bureau import COUNTER, Count

HOUR_S = 3600.0
HOUR_NS = 3600 * 10**9

BEGIN_NS = 1_767_225_600_000_000_000
"""When a world begins."""

pytestmark = pytest.mark.crash


def agent_of(*tools: Any, turns: list[Any], name: str = "clerk", **options: Any) -> AgentDefinition[Any, str]:
    return define_agent(name, model=following_model(turns), tools=list(tools), **options)


async def ended(run: Run[str]) -> str:
    """How a run ended, in a word."""
    try:
        return (await run).output
    except RunCancelled:
        return "cancelled"
    except RunFailed as failed:
        return failed.reason


async def waits(world: World, thread: Thread[str], run: str = "r") -> None:
    """Wait until a run has begun, and waits for something or is over."""
    await world.until(lambda: world.journal.head(thread.stream).sequence and thread.status(run) != "running")


async def queueing(world: World) -> list[str]:
    """A second run waits its turn, a third is cancelled while it waits."""

    async def act() -> str:
        world.effect(tool_step().idempotency_key)
        return "acted"

    agent = agent_of(
        act,
        turns=[tool_call_turn("c1", "act"), final_turn("one"), tool_call_turn("c2", "act"), final_turn("two")],
        on_concurrent_run="queue",
    )
    async with world.open(agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        runs = [thread.run(f"prompt {number}", run_id=f"r{number}") for number in (1, 2)]
        return [await ended(run) for run in runs]


async def cancelling(world: World) -> list[str]:
    """A run that waits for a person is cancelled with its child, and the next one answers."""

    async def pay() -> str:
        world.effect("never")
        return "paid"

    child = agent_of(
        Tool(pay, metadata=tool_options(needs_approval=True)),
        turns=[tool_call_turn("p", "pay"), final_turn("child")],
        name="child",
    )
    agent = agent_of(
        agent_as_tool(child),
        turns=[tool_call_turn("c1", "ask_child", {"prompt": "pay"}), final_turn("after")],
    )
    async with world.open(agents=[agent, child]) as system:
        thread = system.thread(agent, "t", owner="ann")
        run = thread.run("go", run_id="r")
        await waits(world, thread)
        await world.until(lambda: thread.status("r") == "cancelled" or thread.approvals())
        await thread.cancel("r", reason="enough")
        first = await ended(run)
        second = await ended(thread.run("again", run_id="r2"))
        await world.until(lambda: not _open(world))
        return [first, second]


def _open(world: World) -> bool:
    return any(True for _ in world.journal.cells.scan(b"open/"))


async def delegating(world: World) -> str:
    """Two children at once, and the parent goes on with both answers."""
    child = agent_of(turns=[final_turn("an answer")], name="child")
    agent = agent_of(
        agent_as_tool(child),
        turns=[
            tool_calls_turn(("c1", "ask_child", {"prompt": "one"}), ("c2", "ask_child", {"prompt": "two"})),
            final_turn("both"),
        ],
    )
    async with world.open(agents=[agent, child]) as system:
        answer = await ended(system.thread(agent, "t", owner="ann").run("go", run_id="r"))
        await world.until(lambda: not _open(world))
        return answer


async def signalling(world: World) -> str:
    """A tool waits for two signals, one of which comes too late."""

    async def listen() -> list[Any]:
        first = await tool_step().wait_for_signal("go")
        try:
            await tool_step().wait_for_signal("never", timeout_s=HOUR_S)
        except SignalTimedOut as error:
            return [first, type(error).__name__]
        return [first]

    agent = agent_of(listen, turns=[tool_call_turn("c1", "listen"), _told])
    async with world.open(agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        run = thread.run("go", run_id="r")
        await waits(world, thread)
        await thread.signal("go", 1, id="s1")
        return await ended(run)


def _told(messages: list[Any], _: Any) -> Any:
    return final_turn(str(messages[-1].parts[0].content))


async def retrying(world: World) -> str:
    """A tool fails twice and waits an hour each time; the third attempt has its effect."""

    async def reach() -> str:
        if world.clock() < BEGIN_NS + 2 * HOUR_NS:
            raise ConnectionError("no answer")
        world.effect(tool_step().idempotency_key)
        return "reached"

    agent = agent_of(
        Tool(reach, metadata=tool_options(attempts=3, delay_s=HOUR_S, factor=1)),
        turns=[tool_call_turn("c1", "reach"), _told],
    )
    async with world.open(agents=[agent]) as system:
        return await ended(system.thread(agent, "t", owner="ann").run("go", run_id="r"))


async def expiring(world: World) -> str:
    """Nobody decides in time."""

    async def pay() -> str:
        world.effect("never")
        return "paid"

    tool = Tool(pay, metadata=tool_options(needs_approval=True, approval_timeout_s=HOUR_S))
    agent = agent_of(tool, turns=[tool_call_turn("c1", "pay"), final_turn("too late")])
    async with world.open(agents=[agent]) as system:
        return await ended(system.thread(agent, "t", owner="ann").run("go", run_id="r"))


async def timing_out(world: World) -> list[str]:
    """A run has an hour, and the one behind it goes on."""

    async def stuck() -> str:
        await asyncio.sleep(10 * HOUR_S)
        return "never"

    agent = agent_of(
        Tool(stuck, metadata=tool_options(attempts=1)),
        turns=[tool_call_turn("c1", "stuck"), final_turn("next")],
        run_timeout_s=HOUR_S,
        on_concurrent_run="queue",
    )
    async with world.open(agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        return [await ended(thread.run(f"go {number}", run_id=f"r{number}")) for number in (1, 2)]


async def writing(world: World) -> Any:
    """Two tools beside each other change the state, send, signal and schedule; each counts once."""

    async def act(x: int) -> str:
        step = tool_step()
        world.effect(step.idempotency_key)
        step.update_state(lambda state: sorted([*state, x]))
        step.send(COUNTER, "c", Count(x))
        step.signal("t", "go", x)
        if x == 1:
            step.schedule("later", at(BEGIN_NS + HOUR_NS), "again")
        return f"did {x}"

    agent = agent_of(
        act,
        turns=[
            tool_calls_turn(("c1", "act", {"x": 1}), ("c2", "act", {"x": 2})),
            final_turn("done"),
            final_turn("again"),
        ],
        initial_state=[],
    )
    async with world.open(agents=[agent], actors=[COUNTER]) as system:
        thread = system.thread(agent, "t", owner="ann")
        await thread.run("go", run_id="r")
        await world.until(lambda: len(thread.view().runs) == 2 and thread.view().status == "done")
        await world.until(lambda: not _open(world))
        return thread.state()


async def settling(world: World) -> list[str]:
    """A step that may run once dies in the middle at times, and somebody settles it."""

    async def stamp() -> str:
        world.effect(tool_step().idempotency_key)
        return "stamped"

    agent = agent_of(
        Tool(stamp, metadata=tool_options(at_most_once=True)),
        turns=[tool_call_turn("c1", "stamp"), _told],
    )
    async with world.open(agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        run = thread.run("go", run_id="r")
        await waits(world, thread)
        if thread.status("r") == "awaiting_input":
            done = world.effects["thread/t/r/tool:stamp:c1"] if world.effects else 0
            if done:
                await thread.settle("r", "tool:stamp:c1", result="stamped")
            else:
                await thread.settle("r", "tool:stamp:c1", retry=True)
        return [await ended(run), str(sum(world.effects.values()))]


async def scheduling(world: World) -> int:
    """A thread's schedule and an agent's tick, three times each."""
    agent = agent_of(turns=[final_turn("tick") for _ in range(9)])
    async with world.open(agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        await thread.schedules.set("poll", every(HOUR_S, start=BEGIN_NS + HOUR_NS), "poll")
        await system.schedules(agent).set("sweep", at(BEGIN_NS + 2 * HOUR_NS), "sweep", thread="swept", owner="ann")
        await world.until(lambda: sum(run.status == "done" for run in thread.view().runs) >= 2)
        await thread.schedules.cancel("poll")
        await world.until(lambda: world.journal.head("thread/swept").sequence and not _open(world))
        return len(thread.view().runs)


SCENARIOS: list[Callable[[World], Awaitable[object]]] = [
    queueing,
    cancelling,
    delegating,
    signalling,
    retrying,
    expiring,
    timing_out,
    writing,
    settling,
    scheduling,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_dying_anywhere_changes_nothing(scenario: Callable[[World], Awaitable[object]]) -> None:
    found = crash_points(scenario)

    assert len(found.points) > 8
