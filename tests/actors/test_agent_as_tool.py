"""An agent as a tool of another one: one run in a thread of its own for each call, whatever dies meanwhile."""

from __future__ import annotations

from hashlib import sha256

import pytest

from clew.actors import ActorSystem, UnknownThread
from clew.actors.agent import agent_as_tool, define_agent, replay
from clew.actors.testing import (
    scripted_model,
    tool_call_turn,
)
from clew.actors.thread import StartRun
from clew.journal import MemoryJournal
from clew.journal.facts import ChildEnded, MessageSent, RunCancelled, RunStarted
from tests.actors.family import Family, P
from tests.actors.support import WAIT_S
from tests.actors.ticking import facts, settled


@pytest.mark.scenario("SUB-06")
@pytest.mark.requirement("L-TOOLS-2", "L-TOOLS-3", "L-TOOLS-5")
def test_each_call_beside_others_is_a_run_of_its_own_and_a_repeated_delivery_reaches_the_same_one() -> None:
    family, journal = Family("a", "b", "a"), MemoryJournal()
    with family.open(journal) as system:
        answer = family.top(system).run("go", run_id="r").result(timeout_s=WAIT_S)
        settled(system)
        message = facts(journal, P, MessageSent)[0]
        before = [head.stream for head in journal.streams("thread")]
        kind = system.kind_of(message.to)
        start = kind.command(message.to, message.command, message.payload)
        assert isinstance(start, StartRun)
        system.ref(kind, message.to.partition("/")[2]).ask(start).get(timeout=WAIT_S)
        settled(system)
        replayed = replay(family.top(system), family.boss, family.clerk)
        of_children = [replay(child, family.clerk) for child in family.children(system)]

    assert family.told == {"c1": "A", "c2": "B", "c3": "A"}
    assert len(before) == 4
    assert [head.stream for head in journal.streams("thread")] == before
    assert family.clerk_script.calls == 3
    assert replayed.digests_equal
    assert [one.digests_equal for one in of_children] == [True] * 3
    # The boss took three turns, and the clerk one for each call.
    assert answer.usage.requests == 3 + 3


@pytest.mark.scenario("SUB-01")
@pytest.mark.requirement("L-TOOLS-2")
def test_a_child_goes_on_where_it_waited_after_days_and_nothing_before_it_runs_again() -> None:
    family, journal = Family("wait", timeout_s=7 * 86_400), MemoryJournal()
    with family.open(journal) as system:
        family.begun(system)
    family.clock.advance(3 * 86_400)
    with family.open(journal) as system:
        settled(system)
        asleep = (system.live, family.top(system).status("r"))
        [child] = family.children(system)
        child.signal("go", "at last").get(timeout=WAIT_S)
        output = family.top(system).attach("r").result(timeout_s=WAIT_S).output

    assert asleep == (0, "waiting")
    assert (output, family.told) == ("done", {"c1": "got at last"})
    assert (family.greeted, family.clerk_script.calls, family.boss_script.calls) == (1, 2, 3)


@pytest.mark.scenario("SUB-03")
def test_each_question_of_a_child_has_an_answer_of_its_own() -> None:
    family, journal = Family("ask"), MemoryJournal()
    with family.open(journal) as system:
        family.begun(system)
        [one] = family.top(system).approvals()
        family.top(system).approve(one.id).get(timeout=WAIT_S)
        settled(system, lambda: [asked.id for asked in family.top(system).approvals()] not in ([], [one.id]))
    with family.open(journal) as system:
        settled(system)
        [two] = family.top(system).approvals()
        [child] = family.children(system)
        status = child.status("run")
        family.top(system).reject(two.id, "no").get(timeout=WAIT_S)
        family.top(system).attach("r").result(timeout_s=WAIT_S)

    assert (one.arguments, two.arguments) == ({"question": "one?"}, {"question": "two?"})
    assert status == "awaiting_input"
    assert family.told == {"c1": "got True False"}


@pytest.mark.scenario("SUB-04")
def test_a_child_that_somebody_cancels_is_told_to_the_model_once_and_not_started_again() -> None:
    family, journal = Family("wait"), MemoryJournal()
    with family.open(journal) as system:
        [child] = family.begun(system)
        child.cancel(reason="not needed").get(timeout=WAIT_S)
        answer = family.top(system).attach("r").result(timeout_s=WAIT_S)
        settled(system)
        starts = facts(journal, child.stream, RunStarted)

    assert answer.stopped == "final"
    assert '"kind":"child_cancelled"' in told(family)
    assert "not needed" in told(family)
    assert (len(starts), family.boss_script.calls) == (1, 3)


