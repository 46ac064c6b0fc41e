"""Killed before or after any append of a run that waits for people: nothing is asked, decided or paid twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from clew.actors import ActorSystem, CommandRejected, Reply
from clew.actors.agent import DecidedApproval, Thread, replay
from clew.journal import MemoryJournal, RecordedEvent
from clew.journal.facts import ApprovalRequested, ApprovalResolved, ApprovalSettled, StepCompleted
from clew.projections import conversation
from tests.actors.payments import LOOK, Decide, Payments, awaiting, pay, rejecting, results_of, waiting
from tests.actors.robot import journal_with
from tests.actors.support import WAIT_S, until

T = "thread/t"

CALLS = (pay("c1", 1), LOOK, pay("c2", 2), pay("c3", 3))

OUTCOME = "paid 1 to bob; there is enough; paid 20 to eve; A person (ann) refused this call, and it was not made."


def decide_all(thread: Thread[str], *, calmly: bool = False) -> str:
    """Decide what is asked, in this order, as somebody would who does not remember what was decided already.

    `calmly`: each decision once nothing else goes on, so that the life is the same each time.
    """

    def edit(id_: str) -> Reply[DecidedApproval]:
        return thread.approve(id_, arguments={"amount": 20, "to": "eve"})

    decisions: list[tuple[str, Decide]] = [
        ("r/approval:c2", edit),
        ("r/approval:c3", rejecting(thread)),
        ("r/approval:c1", thread.approve),
    ]
    thread.run("pay", run_id="r").started(timeout_s=WAIT_S)
    for left, (id_, decide) in zip((3, 2, 1), decisions, strict=True):
        if calmly:
            waiting(thread, number=left)
        until(lambda id_=id_: any(asked.id == id_ for asked in thread.view().approvals))
        decide(id_).get(timeout=WAIT_S)
    return thread.attach("r").result(timeout_s=WAIT_S).output


def lived(payments: Payments) -> list[RecordedEvent]:
    """A whole life without a crash."""
    journal = MemoryJournal()
    with payments.open(journal) as system:
        assert decide_all(payments.thread(system), calmly=True).startswith(OUTCOME)
    return list(journal.read_all())


FULL = lived(Payments(*CALLS))
CUTS = [n for n in range(1, len(FULL) + 1) if n == len(FULL) or FULL[n].cause != FULL[n - 1].cause]


def facts(events: list[RecordedEvent], *kinds: type) -> Counter[str]:
    """How often each of these facts is recorded about each step."""
    decoded = [conversation.catalog.decode(event) for event in events]
    of_run: list[Any] = [fact for fact in decoded if isinstance(fact, kinds) and getattr(fact, "run", "") == "r"]
    return Counter(f"{type(fact).__name__} {fact.step}" for fact in of_run)


@pytest.mark.crash
@pytest.mark.requirement("L-HITL-8", "G-HITL-5", "G-LEDGER-9")
@pytest.mark.scenario("MSG-01")
@pytest.mark.parametrize("cut", CUTS)
def test_a_crash_around_any_append_asks_decides_and_pays_once(cut: int) -> None:
    payments, journal = Payments(*CALLS), journal_with(FULL[:cut])
    with payments.open(journal) as system:
        thread = payments.thread(system)
        output = decide_all(thread)
        after = thread.run("and now?").result(timeout_s=WAIT_S).output
        events, replayed = list(journal.read(T)), replay(thread, payments.agent)

    assert output.startswith(OUTCOME)
    assert after == "you said and now?"
    for kinds in ((ApprovalRequested, ApprovalResolved, ApprovalSettled), (StepCompleted,)):
        assert facts(events, *kinds) == facts(FULL, *kinds)
    recorded = facts(FULL[:cut], StepCompleted)
    made = {("thread/t/r/tool:pay:c1", 1), ("thread/t/r/tool:pay:c2", 20)}
    assert sorted(payments.paid) == sorted(
        (key, amount) for key, amount in made if not recorded[f"StepCompleted {key.partition('/r/')[2]}"]
    )
    assert replayed.digests_equal


@pytest.mark.crash
@pytest.mark.scenario("HIT-12")
@pytest.mark.requirement("L-CONC-6")
def test_a_cancel_while_people_are_asked_closes_the_question_and_leaves_the_thread_ready() -> None:
    payments, journal = Payments(*CALLS), MemoryJournal()
    with payments.open(journal) as system:
        one, *_ = awaiting(payments, system, number=3)
        thread = payments.thread(system)
        asked = list(journal.read_all())
        thread.approve(one.id).get(timeout=WAIT_S)
        waiting(thread, number=2)
        outcome = thread.cancel(reason="never mind").get(timeout=WAIT_S)
        with pytest.raises(CommandRejected, match="cancelled"):
            thread.approve("r/approval:c2").get(timeout=WAIT_S)
        events = list(journal.read_all())
    assert (outcome.status, outcome.cancelled) == ("cancelled", True)
    assert payments.amounts == [1]

    for recorded, status in ((asked, "awaiting_input"), (events, "cancelled")):
        again = Payments(*CALLS)
        with again.open(journal_with(recorded)) as system:
            thread = again.thread(system)
            assert thread.status("r") == status
            thread.cancel("r").get(timeout=WAIT_S)
            answer = thread.run("hi").result(timeout_s=WAIT_S)
            assert thread.approvals() == []
            outcomes = [asked.outcome for asked in thread.view().approvals]
            assert thread.view().status == "done"

        # That what is sent is valid for a provider, the model checks itself.
        assert answer.output == "you said hi"
        assert results_of(again.script.requests[-1]) == {
            "c1": "paid 1 to bob" if status == "cancelled" else "not run: cancelled",
            "f": "there is enough",
            "c2": "not run: cancelled",
            "c3": "not run: cancelled",
        }
        assert again.paid == []
        assert sorted(filter(None, outcomes))[-2:] == ["cancelled", "cancelled"]


@pytest.mark.crash
@pytest.mark.requirement("G-LEDGER-13")
@pytest.mark.parametrize("settling", ["result", "retry", "error"])
def test_an_approved_call_that_may_run_once_is_in_doubt_after_a_crash_in_it_until_somebody_settles_it(
    settling: str,
) -> None:
    dying, journal = Payments(tool={"at_most_once": True}), MemoryJournal()
    with dying.open(journal) as system:
        [asked] = awaiting(dying, system)
        dying.thread(system).approve(asked.id).get(timeout=WAIT_S)
        dying.thread(system).attach("r").result(timeout_s=WAIT_S)
    events = list(journal.read_all())
    begun = next(n for n, event in enumerate(events) if event.type.name == "step.started") + 1
    payments = Payments(tool={"at_most_once": True}, max_turns=5)

    with payments.open(journal_with(events[:begun])) as system:
        thread = payments.thread(system)
        until(lambda: thread.view().runs[0].in_doubt and thread.status("r") == "awaiting_input")
        with pytest.raises(CommandRejected, match="not in doubt"):
            thread.settle("r", "tool:look:f", retry=True).get(timeout=WAIT_S)
        answer = settle(system, thread, settling)
        [view] = thread.view().approvals

    outcomes: dict[str, tuple[str, list[int]]] = {
        "result": ("paid 5 to bob, says the bank", []),
        "retry": ("paid 5 to bob", [5]),
        "error": ("RunFailed: StepFailed: tool:pay:c1: the bank knows nothing of it", []),
    }
    assert (answer, payments.amounts) == outcomes[settling]
    assert (view.decision, view.outcome) == ("approved", "approved")


def settle(system: ActorSystem, thread: Thread[str], how: str) -> str:
    """Settle the payment, and return what became of the run."""
    step = "tool:pay:c1"
    match how:
        case "result":
            reply = thread.settle("r", step, result="paid 5 to bob, says the bank")
        case "retry":
            reply = thread.settle("r", step, retry=True)
        case _:
            reply = thread.settle("r", step, error="the bank knows nothing of it", by="the bank")
    reply.get(timeout=WAIT_S)
    try:
        return thread.attach("r").result(timeout_s=WAIT_S).output
    except Exception as error:  # noqa: BLE001  (it is looked at)
        return f"{type(error).__name__}: {str(error).partition('failed: ')[2]}"


@pytest.mark.parametrize("given", [{}, {"retry": False}, {"result": 1, "error": "x"}, {"retry": True, "result": None}])
def test_a_step_is_settled_in_exactly_one_way(given: dict[str, Any]) -> None:
    payments = Payments()
    with payments.open("memory:") as system, pytest.raises(TypeError, match="one of result, retry=True and error"):
        payments.thread(system).settle("r", "tool:pay:c1", **given)
