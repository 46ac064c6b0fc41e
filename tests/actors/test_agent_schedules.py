"""The schedules of an agent: an actor of its own, whose ticks start runs in threads, once each."""

from __future__ import annotations

from typing import Any

import pytest

from clew.actors import ActorSystem, UnknownKind, UnknownThread
from clew.actors.agenda import AGENDA
from clew.actors.agent import define_agent, tool_step
from clew.actors.schedule import daily, every
from clew.actors.testing import World, crash_points, final_turn, following_model, tool_call_turn
from clew.actors.testing.clock import START
from clew.actors.thread import AlarmFired, EndChild
from clew.journal import InvalidName, MemoryJournal, stream_name
from clew.journal.facts import (
    NOTHING,
    ChildEnded,
    MessageDelivered,
    MessageSent,
    RunCancelled,
    RunFinished,
    RunStarted,
    ScheduleFired,
    ScheduleSkipped,
)
from tests.actors.support import WAIT_S, until
from tests.actors.ticking import Ticker, alarms_by, facts, settled
from tests.actors.transfers import CHECKING, Deposit, deposits

A = "agenda/ticker"
SECOND = 10**9


def threads(journal: Any) -> list[str]:
    """The threads there are."""
    return sorted(head.stream for head in journal.streams("thread"))


def finished(journal: Any) -> list[Any]:
    """The ends of all runs."""
    return [fact for stream in threads(journal) for fact in facts(journal, stream, RunFinished)]


def stream_of(seconds: int, name: str = "tick") -> str:
    """The thread of a tick, so many seconds from the start."""
    return stream_name("thread", f"ticker:{name}@{START + seconds * SECOND}")


@pytest.mark.requirement("L-SCHED-1", "L-SCHED-3")
def test_each_tick_is_a_run_of_its_own_in_a_new_thread_of_its_owner() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    for _ in range(3):
        with ticker.open(journal) as system:
            system.schedules(ticker.agent).set("tick", every(30), "poll", owner="ann").get(timeout=WAIT_S)
    with ticker.open(journal) as system:
        for number in (1, 2):
            ticker.clock.advance(30)
            settled(system, lambda number=number: len(finished(journal)) == number)
        [listed] = system.schedules(ticker.agent).list()
        key = stream_of(30).partition("/")[2]
        answer = system.thread(ticker.agent, key, owner="ann").attach(key).result(timeout_s=WAIT_S)
        with pytest.raises(UnknownThread):
            system.thread(ticker.agent, key, owner="eve").view()

    assert threads(journal) == [stream_of(30), stream_of(60)]
    assert [fact.status for fact in facts(journal, A, ChildEnded)] == ["done", "done"]
    assert (answer.output, listed.next_due) == ("did poll", START + 90 * SECOND)


@pytest.mark.requirement("L-SCHED-3")
def test_ticks_share_a_conversation_only_where_a_thread_is_given() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        system.schedules(ticker.agent).set("tick", every(30), "poll", thread="t", owner="ann").get(timeout=WAIT_S)
        for number in (1, 2):
            ticker.clock.advance(30)
            settled(system, lambda number=number: len(finished(journal)) == number)

    assert threads(journal) == ["thread/t"]
    assert len({fact.run for fact in finished(journal)}) == 2
    assert len(ticker.script.requests[-1]) == 3


@pytest.mark.requirement("L-SCHED-4")
def test_a_one_off_run_happens_once_after_a_while_and_at_a_time() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        schedules = system.schedules(ticker.agent)
        for _ in range(3):
            schedules.run_after(60, "later", name="a").get(timeout=WAIT_S)
            schedules.run_at(START + 90 * SECOND, "then", name="b").get(timeout=WAIT_S)
    ticker.clock.advance(3600)
    with ticker.open(journal) as system:
        settled(system, lambda: len(finished(journal)) == 2)
        system.schedules(ticker.agent).run_at(START + 90 * SECOND, "then", name="b").get(timeout=WAIT_S)
        settled(system)
        left = system.schedules(ticker.agent).list()

    assert sorted(ticker.prompts) == ["later", "then"]
    assert list(left) == []


@pytest.mark.requirement("L-SCHED-3")
def test_two_agents_with_a_schedule_of_the_same_name_and_thread_have_a_run_each() -> None:
    one, two, journal = Ticker("one"), Ticker("two"), MemoryJournal()
    with ActorSystem(journal, agents=[one.agent, two.agent], clock=one.clock, idle_s=0.01) as system:
        for ticker in (one, two):
            system.schedules(ticker.agent).set("daily", daily(9), "alone").get(timeout=WAIT_S)
            system.schedules(ticker.agent).set("shared", daily(9), "together", thread="t").get(timeout=WAIT_S)
        one.clock.advance(86_400)
        settled(system, lambda: len(finished(journal)) == 4)

    for ticker in (one, two):
        assert sorted(ticker.prompts) == ["alone", "together"]


