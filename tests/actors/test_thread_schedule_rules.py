"""A thread's schedules: who may set them, what they set, and what a tick does while another run goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clew.actors import ActorSystem, CommandRejected, UnknownThread
from clew.actors.agent import define_agent, tool_step
from clew.actors.errors import InvalidSchedule, UnknownSchedule
from clew.actors.schedule import Cron, daily, every
from clew.actors.testing import final_turn, scripted_model, tool_call_turn
from clew.actors.testing.clock import START
from clew.journal import MemoryJournal
from clew.journal.facts import (
    RunCancelled,
    RunFinished,
    RunStarted,
    ScheduleCancelled,
    ScheduleFired,
    ScheduleSet,
    ScheduleSkipped,
    ThreadOpened,
)
from tests.actors.support import WAIT_S, events_of, until
from tests.actors.ticking import Ticker, alarms_by, facts, settled
from tests.actors.transfers import CHECKING, Balance, Deposit, deposits

T = "thread/t"
SECOND = 10**9
HOUR = 3600 * SECOND


@pytest.mark.parametrize(
    ("overlap", "prompts", "skipped", "ended"),
    [
        ("skip", ["hold", "hold"], ["overlap"], ["done"]),
        ("queue", ["hold", "hold", "hold"], [], ["done", "done"]),
        ("replace", ["hold", "hold"], [], ["cancelled", "done"]),
    ],
)
def test_a_tick_while_the_run_of_the_last_one_goes_on_is_skipped_waits_or_replaces_it(
    overlap: Any, prompts: list[str], skipped: list[str], ended: list[str]
) -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        thread = system.thread(ticker.agent, "t")
        thread.schedules.set("tick", every(30), "hold", overlap=overlap).get(timeout=WAIT_S)
        ticker.clock.advance(30)
        settled(system, lambda: events_of(journal, T)[-1] == "suspended")
        ticker.clock.advance(30)
        settled(system)
        thread.schedules.cancel("tick").get(timeout=WAIT_S)
        for done in range(1, ended.count("done") + 1):
            until(lambda: events_of(journal, T)[-1] in ("suspended", "cancelled"))
            thread.signal("go", done).get(timeout=WAIT_S)
            settled(system, lambda done=done: len(facts(journal, T, RunFinished)) == done)

    ends = facts(journal, T, RunFinished, RunCancelled)
    assert [fact.reason for fact in facts(journal, T, ScheduleSkipped)] == skipped
    assert ["done" if isinstance(end, RunFinished) else "cancelled" for end in ends] == ended


def test_a_tick_that_replaces_the_last_one_leaves_the_runs_of_others_alone() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        thread = system.thread(ticker.agent, "t")
        thread.run("hold", run_id="mine").started(timeout_s=WAIT_S)
        thread.schedules.set("tick", every(30), "poll", overlap="replace").get(timeout=WAIT_S)
        for number in (1, 2):
            ticker.clock.advance(30)
            settled(system, lambda number=number: len(facts(journal, T, ScheduleFired)) == number)
        [queued] = thread.queue()
        thread.signal("go").get(timeout=WAIT_S)
        answer = thread.attach("mine").result(timeout_s=WAIT_S)
        settled(system, lambda: len(facts(journal, T, RunFinished)) == 2)

    ticks = [f"tick@{START + seconds * SECOND}" for seconds in (30, 60)]
    assert (answer.output, queued.run) == ("did hold", ticks[1])
    assert [fact.run for fact in facts(journal, T, RunCancelled)] == [ticks[0]]
    assert [fact.run for fact in facts(journal, T, RunFinished)] == ["mine", ticks[1]]


def test_a_tick_for_which_there_is_no_room_is_skipped_with_the_reason_and_the_next_one_comes() -> None:
    ticker, journal = Ticker(queue_max=1), MemoryJournal()
    with ticker.open(journal) as system:
        thread = system.thread(ticker.agent, "t")
        thread.run("hold", run_id="mine").started(timeout_s=WAIT_S)
        thread.schedules.set("a", every(30), "a").get(timeout=WAIT_S)
        thread.schedules.set("b", every(30), "b").get(timeout=WAIT_S)
        ticker.clock.advance(30)
        settled(system, lambda: facts(journal, T, ScheduleSkipped))
        thread.signal("go").get(timeout=WAIT_S)
        settled(system, lambda: len(facts(journal, T, RunFinished)) == 2)
        ticker.clock.advance(30)
        settled(system, lambda: len(facts(journal, T, RunFinished)) == 4)

    assert [(fact.name, fact.reason) for fact in facts(journal, T, ScheduleSkipped)] == [("b", "busy")]
    assert ticker.prompts[-2:] == ["a", "b"]


def test_a_schedule_can_be_paused_resumed_and_cancelled() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        schedules = system.thread(ticker.agent, "t").schedules
        schedules.set("tick", every(30), "poll").get(timeout=WAIT_S)
        schedules.pause("tick").get(timeout=WAIT_S)
        ticker.clock.advance(100)
        settled(system)
        [paused] = schedules.list()
        schedules.resume("tick").get(timeout=WAIT_S)
        ticker.clock.advance(20)
        settled(system, lambda: facts(journal, T, RunFinished))
        [going] = schedules.list()
        schedules.cancel("tick", reason="enough").get(timeout=WAIT_S)
        ticker.clock.advance(1000)
        settled(system)
        with pytest.raises(UnknownSchedule):
            schedules.pause("tick").get(timeout=WAIT_S)

        assert (paused.paused, going.paused, list(schedules.list())) == (True, False, [])
    assert ticker.prompts == ["poll"]
    assert facts(journal, T, ScheduleCancelled)[0].reason == "enough"


def test_to_set_a_schedule_opens_a_new_thread_with_its_owner_its_title_and_its_first_state() -> None:
    ticker, journal = Ticker(initial_state={"n": 1}), MemoryJournal()
    with ticker.open(journal) as system:
        thread = system.thread(ticker.agent, "t", owner="ann", title="mine")
        with pytest.raises(UnknownThread):
            thread.schedules.pause("tick").get(timeout=WAIT_S)
        with pytest.raises(UnknownThread):
            thread.schedules.list()
        thread.schedules.set("tick", every(30), "poll").get(timeout=WAIT_S)
        before = thread.state()
        ticker.clock.advance(30)
        settled(system, lambda: facts(journal, T, RunFinished))
        thread.run("hello").result(timeout_s=WAIT_S)

        assert (before, thread.state()) == (None, {"n": 1})
    assert [(fact.owner, fact.title) for fact in facts(journal, T, ThreadOpened)] == [("ann", "mine")]


def test_the_schedules_of_a_thread_are_its_owners_alone() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        system.thread(ticker.agent, "t", owner="ann").schedules.set("tick", every(30), "poll").get(timeout=WAIT_S)
        before = events_of(journal, T)
        strange = system.thread(ticker.agent, "t", owner="eve").schedules
        asked: list[Callable[[], Any]] = [
            lambda: strange.set("tick", every(1), "x").get(timeout=WAIT_S),
            lambda: strange.pause("tick").get(timeout=WAIT_S),
            lambda: strange.resume("tick").get(timeout=WAIT_S),
            lambda: strange.cancel("tick").get(timeout=WAIT_S),
            strange.list,
        ]
        for ask in asked:
            with pytest.raises(UnknownThread):
                ask()

        assert events_of(journal, T) == before


def test_a_schedule_opens_no_thread_for_an_owner_without_a_name() -> None:
    ticker = Ticker()
    with ticker.open("memory:") as system:
        with pytest.raises(CommandRejected, match="owns nothing"):
            system.thread(ticker.agent, "t", owner=" ").schedules.set("tick", every(30), "x").get(timeout=WAIT_S)

        assert list(system.journal.streams()) == []


def test_a_schedule_of_which_nothing_can_come_holds_up_no_other_one() -> None:
    ticker, journal = Ticker(run_timeout_s=1e-12), MemoryJournal()
    with ticker.open(journal, actors=[CHECKING]) as system:
        schedules = system.thread(ticker.agent, "t").schedules
        schedules.set("a", every(30), "never").get(timeout=WAIT_S)
        schedules.send("b", every(30), CHECKING, "bob", Deposit(5)).get(timeout=WAIT_S)
        ticker.clock.advance(60)
        settled(system, lambda: deposits(journal, "checking/bob"))

    [skipped] = facts(journal, T, ScheduleSkipped)
    assert (skipped.name, skipped.reason, skipped.count) == ("a", "refused", 2)


def test_a_schedule_of_a_thread_takes_neither_another_thread_nor_an_owner() -> None:
    ticker = Ticker()
    with ticker.open("memory:") as system:
        schedules = system.thread(ticker.agent, "t", owner="ann").schedules
        with pytest.raises(TypeError, match="leave out thread and owner"):
            schedules.set("tick", every(30), "poll", thread="u", owner="bob")


@pytest.mark.parametrize("name", ["eu/daily", "x" * 128, "täglich / um neun"])
def test_any_name_of_a_schedule_makes_a_run_of_its_own(name: str) -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        schedules = system.thread(ticker.agent, "t").schedules
        for one in (name, name.replace("/", ":").replace("x" * 128, "x" * 127)):
            schedules.set(one, daily(9), "poll").get(timeout=WAIT_S)
        ticker.clock.advance(86_400)
        names = len(schedules.list())
        settled(system, lambda: len(facts(journal, T, RunFinished)) == names)

    assert len({fact.run for fact in facts(journal, T, RunStarted)}) == len(ticker.prompts) == 2


def test_a_schedule_sends_a_command_to_an_actor_of_the_users_own_once_a_tick() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal, actors=[CHECKING]) as system:
        thread = system.thread(ticker.agent, "t")
        thread.schedules.send("pay", every(30), CHECKING, "bob", Deposit(5)).get(timeout=WAIT_S)
        for number in (1, 2):
            ticker.clock.advance(30)
            settled(system, lambda number=number: len(deposits(journal, "checking/bob")) == number)
        with pytest.raises(TypeError, match="takes no Balance from others"):
            thread.schedules.send("look", every(30), CHECKING, "bob", Balance())

    assert deposits(journal, "checking/bob") == [5, 5]


def test_a_tool_sets_and_ends_schedules_together_with_its_result() -> None:
    ticker = Ticker()

    async def plan(every_s: float) -> str:
        step = tool_step()
        if every_s:
            step.schedule("tick", every(every_s), "poll")
        else:
            step.unschedule("tick")
        return "planned"

    def call(number: int, seconds: float) -> Any:
        return tool_call_turn(f"c{number}", "plan", {"every_s": seconds})

    turns = [call(1, 30), final_turn("set"), final_turn("polled"), call(2, 0), final_turn("ended")]
    agent = define_agent("planner", model=scripted_model(turns), tools=[plan], run_timeout_s=99)
    journal = MemoryJournal()
    with ActorSystem(journal, agents=[agent], clock=ticker.clock, idle_s=0.01) as system:
        thread = system.thread(agent, "t", owner="ann")
        thread.run("plan").result(timeout_s=WAIT_S)
        ticker.clock.advance(30)
        settled(system, lambda: len(facts(journal, T, RunFinished)) == 2)
        thread.run("end it").result(timeout_s=WAIT_S)
        left = thread.schedules.list()

    events = list(journal.read(T))
    [together] = [event.cause for event in events if event.type.name == "schedule.set"]
    steps = [event for event in events if event.type.name == "step.completed"]
    [completed] = [event.cause for event in steps if b'"step":"tool:plan:c1"' in event.canonical]
    assert together == completed
    assert list(left) == []
    assert b'"timeout":99000000000' in bytes(facts(journal, T, ScheduleSet)[0].action)


def test_a_tool_that_schedules_what_can_never_be_is_told_so_and_nothing_is_recorded() -> None:
    told: list[Exception] = []

    async def plan() -> str:
        for name, spec in (("", every(30)), ("x" * 200, every(30)), ("never", Cron("0 0 30 2 *"))):
            with pytest.raises(InvalidSchedule) as refused:
                tool_step().schedule(name, spec, "poll")
            told.append(refused.value)
        return "planned"

    model = scripted_model([tool_call_turn("c1", "plan", {}), final_turn("ok")])
    agent = define_agent("planner", model=model, tools=[plan])
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t")
        thread.run("plan").result(timeout_s=WAIT_S)

        assert (len(told), list(thread.schedules.list())) == (3, [])


def test_more_than_a_thousand_ticks_that_are_due_at_once_fire_in_one_wake() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal, actors=[CHECKING]) as system:
        thread = system.thread(ticker.agent, "t")
        time, spec = START + 60 * SECOND, every(1, start=START)
        sets = [
            thread.schedules.send(f"n{n}", spec, CHECKING, "bob", Deposit(n), missed="all", missed_max=12)
            for n in range(100)
        ]
        for reply in sets:
            reply.get(timeout=WAIT_S)
        ticker.clock.jump_to(time)
        until(lambda: not alarms_by(journal, time))
        fired = [event for event in journal.read(T) if event.type.name == "schedule.fired"]

    assert len(fired) == 1200
    assert len({event.cause for event in fired}) == 1
