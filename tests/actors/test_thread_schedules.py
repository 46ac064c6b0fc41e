"""The schedules of a thread: each tick is a run in it, once, whatever dies and however late it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from clew.actors.agent import AgentDefinition, define_agent, tool_step
from clew.actors.schedule import cron, every
from clew.actors.testing import World, crash_points, final_turn, following_model, tool_call_turn
from clew.actors.testing.clock import START
from clew.actors.thread import AlarmFired
from clew.journal import Commit, JournalFull, MemoryJournal, NewEvent
from clew.journal.facts import (
    RunFinished,
    RunStarted,
    ScheduleFired,
    ScheduleSet,
)
from clew.journal.history import refile
from tests.actors.support import WAIT_S, until
from tests.actors.ticking import Ticker, alarms_by, at, facts, settled

T = "thread/t"
SECOND = 10**9
HOUR = 3600 * SECOND


@pytest.mark.scenario("SCH-01")
@pytest.mark.requirement("L-SCHED-3", "G-STATE-3")
def test_a_schedule_that_is_declared_at_every_start_fires_once_a_period() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    start = ticker.clock.now
    for _ in range(20):
        with ticker.open(journal) as system:
            system.thread(ticker.agent, "t", owner="ann").schedules.set("tick", every(30), "poll").get(timeout=WAIT_S)
    with ticker.open(journal) as system:
        thread = system.thread(ticker.agent, "t", owner="ann")
        for done in (1, 2):
            ticker.clock.advance(30)
            settled(system, lambda done=done: len(facts(journal, T, RunFinished)) == done)
        [listed] = thread.schedules.list()
        answer = thread.attach(f"tick@{start + 30 * 10**9}").result(timeout_s=WAIT_S)

    assert ticker.prompts == ["poll", "poll"]
    assert len(facts(journal, T, ScheduleSet)) == 1
    assert listed.next_due == start + 90 * 10**9
    assert answer.output == "did poll"


def test_a_changed_spec_takes_the_place_of_the_one_of_its_name() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        thread = system.thread(ticker.agent, "t", owner="ann")
        thread.schedules.set("tick", every(30), "poll").get(timeout=WAIT_S)
        thread.schedules.set("tick", every(50), "look").get(timeout=WAIT_S)
        ticker.clock.advance(49)
        settled(system)
        before = list(ticker.prompts)
        ticker.clock.advance(1)
        settled(system, lambda: facts(journal, T, RunFinished))
        listed = thread.schedules.list()

    assert (before, ticker.prompts, len(listed)) == ([], ["look"], 1)


@pytest.mark.crash
@pytest.mark.scenario("SCH-03")
def test_one_shots_that_pile_up_over_crashes_in_the_start_are_one() -> None:
    world, lives = World(), count(1)

    async def start(world: World) -> int:
        agent = bell(world)
        async with world.open(agents=[agent]) as system:
            thread = system.thread(agent, "t", owner="ann")
            await thread.schedules.run_after(60, "m", name="m")
            await asyncio.sleep(0.1)
            if next(lives) <= 200:
                world.kill()
            await world.until(lambda: facts(world.journal, T, RunFinished))
            return len(thread.schedules.list())

    left = world.run(start)

    assert (len(world.deaths), left, len(world.effects)) == (200, 0, 1)
    assert len(facts(world.journal, T, ScheduleSet)) == 1


@pytest.mark.scenario("SCH-03")
def test_a_tick_fires_and_moves_on_in_the_append_that_starts_its_run() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        system.thread(ticker.agent, "t").schedules.set("tick", every(30), "poll").get(timeout=WAIT_S)
        ticker.clock.advance(30)
        settled(system, lambda: facts(journal, T, RunFinished))
        fired = next(event for event in journal.read(T) if event.type.name == "schedule.fired")
        together = [event.type.name for event in journal.read(T) if event.cause == fired.cause]

    assert together == ["schedule.fired", "run.started"]


def test_an_alarm_that_comes_again_fires_nothing_twice() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        thread = system.thread(ticker.agent, "t")
        thread.schedules.set("tick", every(30), "poll").get(timeout=WAIT_S)
        ticker.clock.advance(45)
        settled(system, lambda: facts(journal, T, RunFinished))
        before = journal.head(T).sequence
        ref = system.ref(system.kind_of(T), "t")
        for _ in range(5):
            ref.ask(AlarmFired(ticker.clock.now)).get(timeout=WAIT_S)

    assert journal.head(T).sequence == before


@pytest.mark.crash
@pytest.mark.scenario("SCH-03", "SCH-14")
@pytest.mark.requirement("L-SCHED-4")
def test_a_crash_anywhere_leaves_each_tick_one_run() -> None:
    async def noon(world: World) -> list[str]:
        agent = bell(world)
        async with world.open(agents=[agent]) as system:
            thread = system.thread(agent, "t", owner="ann")
            for name in ("a", "b/c"):
                await thread.schedules.run_at(START + 30 * SECOND, "ring", name=name)
            await world.until(lambda: len(facts(world.journal, T, RunFinished)) == 2)
        return [fact.run for fact in facts(world.journal, T, RunStarted)]

    assert len(crash_points(noon).points) > 20


def bell(world: World) -> AgentDefinition[Any, str]:
    """An agent that rings once for each run."""

    async def ring() -> str:
        world.effect(tool_step().idempotency_key)
        return "rung"

    turns = [tool_call_turn("c1", "ring", {}), final_turn("rang"), tool_call_turn("c2", "ring", {}), final_turn("rang")]
    return define_agent("bell", model=following_model(turns), tools=[ring])


@pytest.mark.scenario("SCH-04")
def test_a_restart_does_not_make_up_for_a_tick_that_fired() -> None:
    ticker, journal = Ticker(start=at("2026-03-10T12:00:00")), MemoryJournal()
    with ticker.open(journal) as system:
        spec = cron("0 22 * * *", tz="America/Santiago")
        system.thread(ticker.agent, "t").schedules.set("digest", spec, "digest").get(timeout=WAIT_S)
        ticker.clock.jump_to(at("2026-03-10T22:00:00-03:00"))
        settled(system, lambda: facts(journal, T, RunFinished))
        ticker.clock.jump_to(at("2026-03-10T22:30:00-03:00"))
    with ticker.open(journal) as system:
        ticker.clock.jump_to(at("2026-03-10T23:59:00-03:00"))
        settled(system)

    assert ticker.prompts == ["digest"]


@pytest.mark.scenario("SCH-06")
@pytest.mark.parametrize("restart", [False, True], ids=["asleep", "restarted"])
@pytest.mark.parametrize(("missed", "number"), [("none", 0), ("coalesce", 1), ("all", 5)])
def test_ticks_that_were_missed_are_made_up_for_as_the_policy_says(missed: Any, number: int, restart: bool) -> None:
    ticker, journal = Ticker(), MemoryJournal()
    system = ticker.open(journal)
    thread = system.thread(ticker.agent, "t")
    thread.schedules.set("tick", every(10), "poll", missed=missed, missed_max=5).get(timeout=WAIT_S)
    if restart:
        system.close()
    ticker.clock.advance(78 * 60 + 6)
    if restart:
        system = ticker.open(journal)
    with system:
        thread = system.thread(ticker.agent, "t")
        settled(system, lambda: len(facts(journal, T, RunFinished)) == number)
        [listed] = thread.schedules.list()

    assert len(ticker.prompts) == number
    assert listed.next_due == ticker.clock.now + 4 * SECOND


def test_all_that_is_to_be_made_up_for_finds_room_in_the_queue() -> None:
    ticker, journal = Ticker(queue_max=2), MemoryJournal()
    with ticker.open(journal) as system:
        thread = system.thread(ticker.agent, "t")
        thread.schedules.set("tick", every(10), "poll", missed="all", missed_max=20).get(timeout=WAIT_S)
        ticker.clock.advance(300)
        settled(system, lambda: len(facts(journal, T, RunFinished)) == 20)

    assert len({fact.run for fact in facts(journal, T, RunFinished)}) == 20


@pytest.mark.scenario("SCH-12")
def test_a_deleted_thread_takes_its_alarm_along_and_a_late_one_writes_nothing() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        system.thread(ticker.agent, "t").schedules.set("tick", every(5), "poll").get(timeout=WAIT_S)
        settled(system)
        journal.delete(T, expected=journal.head(T).sequence).wait()
        ticker.clock.advance(6)
        until(lambda: not alarms_by(journal, START + HOUR))
        # And one that was on its way.
        journal.cells.write(refile(T, None, START + 9 * SECOND)).wait()
        system.expect_alarm(START + 9 * SECOND)
        ticker.clock.advance(60)
        until(lambda: not alarms_by(journal, START + HOUR))
        end = journal.head(T)

        assert list(system.failures) == []
    assert (end.deleted, end.sequence, ticker.prompts) == (True, 2, [])


class FullJournal(MemoryJournal):
    """A journal that has no room while it is `full`, and counts what it refused."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.refused = 0

    def append(self, stream: str, events: Sequence[NewEvent], **options: Any) -> Commit:
        """See `Journal.append`."""
        if self.full:
            self.refused += 1
            raise JournalFull(path="memory:", reason="it is full")
        return super().append(stream, events, **options)


