"""A run whose process dies again and again in the same place is left alone, until somebody has it go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clew.actors import ActorSystem, RunHalted
from clew.actors.agent import AgentDefinition, Run, define_agent, tool_step
from clew.actors.testing import Script, World, crash_points, final_turn, following_model, scripted_model, tool_call_turn
from clew.actors.testing.world import Scenario
from clew.journal import CellWrite, Journal, MemoryJournal, open_mark
from clew.journal.facts import RunFinished, RunParked, RunRecovered
from clew.journal.opening import open_journal
from tests.actors.support import WAIT_S, until
from tests.actors.ticking import facts

T = "thread/t"


def fragile(world: World, deaths: int, *, steps: int = 1, **options: Any) -> AgentDefinition[Any, str]:
    """An agent that kills its process so many times in each step of the thread `t`."""

    async def work() -> str:
        step = tool_step()
        world.effect(step.idempotency_key)
        if step.thread == "t" and world.effects[step.idempotency_key] <= deaths:
            world.kill()
        return "worked"

    model = following_model([*(tool_call_turn(f"c{n}", "work", {}) for n in range(steps)), final_turn("done")])
    return define_agent("fragile", model=model, tools=[work], **options)


def working(agent: AgentDefinition[Any, str], end: type) -> Scenario[None]:
    """A program that asks for the run `r`, and waits for an event that ends it."""

    async def life(world: World) -> None:
        async with world.open(agents=[agent]) as system:
            system.thread(agent, "t", owner="ann").run("go", run_id="r")
            await world.until(lambda: facts(world.journal, T, end))

    return life


@pytest.mark.crash
@pytest.mark.parametrize(("options", "most"), [({}, 5), ({"recoveries_max": 2}, 2)])
def test_a_run_that_ends_its_process_again_and_again_is_parked_with_the_reason(
    options: dict[str, Any], most: int
) -> None:
    world = World()
    agent = fragile(world, deaths=100, **options)

    world.run(working(agent, RunParked))

    [parked] = facts(world.journal, T, RunParked)
    assert (len(world.deaths), len(facts(world.journal, T, RunRecovered))) == (most + 1, most)
    assert parked.recoveries == most + 1
    assert parked.reason == f"its process ended {most + 1} times without a new step of it being recorded"


@pytest.mark.crash
def test_a_run_that_gets_on_between_crashes_is_not_parked() -> None:
    world = World()
    agent = fragile(world, deaths=3, steps=4)

    world.run(working(agent, RunFinished))

    assert (len(world.deaths), len(facts(world.journal, T, RunRecovered))) == (12, 12)
    assert facts(world.journal, T, RunParked) == []


@pytest.mark.crash
@pytest.mark.scenario("CON-09")
def test_a_parked_run_holds_up_nobody_else_and_goes_on_when_it_is_resumed() -> None:
    world = World()
    agent = fragile(world, deaths=6)
    world.run(working(agent, RunParked))

    async def later(world: World) -> tuple[str, str, str]:
        async with world.open(agents=[agent]) as system:
            other = await system.thread(agent, "other", owner="ann").run("go", run_id="x")
            thread = system.thread(agent, "t", owner="ann")
            status = thread.status("r")
            with pytest.raises(RunHalted, match="its process ended 6 times"):
                await thread.attach("r")
            await thread.resume("r")
            return other.output, status, (await thread.attach("r")).output

    assert world.run(later) == ("done", "parked", "done")
    assert len(world.deaths) == 6


class Slow:
    """An agent whose model takes its time, until it is let go."""

    def __init__(self) -> None:
        self.entered = 0

        async def work() -> str:
            self.entered += 1
            await asyncio.Event().wait()
            return "never"

        model = scripted_model(Script([tool_call_turn("c", "work", {})] * 50))
        self.agent: AgentDefinition[Any, str] = define_agent("slow", model=model, tools=[work], recoveries_max=1)


@pytest.fixture(params=["memory", "lmdb", "sqlite"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """What opens the same journal again and again."""
    if request.param == "memory":
        journal = MemoryJournal()
        return lambda: journal
    where = tmp_path / "data" if request.param == "lmdb" else f"sqlite:///{tmp_path / 'data.db'}"
    return lambda: open_journal(where)


def closed(journal: Journal) -> None:
    """Close a journal of this process, unless all is in its memory."""
    if not isinstance(journal, MemoryJournal):
        journal.close()


def test_only_what_a_crash_left_open_is_counted_and_only_once(kept: Any) -> None:
    slow, counted = Slow(), list[int]()
    for crash in (False, False, True, True):
        # The run that is open goes on as soon as the system opens.
        journal, entered = kept(), slow.entered
        with ActorSystem(journal, agents=[slow.agent]) as system:
            system.thread(slow.agent, "t").run("go", run_id="r").started(timeout_s=WAIT_S)
            until(lambda system=system, entered=entered: slow.entered > entered or is_parked(system))
            counted.append(len(facts(journal, T, RunRecovered)))
        if crash:
            # What a system that never came to its close leaves behind.
            journal.cells.write([CellWrite(b"system/open", b"1")]).wait()
        with ActorSystem(journal, agents=[slow.agent], recover=False):
            # Who looks around in between changes nothing.
            pass
        closed(journal)
    journal = kept()
    with ActorSystem(journal, agents=[slow.agent]) as system:
        until(lambda: is_parked(system))
        status = system.thread(slow.agent, "t").status("r")
    closed(journal)

    assert (counted, status) == ([0, 0, 0, 1], "parked")


def is_parked(system: ActorSystem) -> bool:
    """Whether the run was left alone."""
    return bool(facts(system.journal, T, RunParked))


@pytest.mark.scenario("CON-13")
def test_what_this_process_has_begun_is_never_recovered_by_it() -> None:
    world, bodies = World(), list[str]()

    async def work() -> str:
        bodies.append(tool_step().thread)
        await asyncio.sleep(1)
        return "worked"

    model = following_model([tool_call_turn("c", "work", {}), final_turn("done")])
    agent = define_agent("worker", model=model, tools=[work])

    async def life(world: World) -> None:
        async with world.open(agents=[agent]) as system:
            runs: list[Run[str]] = []
            for n in range(200):
                runs.append(system.thread(agent, f"t{n}").run("go", run_id="r"))
                if n % 20 == 0:
                    system.recover()
            for run in runs:
                await run
                system.recover()

    world.run(life)

    assert sorted(bodies) == sorted(f"t{n}" for n in range(200))
    assert [facts(world.journal, f"thread/t{n}", RunRecovered) for n in range(200)] == [[]] * 200


@pytest.mark.scenario("CON-13")
def test_a_run_begun_after_a_crash_in_a_thread_that_was_found_open_has_not_crashed() -> None:
    journal = MemoryJournal()
    agent = define_agent("talker", model=scripted_model([final_turn("one"), final_turn("two")]))
    with ActorSystem(journal, agents=[agent]) as system:
        system.thread(agent, "t").run("go", run_id="r").result(timeout_s=WAIT_S)
    # As when a process dies that has something to deliver, and no run.
    marks = [CellWrite(b"system/open", b"1"), CellWrite(open_mark(T), T.encode())]
    journal.cells.write(marks).wait()
    with ActorSystem(journal, agents=[agent]) as system:
        answer = system.thread(agent, "t").run("go on", run_id="r2").result(timeout_s=WAIT_S)

    assert answer.output == "two"
    assert facts(journal, T, RunRecovered) == []


@pytest.mark.crash
@pytest.mark.scenario("CON-09")
def test_two_jobs_one_after_the_other_end_wherever_the_process_dies() -> None:
    async def life(world: World) -> list[str]:
        async def work() -> str:
            world.effect(tool_step().idempotency_key)
            return "worked"

        model = following_model(
            [tool_call_turn("a", "work", {}), final_turn("one"), tool_call_turn("b", "work", {}), final_turn("two")]
        )
        agent = define_agent("worker", model=model, tools=[work], on_concurrent_run="queue")
        async with world.open(agents=[agent]) as system:
            thread = system.thread(agent, "t", owner="ann")
            jobs = [thread.run("go", run_id=name) for name in ("job1", "job2")]
            return [(await job).output for job in jobs]

    assert len(crash_points(life).points) > 40
