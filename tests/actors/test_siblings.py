"""Steps beside each other: a run waits only when each of them does, and each waits for its own place on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from clew.actors.agent.siblings import Siblings
from clew.actors.agent.steps import RunSteps
from clew.actors.thread import ThreadCommand, ThreadState
from tests.actors.story import complete


async def turns() -> None:
    """Let everything happen that can."""
    for _ in range(200):
        await asyncio.sleep(0)


async def test_a_run_does_not_wait_while_a_step_of_it_is_on_its_way() -> None:
    siblings = Siblings()
    waiting = asyncio.ensure_future(siblings.all_wait())
    parked = asyncio.ensure_future(siblings.park("approval:c1"))

    with siblings.under_way("tool:pay:c2"):
        await turns()
        on_its_way = waiting.done()

    assert not on_its_way
    assert await waiting == ("approval:c1",)
    parked.cancel()


async def test_steps_beside_each_other_both_wait_until_what_they_recorded_is_durable() -> None:
    commits: list[asyncio.Future[ThreadState]] = []

    def sink(command: ThreadCommand, command_id: str) -> Awaitable[ThreadState]:
        commits.append(asyncio.get_running_loop().create_future())
        return commits[-1]

    steps = RunSteps(
        stream="thread/t", run="r", agent="a", owner=None, started_at=1, recorded={}, sink=sink, now=lambda: 1
    )
    steps.recording.send(complete("tool:a:1", run="r"), "1")
    steps.recording.send(complete("tool:b:2", run="r"), "2")
    both = [asyncio.ensure_future(steps.recording.synced()) for _ in range(2)]
    await turns()
    commits[0].set_result(ThreadState())
    await turns()
    early = [one.done() for one in both]
    commits[1].set_result(ThreadState())
    await asyncio.gather(*both)

    assert early == [False, False]