@pytest.mark.scenario("SCH-13")
def test_due_work_that_failed_keeps_its_time_and_a_later_alarm_does_not_hide_it() -> None:
    ticker, journal = Ticker(), FullJournal()
    with ticker.open(journal) as system:
        schedules = system.thread(ticker.agent, "t").schedules
        schedules.set("tick", every(30), "poll").get(timeout=WAIT_S)
        journal.full = True
        ticker.clock.advance(30)
        until(lambda: journal.refused)
        journal.full = False
        schedules.run_after(3600, "later", name="later").get(timeout=WAIT_S)
        kept = alarms_by(journal, ticker.clock.now)
        until(lambda: ticker.clock.advance(1) or facts(journal, T, ScheduleFired))
        settled(system, lambda: facts(journal, T, RunFinished))
        listed = {view.name: view.next_due for view in schedules.list()}

    assert kept == [START + 30 * SECOND]
    assert facts(journal, T, ScheduleFired)[0].due == START + 30 * SECOND
    assert listed["later"] == START + 3630 * SECOND


@pytest.mark.scenario("SCH-14")
@pytest.mark.requirement("L-SCHED-4")
def test_what_was_due_while_the_process_was_down_fires_when_it_opens_again(tmp_path: Path) -> None:
    ticker = Ticker()
    with ticker.open(tmp_path / "data") as system:
        schedules = system.thread(ticker.agent, "t", owner="ann").schedules
        schedules.run_after(60, "done").get(timeout=WAIT_S)
    ticker.clock.advance(3600)
    with ticker.open(tmp_path / "data") as system:
        settled(system, lambda: facts(system.journal, T, RunFinished))

    assert ticker.prompts == ["done"]