@pytest.mark.crash
@pytest.mark.requirement("L-SCHED-1", "L-SCHED-4")
def test_a_crash_anywhere_leaves_each_tick_one_run_and_one_message() -> None:
    async def noon(world: World) -> list[str]:
        async def ring() -> str:
            world.effect(tool_step().idempotency_key)
            return "rung"

        model = following_model([tool_call_turn("c1", "ring", {}), final_turn("rang")])
        agent = define_agent("ticker", model=model, tools=[ring])
        async with world.open(agents=[agent], actors=[CHECKING]) as system:
            schedules = system.schedules(agent)
            await schedules.run_at(START + 30 * SECOND, "ring", name="a", owner="ann")
            await schedules.send("pay", every(20, start=START), CHECKING, "bob", Deposit(5))
            await world.until(lambda: len(deposits(world.journal, "checking/bob")) == 2)
            await schedules.cancel("pay")
            await world.until(lambda: facts(world.journal, A, ChildEnded))
        assert [fact.status for fact in facts(world.journal, A, ChildEnded)] == ["done"]
        assert len(threads(world.journal)) == 1
        return [fact.run for fact in facts(world.journal, stream_of(30, "a"), RunStarted)]

    assert len(crash_points(noon).points) > 30


@pytest.mark.crash
def test_an_alarm_that_comes_again_fires_nothing_twice() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        system.schedules(ticker.agent).set("tick", every(30), "poll").get(timeout=WAIT_S)
        ticker.clock.advance(45)
        settled(system, lambda: finished(journal))
        for _ in range(5):
            system.ref(AGENDA, "ticker").ask(AlarmFired(ticker.clock.now)).get(timeout=WAIT_S)

    assert len(facts(journal, A, ScheduleFired)) == len(facts(journal, A, MessageSent)) == 1


@pytest.mark.parametrize("thread", [None, "t"], ids=["new threads", "one thread"])
@pytest.mark.parametrize(
    ("overlap", "skipped", "ended"),
    [
        ("skip", ["overlap", "overlap"], ["done"]),
        ("queue", [], ["done", "done", "done"]),
        ("replace", [], ["cancelled", "cancelled", "done"]),
    ],
)
def test_a_tick_while_the_run_of_the_last_one_goes_on_is_skipped_waits_or_replaces_it(
    overlap: Any, skipped: list[str], ended: list[str], thread: str | None
) -> None:
    ticker, journal = Ticker(), MemoryJournal()

    def waiting() -> list[str]:
        return [stream for stream in threads(journal) if list(journal.read(stream))[-1].type.name == "run.suspended"]

    with ticker.open(journal) as system:
        schedules = system.schedules(ticker.agent)
        schedules.set("tick", every(30), "hold", overlap=overlap, thread=thread).get(timeout=WAIT_S)
        for _ in range(3):
            ticker.clock.advance(30)
            settled(system, waiting)
        open_at_once = len(waiting())
        for number in range(1, ended.count("done") + 1):
            settled(system, waiting)
            schedules.pause("tick").get(timeout=WAIT_S)
            system.thread(ticker.agent, waiting()[0].partition("/")[2]).signal("go", number).get(timeout=WAIT_S)
            settled(system, lambda number=number: len(finished(journal)) == number)

    ends = [fact for stream in threads(journal) for fact in facts(journal, stream, RunFinished, RunCancelled)]
    assert open_at_once == 1
    assert [fact.reason for fact in facts(journal, A, ScheduleSkipped)] == skipped
    assert ["done" if isinstance(end, RunFinished) else "cancelled" for end in ends] == ended
    assert [fact for fact in facts(journal, A, MessageDelivered) if fact.refused] == []


def test_as_many_ticks_wait_as_may_and_those_of_a_cancelled_schedule_do_not_begin() -> None:
    ticker, journal = Ticker(queue_max=2), MemoryJournal()
    with ticker.open(journal) as system:
        schedules = system.schedules(ticker.agent)
        schedules.set("tick", every(30), "hold", overlap="queue").get(timeout=WAIT_S)
        for _ in range(5):
            ticker.clock.advance(30)
            settled(system)
        schedules.cancel("tick").get(timeout=WAIT_S)
        system.thread(ticker.agent, stream_of(30).partition("/")[2]).signal("go").get(timeout=WAIT_S)
        settled(system, lambda: finished(journal))

    assert [fact.reason for fact in facts(journal, A, ScheduleSkipped)] == ["busy", "busy"]
    assert len(facts(journal, A, ScheduleFired)) == 3
    assert threads(journal) == [stream_of(30)]


