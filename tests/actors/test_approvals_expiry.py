"""A question that nobody decides in time is refused by itself, whoever was awake then."""

from __future__ import annotations

import pytest

from clew.actors import AlreadyDecided
from clew.actors.agent import ApprovalSettlement, DecidedApproval, replay
from clew.journal import MemoryJournal
from tests.actors.payments import Payments, awaiting, pay, rejecting, waiting
from tests.actors.support import WAIT_S

DAY_S = 24 * 3600.0


@pytest.mark.scenario("HIT-15")
@pytest.mark.requirement("L-HITL-7", "G-HITL-7", "G-LEDGER-4")
@pytest.mark.parametrize("closed", [True, False], ids=["while closed", "while open"])
def test_a_call_that_nobody_decides_in_time_is_not_made(*, closed: bool) -> None:
    told: list[ApprovalSettlement] = []
    payments, journal = Payments(tool={"approval_timeout_s": 300.0}, on_settled=told.append), MemoryJournal()
    system = payments.open(journal)
    [asked] = awaiting(payments, system)
    if closed:
        system.close()
        payments.clock.advance(1000)
        system = payments.open(journal)
    else:
        payments.clock.advance(299)
        assert payments.thread(system).approvals() == [asked]
        payments.clock.advance(1)
    with system:
        thread = payments.thread(system)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        left = [*thread.approvals(), *system.approvals(by="ann").pending()]
        [settled] = thread.view().approvals
        for decide in (thread.approve, rejecting(thread)):
            with pytest.raises(AlreadyDecided, match="expired"):
                decide(asked.id).get(timeout=WAIT_S)
        replayed = replay(thread, payments.agent)

    assert "approval timed out" in answer.output
    assert (settled.decision, settled.outcome, settled.by) == ("expired", "expired", None)
    assert left == []
    assert payments.paid == []
    assert [settlement.outcome for settlement in told] == ["expired"]
    assert replayed.digests_equal


@pytest.mark.scenario("HIT-15")
def test_whoever_decides_when_the_time_is_over_is_told_so_though_the_alarm_is_late() -> None:
    payments, journal = Payments(tool={"approval_timeout_s": 300.0}), MemoryJournal()
    with payments.open(journal) as system:
        [asked] = awaiting(payments, system)
    payments.clock.advance(300)
    with payments.open(journal, recover=False) as system:
        thread = payments.thread(system)
        listed = thread.approvals()
        with pytest.raises(AlreadyDecided) as refused:
            thread.approve(asked.id).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)

    assert listed == []
    assert refused.value.decision == "expired"
    assert "approval timed out" in answer.output
    assert payments.paid == []


@pytest.mark.scenario("HIT-15")
def test_a_decision_that_races_with_the_expiry_has_one_winner_and_is_told_which() -> None:
    for _ in range(10):
        payments = Payments(tool={"approval_timeout_s": 300.0})
        with payments.open("memory:") as system:
            [asked] = awaiting(payments, system)
            thread = payments.thread(system)
            payments.clock.advance(299)
            deciding = thread.approve(asked.id)
            payments.clock.advance(1)
            try:
                told: DecidedApproval | AlreadyDecided = deciding.get(timeout=WAIT_S)
            except AlreadyDecided as error:
                told = error
            thread.attach("r").result(timeout_s=WAIT_S)
            [settled] = thread.view().approvals

        assert told.decision == settled.decision
        assert settled.outcome == settled.decision
        assert (payments.amounts == [5]) == (told.decision == "approved")


@pytest.mark.requirement("L-HITL-7")
def test_people_have_a_week_at_the_most_and_each_question_its_own_time() -> None:
    payments = Payments(pay("c1", 1), pay("c2", 2), tool={"approval_timeout_s": 30 * DAY_S})
    with payments.open("memory:") as system:
        one, _ = awaiting(payments, system, number=2)
        payments.clock.advance(6 * DAY_S)
        thread = payments.thread(system)
        thread.approve(one.id).get(timeout=WAIT_S)
        waiting(thread, number=1)
        payments.clock.advance(DAY_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)

    assert one.expires_at - one.asked_at == 7 * DAY_S * 1e9
    assert payments.amounts == [1]
    assert answer.output.startswith("paid 1 to bob; The call was not made: approval timed out")