@pytest.mark.scenario("SCH-16")
@pytest.mark.requirement("L-SCHED-2")
def test_the_end_of_summer_time_and_a_change_of_the_zone_double_nothing() -> None:
    ticker, journal = Ticker(start=at("2026-10-24T00:00:00")), MemoryJournal()
    clock, finished = ticker.clock, 0
    while clock.now < at("2026-10-28T00:00:00"):
        with ticker.open(journal) as system:
            thread = system.thread(ticker.agent, "t")
            thread.schedules.set("a", cron("0 6 * * *", tz="Europe/London"), "a").get(timeout=WAIT_S)
            clock.advance(7 * 3600)
            settled(system, lambda: not alarms_by(journal, clock.now))
        finished = len(facts(journal, T, RunFinished))
    with ticker.open(journal) as system:
        thread = system.thread(ticker.agent, "t")
        thread.schedules.set("a", cron("0 6 * * *", tz="Europe/Paris"), "a").get(timeout=WAIT_S)
        listed = thread.schedules.list()

    dues = [fact.due for fact in facts(journal, T, ScheduleFired)]
    summer, winter = [at("2026-10-24T05:00:00")], [at(f"2026-10-{day}T06:00:00") for day in (25, 26, 27)]
    assert dues[:4] == summer + winter
    assert finished == len(dues)
    assert len(listed) == 1