def told(family: Family) -> str:
    """What came of the only call, without what JSON is free to do."""
    return family.told["c1"].replace("'", '"').replace(": ", ":")


def test_a_child_that_fails_is_told_to_the_model_once_and_not_started_again() -> None:
    family, journal = Family("fail"), MemoryJournal()
    with family.open(journal) as system:
        answer = family.top(system).run("go", run_id="r").result(timeout_s=WAIT_S)
        [child] = family.children(system)
        starts = facts(journal, child.stream, RunStarted)

    assert answer.stopped == "final"
    assert '"kind":"child_failed"' in told(family)
    assert "OSError" in told(family)
    assert len(starts) == 1


def test_a_child_that_is_refused_is_told_to_the_model_and_what_is_somebody_elses_stays_so() -> None:
    family, journal = Family("a"), MemoryJournal()
    key = sha256(b"thread/top/r/tool:ask_clerk:c1/child").hexdigest()[:24]
    with family.open(journal) as system:
        other = system.thread(family.clerk, f"child-{key}", owner="eve")
        other.run("mine").result(timeout_s=WAIT_S)
        family.top(system).run("go", run_id="r").result(timeout_s=WAIT_S)

        assert len(other.view().runs) == 1
    assert '"kind":"child_refused"' in told(family)


@pytest.mark.requirement("L-TOOLS-4")
def test_a_child_that_takes_too_long_is_cancelled_by_the_alarm_and_the_model_is_told() -> None:
    family, journal = Family("wait"), MemoryJournal()
    with family.open(journal) as system:
        family.begun(system)
        family.clock.advance(299)
        settled(system)
        before = family.top(system).status("r")
    family.clock.advance(1)
    with family.open(journal) as system:
        answer = family.top(system).attach("r").result(timeout_s=WAIT_S)
        settled(system)
        [child] = family.children(system)
        status = child.status("run")

    assert (before, answer.stopped, status) == ("waiting", "final", "cancelled")
    assert '"kind":"child_timed_out"' in told(family)
    assert [fact.status for fact in facts(journal, P, ChildEnded)] == ["timed_out"]


def test_who_cancels_a_run_cancels_its_children_and_theirs() -> None:
    family, journal = Family("wait", "wait"), MemoryJournal()
    ask = tool_call_turn("d1", "ask_boss", {"prompt": "go"})
    chief = define_agent("chief", model=scripted_model([ask]), tools=[agent_as_tool(family.boss)])
    agents = [chief, family.boss, family.clerk]
    with ActorSystem(journal, agents=agents, clock=family.clock, idle_s=0.01) as system:
        thread = system.thread(chief, "chief", owner="ann")
        thread.run("go", run_id="r").started(timeout_s=WAIT_S)
        settled(system, lambda: len(list(journal.streams("thread"))) == 4)
        thread.cancel(reason="enough").get(timeout=WAIT_S)
        settled(system)
        streams = [head.stream for head in journal.streams("thread")]

    assert [len(facts(journal, stream, RunCancelled)) for stream in streams] == [1, 1, 1, 1]
    assert family.clerk_script.calls == 2


def test_a_child_belongs_to_the_owner_of_its_parent_and_to_nobody_else() -> None:
    family, journal = Family("a"), MemoryJournal()
    with family.open(journal) as system:
        family.top(system).run("go", run_id="r").result(timeout_s=WAIT_S)
        [child] = family.children(system)
        messages = child.messages()
        for thread in (family.top(system, "eve"), system.thread(family.clerk, child.key, owner="eve")):
            with pytest.raises(UnknownThread):
                thread.messages()

    assert len(messages) == 2


def test_the_thread_of_a_child_begins_with_the_state_of_its_agent() -> None:
    family, journal = Family("a", initial_state={"n": 1}), MemoryJournal()
    with family.open(journal) as system:
        family.top(system).run("go", run_id="r").result(timeout_s=WAIT_S)
        [child] = family.children(system)

        assert child.state() == {"n": 1}


def test_a_tool_that_asks_an_agent_which_is_not_there_is_refused_at_construction() -> None:
    family = Family("a")

    with pytest.raises(ValueError, match="agent 'boss' has agent 'clerk' as a tool, which is not here"):
        ActorSystem("memory:", agents=[family.boss])
    with pytest.raises(ValueError, match="timeout_s is more than 0"):
        agent_as_tool(family.clerk, timeout_s=0)
