"""A call that waits in a thread which another one delegated to is one question, wherever it is looked at."""

from __future__ import annotations

from typing import Any

import pytest

from clew.actors import ActorSystem, AlreadyDecided, UnknownApproval
from clew.actors.agent import agent_as_tool, define_agent, replay
from clew.actors.testing import final_turn, scripted_model, tool_call_turn
from clew.journal import MemoryJournal
from tests.actors.payments import Payments
from tests.actors.support import WAIT_S, until


def boss_of(payments: Payments) -> Any:
    """An agent that has the cashier pay."""
    turns = [tool_call_turn("b1", "ask_cashier", {"prompt": "pay"}), final_turn("all paid")]
    return define_agent("boss", model=scripted_model(turns), tools=[agent_as_tool(payments.agent)])


@pytest.mark.scenario("SUB-07")
def test_a_question_of_a_child_is_one_with_a_path_and_decided_once_from_either_side() -> None:
    payments, journal = Payments(), MemoryJournal()
    boss = boss_of(payments)
    with ActorSystem(journal, agents=[payments.agent, boss], clock=payments.clock) as system:
        parent = system.thread(boss, "top", owner="ann")
        parent.run("go", run_id="r").started(timeout_s=WAIT_S)
        until(parent.approvals)
        [asked] = parent.approvals()
        child = system.thread(payments.agent, asked.thread, owner="ann")
        [own] = child.approvals()
        everywhere = system.approvals(by="ann").pending()
        with pytest.raises(UnknownApproval):
            parent.approve(own.id)
        decided = parent.approve(asked.id).get(timeout=WAIT_S)
        with pytest.raises(AlreadyDecided, match="approved by ann"):
            child.reject(own.id, "no").get(timeout=WAIT_S)
        answer = parent.attach("r").result(timeout_s=WAIT_S)
        again = parent.approve(asked.id).get(timeout=WAIT_S)
        left = parent.approvals()
        replayed = replay(parent, boss, payments.agent)

    assert asked.path == ("r/tool:ask_cashier:b1/child",)
    assert [seen.id for seen in everywhere] == [asked.id]
    assert (own.path, own.fingerprint) == ((), asked.fingerprint)
    assert asked.id.endswith(f"/{own.id}")
    assert (decided.decision, decided.thread) == ("approved", asked.thread)
    assert (again.decision, again.outcome) == ("approved", "approved")
    assert answer.output == "all paid"
    assert payments.amounts == [5]
    assert left == []
    assert replayed.digests_equal


def test_a_question_of_somebody_elses_child_is_not_decided_through_a_thread() -> None:
    payments, journal = Payments(), MemoryJournal()
    boss = boss_of(payments)
    with ActorSystem(journal, agents=[payments.agent, boss], clock=payments.clock) as system:
        parent = system.thread(boss, "top", owner="ann")
        parent.run("go", run_id="r").started(timeout_s=WAIT_S)
        until(parent.approvals)
        [asked] = parent.approvals()
        other = system.thread(payments.agent, "other", owner="bob")
        other.run("hello", run_id="r").result(timeout_s=WAIT_S)
        with pytest.raises(UnknownApproval):
            other.approve(asked.id)
        with pytest.raises(UnknownApproval):
            other.approve(asked.id, by="ann")
        parent.cancel("r").get(timeout=WAIT_S)
        until(lambda: not system.approvals(by="ann").pending())

        assert parent.approvals() == []
    assert payments.paid == []