def test_missed_ticks_that_are_all_made_up_for_run_one_after_the_other() -> None:
    ticker, journal = Ticker(queue_max=1), MemoryJournal()
    with ticker.open(journal) as system:
        schedules = system.schedules(ticker.agent)
        schedules.set("tick", every(30), "poll", missed="all", missed_max=4).get(timeout=WAIT_S)
    ticker.clock.advance(3600)
    with ticker.open(journal) as system:
        settled(system, lambda: len(finished(journal)) == 4)

    dues = [str(START + seconds * SECOND) for seconds in (3510, 3540, 3570, 3600)]
    assert [fact.step for fact in facts(journal, A, ChildEnded)] == dues


def test_a_tick_that_is_refused_does_not_stop_the_later_ones_nor_those_of_others() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        system.thread(ticker.agent, "mine", owner="ann").run("hello").result(timeout_s=WAIT_S)
        schedules = system.schedules(ticker.agent)
        schedules.set("bad", every(30), "x", thread="mine", owner="eve").get(timeout=WAIT_S)
        schedules.set("good", every(30), "poll").get(timeout=WAIT_S)
        for number in (1, 2):
            ticker.clock.advance(30)
            settled(system, lambda number=number: len(finished(journal)) == 1 + number)

    ends = [(fact.run, fact.status) for fact in facts(journal, A, ChildEnded)]
    assert sorted(ends) == [("bad", "refused")] * 2 + [("good", "done")] * 2
    assert facts(journal, A, ScheduleSkipped) == []


def test_an_agent_that_is_not_there_has_no_ticks_and_makes_up_for_them_when_it_is_back() -> None:
    ticker, other, journal = Ticker(), Ticker("other"), MemoryJournal()
    with ticker.open(journal) as system:
        system.schedules(ticker.agent).set("tick", every(30), "poll", overlap="queue").get(timeout=WAIT_S)
    with ActorSystem(journal, agents=[other.agent], clock=ticker.clock, idle_s=0.01) as system:
        system.schedules(other.agent).set("tick", every(30), "look", overlap="queue").get(timeout=WAIT_S)
        for number in (1, 2, 3):
            ticker.clock.advance(30)
            until(lambda number=number: len(finished(journal)) == number)
        until(lambda: system.failures)
        [failure] = {(failure.stream, type(failure.error)) for failure in system.failures}
        with pytest.raises(UnknownKind):
            system.schedules(ticker.agent)
    meanwhile = facts(journal, A, ScheduleFired)
    with ActorSystem(journal, agents=[other.agent, ticker.agent], clock=ticker.clock, idle_s=0.01) as system:
        settled(system, lambda: len(finished(journal)) == 4)

    assert (failure, meanwhile) == ((A, UnknownKind), [])
    assert (ticker.prompts, other.prompts) == (["poll"], ["look"] * 3)


def test_more_than_a_thousand_ticks_that_are_due_at_once_fire_in_one_wake() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal, actors=[CHECKING]) as system:
        schedules, spec = system.schedules(ticker.agent), every(1, start=START)
        rules: dict[str, Any] = {"missed": "all", "missed_max": 11}
        for reply in [schedules.send(f"n{n}", spec, CHECKING, f"c{n}", Deposit(n), **rules) for n in range(100)]:
            reply.get(timeout=WAIT_S)
        ticker.clock.advance(60)
        until(lambda: not alarms_by(journal, ticker.clock.now))
        fired = [event for event in journal.read(A) if event.type.name == "schedule.fired"]
        settled(system)

    assert len(fired) == 1100
    assert len({event.cause for event in fired}) == 1
    assert deposits(journal, "checking/c7") == [7] * 11


def test_what_could_be_no_tick_is_refused_where_it_is_set() -> None:
    ticker = Ticker()
    with ticker.open("memory:") as system:
        schedules = system.schedules(ticker.agent)
        with pytest.raises(InvalidName):
            schedules.set("tick", every(30), "poll", thread="a\nb")
        with pytest.raises(ValueError, match="owns nothing"):
            schedules.set("tick", every(30), "poll", owner=" ")


def test_an_end_of_a_run_that_no_tick_started_changes_nothing() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        system.schedules(ticker.agent).set("tick", every(30), "hold").get(timeout=WAIT_S)
        ticker.clock.advance(30)
        settled(system, lambda: len(facts(journal, stream_of(30))) > 4)
        before = journal.head(A).sequence
        for name, due in (("tick", "1"), ("tick", "x"), ("other", str(START + 30 * SECOND))):
            ended = EndChild(name, due, "done", NOTHING, None, NOTHING, 0)
            system.ref(AGENDA, "ticker").ask(ended).get(timeout=WAIT_S)

    assert journal.head(A).sequence == before
