"""A call that needs approval is made once, exactly as it was approved, and not otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.actors import AlreadyDecided, InvalidArguments, InvalidDecision, UnknownApproval, UnknownThread
from clew.actors.agent import Approve, Reject, replay
from clew.actors.testing import invalid_for_provider
from clew.adapters.cli.approvals_system import RecordingSystem
from clew.journal import Journal, MemoryJournal, NotRepresentable
from tests.actors.payments import LOOK, Call, Payments, asleep, awaiting, pay, rejecting, results_of, waiting
from tests.actors.support import WAIT_S, events_of, until

T = "thread/t"

UNKNOWN: Call = ("u", "nothing_of_this_name", {})


@pytest.fixture(params=["memory", "lmdb"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Journal | str]:
    """What a system is opened over, each time again."""
    memory = MemoryJournal()
    return lambda: memory if request.param == "memory" else str(tmp_path / "data")


@pytest.mark.scenario("HIT-01")
def test_nothing_but_an_explicit_approval_lets_a_call_be_made() -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        [asked] = awaiting(payments, system)
        thread, before = payments.thread(system), events_of(system.journal, T)
        looks_like_one: list[Any] = [
            *(None, "", 0, 1, 1.0, "yes", "approved", "false", {}, [], True, False, object()),
            *(Approve, Reject, Reject(None), Approve("all"), type("Sub", (Approve,), {})()),  # type: ignore[arg-type]
        ]

        for value in looks_like_one:
            with pytest.raises(InvalidDecision, match="still waits"):
                thread.decide(asked.id, value)

        assert events_of(system.journal, T) == before
        assert [pending.id for pending in thread.approvals()] == [asked.id]
    assert payments.paid == []


@pytest.mark.requirement(
    "L-HITL-1", "L-HITL-3", "L-HITL-4", "L-HITL-5", "L-RUN-11", "G-HITL-2", "G-LEDGER-6", "G-LEDGER-9"
)
def test_an_approved_call_is_made_as_it_was_asked_for_and_until_then_nothing_of_the_run_is_in_memory() -> None:
    payments = Payments(pay("c1", 5), pay("c2", 900), needs_approval=lambda arguments: arguments["amount"] > 100)
    with payments.open("memory:", idle_s=0.01) as system:
        [asked] = awaiting(payments, system)
        thread = payments.thread(system)
        until(lambda: asleep(system))
        status, paid_before = thread.view().status, payments.amounts

        decided = thread.approve(asked.id).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        replayed = replay(thread, payments.agent)

    assert (asked.id, asked.tool, asked.arguments) == ("r/approval:c2", "pay", {"amount": 900, "to": "bob"})
    assert (asked.thread, asked.run, asked.path) == ("t", "r", ())
    assert asked.principal == "agent:cashier:t"
    assert asked.expires_at - asked.asked_at == 3 * 24 * 3600 * 10**9
    assert (status, paid_before) == ("awaiting_input", [5])
    assert (decided.decision, decided.by, decided.fingerprint) == ("approved", "ann", asked.fingerprint)
    assert answer.output == "paid 5 to bob; paid 900 to bob"
    assert payments.paid[-1] == ("thread/t/r/tool:pay:c2", 900)
    assert replayed.digests_equal


@pytest.mark.requirement("L-HITL-6", "L-RUN-6")
async def test_a_refused_call_is_not_made_and_the_model_is_told_by_whom_and_why() -> None:
    payments = Payments()
    async with payments.open("memory:") as system:
        [asked] = awaiting(payments, system)
        thread = payments.thread(system)
        decided = await thread.reject(asked.id, "too much")
        answer = await thread.attach("r")
        again = await thread.reject(asked.id, "far too much")

    assert (decided.decision, decided.by, decided.reason, decided.outcome) == (
        "rejected",
        "ann",
        "too much",
        "rejected",
    )
    assert payments.paid == []
    assert "refused" in answer.output
    assert "ann" in answer.output
    assert "too much" in answer.output
    assert "Do not repeat" in answer.output
    assert again == decided


@pytest.mark.scenario("HIT-04")
def test_a_decision_about_what_does_not_wait_is_refused_and_changes_nothing() -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        [asked], [foreign] = awaiting(payments, system), awaiting(payments, system, "other")
        thread, before = payments.thread(system), list(system.journal.read_all())
        wrong = ["nope", "", "/", asked.id.upper(), f"{asked.id} ", f"other/{foreign.id}", f"thread/other/{foreign.id}"]

        for id_ in wrong:
            for decide in (thread.approve, rejecting(thread)):
                with pytest.raises(UnknownApproval) as refused:
                    decide(id_)
                assert refused.value.approval == id_

        assert list(system.journal.read_all()) == before
        assert [pending.id for pending in thread.approvals()] == [asked.id]
    assert payments.paid == []


def test_an_approval_is_decided_by_its_name_among_all_threads_too() -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        [asked] = awaiting(payments, system, "order/1042")
        thread = payments.thread(system, "order/1042")
        thread.approve(f"thread/order%2F1042/{asked.id}").get(timeout=WAIT_S)

        assert thread.attach("r").result(timeout_s=WAIT_S).output == "paid 5 to bob"


@pytest.mark.scenario("HIT-05", "HIT-07")
@pytest.mark.requirement("L-HITL-8")
def test_decisions_in_any_order_and_over_restarts_reach_their_own_call(reopen: Callable[[], Any]) -> None:
    payments = Payments(pay("c1", 1), LOOK, pay("c2", 2), pay("c3", 2), UNKNOWN)
    with payments.open(reopen()) as system:
        one, two, three = awaiting(payments, system, number=3)
        payments.thread(system).approve(three.id).get(timeout=WAIT_S)
        waiting(payments.thread(system), number=2)
        paid_first = list(payments.paid)
    with payments.open(reopen()) as system:
        thread = payments.thread(system)
        left = [pending.id for pending in waiting(thread, number=2)]
        thread.reject(one.id, "no").get(timeout=WAIT_S)
        waiting(thread, number=1)
    with payments.open(reopen()) as system:
        thread = payments.thread(system)
        thread.approve(two.id).get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)
        replayed = replay(thread, payments.agent)

    assert len({one.id, two.id, three.id}) == 3
    assert left == [one.id, two.id]
    assert paid_first == [("thread/t/r/tool:pay:c3", 2)]
    assert sorted(payments.paid) == [("thread/t/r/tool:pay:c2", 2), ("thread/t/r/tool:pay:c3", 2)]
    assert payments.looked == ["thread/t/r/tool:look:f"]
    sent = payments.script.requests[-1]
    assert invalid_for_provider(sent) == []
    assert list(results_of(sent)) == ["c1", "f", "c2", "c3", "u"]
    assert replayed.digests_equal


@pytest.mark.scenario("HIT-16")
def test_two_runs_whose_models_use_the_same_ids_are_decided_apart() -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        [here], [there] = awaiting(payments, system, "a"), awaiting(payments, system, "b")
        payments.thread(system, "a").approve(here.id).get(timeout=WAIT_S)
        payments.thread(system, "a").attach("r").result(timeout_s=WAIT_S)
        still = payments.thread(system, "b").approvals()

    assert here.id == there.id
    assert [(asked.thread, asked.id) for asked in still] == [("b", there.id)]
    assert payments.paid == [("thread/a/r/tool:pay:c1", 5)]


@pytest.mark.scenario("HIT-09")
@pytest.mark.parametrize("deps", [None, {}, {"user": 1}])
def test_whether_a_call_is_approved_depends_on_the_journal_alone(deps: Any) -> None:
    asking, resuming, journal = Payments(), Payments(deps=deps, max_turns=7), MemoryJournal()
    with asking.open(journal) as system:
        [asked] = awaiting(asking, system)
    with RecordingSystem(journal, agents=[asking.agent], clock=asking.clock) as system:
        decided = asking.thread(system).approve(asked.id)
        decided.get(timeout=WAIT_S)
    with resuming.open(journal) as system:
        answer = resuming.thread(system).attach("r").result(timeout_s=WAIT_S)
        left = resuming.thread(system).approvals()

    assert answer.output == "paid 5 to bob"
    assert (asking.paid, resuming.amounts, left) == ([], [5], [])


@pytest.mark.requirement("G-HITL-8")
def test_a_decision_is_final_and_whoever_decides_again_is_told_the_first() -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        [asked] = awaiting(payments, system)
        thread = payments.thread(system)
        first = thread.approve(asked.id).get(timeout=WAIT_S)
        with pytest.raises(AlreadyDecided, match="approved by ann"):
            thread.reject(asked.id, "changed my mind").get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)
        again = thread.approve(asked.id).get(timeout=WAIT_S)
        with pytest.raises(AlreadyDecided) as refused:
            thread.approve(asked.id, arguments={"amount": 1, "to": "bob"}).get(timeout=WAIT_S)

    assert (first.decision, first.outcome) == ("approved", None)
    assert (again.decision, again.outcome) == ("approved", "approved")
    assert (refused.value.decision, refused.value.by) == ("approved", "ann")
    assert payments.amounts == [5]


@pytest.mark.requirement("G-HITL-5")
def test_a_call_is_made_with_the_arguments_that_were_approved_in_place_of_its_own() -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        [asked] = awaiting(payments, system)
        thread = payments.thread(system)
        edited = {"amount": 3, "to": "eve"}
        decided = thread.approve(asked.id, arguments=edited).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        again = thread.approve(asked.id, arguments=edited).get(timeout=WAIT_S)
        with pytest.raises(AlreadyDecided):
            thread.approve(asked.id).get(timeout=WAIT_S)
        replayed = replay(thread, payments.agent)

    assert answer.output == "paid 3 to eve"
    assert payments.paid == [("thread/t/r/tool:pay:c1", 3)]
    assert decided.fingerprint not in ("", asked.fingerprint)
    assert again.fingerprint == decided.fingerprint
    assert replayed.digests_equal


@pytest.mark.parametrize(
    ("arguments", "path"),
    [({"amount": "much", "to": "bob"}, "$.amount"), ({"amount": 3}, "$.to"), ({"amount": 3, "to": "b", "x": 1}, "$.x")],
)
def test_edited_arguments_that_the_tool_does_not_take_are_refused_by_field(arguments: Any, path: str) -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        [asked] = awaiting(payments, system)
        thread, before = payments.thread(system), events_of(system.journal, T)
        with pytest.raises(InvalidArguments, match="pay does not take these arguments") as refused:
            thread.approve(asked.id, arguments=arguments)
        with pytest.raises(NotRepresentable, match="amount"):
            thread.approve(asked.id, arguments={"amount": {1}, "to": "bob"})

        assert refused.value.path == path
        assert events_of(system.journal, T) == before
        thread.approve(asked.id).get(timeout=WAIT_S)
        assert thread.attach("r").result(timeout_s=WAIT_S).output == "paid 5 to bob"


def test_the_approvals_of_somebody_else_are_those_of_no_thread() -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        [asked] = awaiting(payments, system)
        intruder = payments.thread(system, owner="eve")
        for act in (
            intruder.approvals,
            intruder.queue,
            lambda: intruder.approve(asked.id),
            lambda: intruder.reject(asked.id, "no"),
            lambda: intruder.approve(asked.id, by="ann"),
            lambda: intruder.signal("go"),
        ):
            with pytest.raises(UnknownThread):
                act()

        assert [pending.id for pending in payments.thread(system).approvals()] == [asked.id]
