"""A grant is for one call by one principal: it is no other's to spend, and no other call's."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import AfterValidator
from pydantic_ai import Tool

from clew.actors import ActorSystem, UnknownApproval
from clew.actors.agent import AgentDefinition, Decision, PendingApproval, define_agent, replay, tool_options, tool_step
from clew.actors.testing import final_turn, following_model, tool_call_turn
from clew.journal import Journal, MemoryJournal, NewEvent
from tests.actors.payments import Payments, awaiting, pay, waiting
from tests.actors.sealed import ended
from tests.actors.support import WAIT_S


def copied(journal: Journal, stream: str, *, to: str, until: str) -> MemoryJournal:
    """A journal in which another stream has the events of this one, up to the first of a name."""
    copy, held = MemoryJournal(), list[NewEvent]()
    for event in journal.read(stream):
        held.append(NewEvent(event.canonical))
        if event.type.name == until:
            break
    copy.append(to, held, expected=0).wait()
    return copy


@pytest.mark.requirement("G-PRIN-1")
@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("t", "agent:cashier:t"),
        ("order/1042", "agent:cashier:order%2F1042"),
        ("a:b", "agent:cashier:a%3Ab"),
        ("a%3Ab", "agent:cashier:a%253Ab"),
        ("ä b", "agent:cashier:%C3%A4%20b"),
    ],
)
def test_whoever_acts_is_named_by_agent_and_thread_so_that_no_two_have_one_name(key: str, name: str) -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        [asked] = awaiting(payments, system, key)

    assert asked.principal == name


@pytest.mark.requirement("G-PRIN-2")
@pytest.mark.parametrize("edited", [False, True])
def test_what_one_thread_was_granted_is_not_spent_by_another_that_has_the_same_history(*, edited: bool) -> None:
    first, journal = Payments(), MemoryJournal()
    with first.open(journal) as system:
        [asked] = awaiting(first, system)
        arguments = {"amount": 3, "to": "eve"} if edited else None
        first.thread(system).approve(asked.id, arguments=arguments).get(timeout=WAIT_S)
        first.thread(system).attach("r").result(timeout_s=WAIT_S)
    amounts: dict[str, list[int]] = {}
    for key in ("t", "u"):
        again = Payments()
        with again.open(copied(journal, "thread/t", to=f"thread/{key}", until="approval.resolved")) as system:
            thread = again.thread(system, key)
            thread.run("pay", run_id="r").started(timeout_s=WAIT_S)
            assert ended(thread) == "done"
            [settled] = thread.view().approvals
        amounts[key] = again.amounts
        assert (settled.decision, settled.outcome) == ("approved", "approved" if key == "t" else "unreadable")

    assert amounts == {"t": [3 if edited else 5], "u": []}


def asker(heard: list[Decision]) -> AgentDefinition[None, str]:
    """An agent whose tool asks in the middle of it."""

    async def remove() -> str:
        heard.append(await tool_step().approve("remove it?"))
        return "removed" if heard[-1].approved else "kept"

    turns = [tool_call_turn("c1", "remove", {}), final_turn("done")]
    return define_agent("remover", model=following_model(turns), tools=[remove])


def test_what_one_thread_was_told_in_the_middle_of_a_tool_is_no_answer_to_another() -> None:
    heard: list[Decision] = []
    journal, agent = MemoryJournal(), asker(heard)
    with ActorSystem(journal, agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        thread.run("remove", run_id="r").started(timeout_s=WAIT_S)
        [asked] = waiting(thread)
        thread.approve(asked.id).get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)
    with ActorSystem(copied(journal, "thread/t", to="thread/u", until="approval.resolved"), agents=[agent]) as system:
        thread = system.thread(agent, "u", owner="ann")
        thread.run("remove", run_id="r").result(timeout_s=WAIT_S)

    assert [said.decision for said in heard] == ["approved", "rejected"]
    assert [said.approved for said in heard] == [True, False]


class Till:
    """A tool in two versions of a program, which look the same to a model."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def pay(self, amount: int) -> str:
        self.paid.append(amount)
        return "paid"

    def pay_hundredfold(self, amount: Annotated[int, AfterValidator(lambda amount: amount * 100)]) -> str:
        return self.pay(amount)

    def cashier(self, *, hundredfold: bool) -> AgentDefinition[None, str]:
        how = self.pay_hundredfold if hundredfold else self.pay
        tool = Tool(how, name="pay", metadata=tool_options(needs_approval=True))
        turns = [tool_call_turn("c1", "pay", {"amount": 5}), final_turn("done")]
        return define_agent("cashier", model=following_model(turns), tools=[tool])


@pytest.mark.requirement("G-HITL-5")
@pytest.mark.parametrize("changed", [False, True])
def test_a_call_whose_arguments_mean_something_else_than_when_it_was_approved_is_not_made(*, changed: bool) -> None:
    till, journal = Till(), MemoryJournal()
    before, now = till.cashier(hundredfold=False), till.cashier(hundredfold=changed)
    with ActorSystem(journal, agents=[before]) as system:
        thread = system.thread(before, "t", owner="ann")
        thread.run("pay", run_id="r").started(timeout_s=WAIT_S)
        [asked] = waiting(thread)
    with ActorSystem(journal, agents=[now]) as system:
        thread = system.thread(now, "t", owner="ann")
        thread.approve(asked.id).get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)
        [settled] = thread.view().approvals
        replayed = replay(thread, now)

    assert asked.arguments == {"amount": 5}
    assert till.paid == ([] if changed else [5])
    assert settled.outcome == ("unreadable" if changed else "approved")
    assert replayed.digests_equal


@pytest.mark.requirement("G-LEDGER-1")
def test_a_call_that_waits_is_kept_with_its_id_tool_and_arguments_in_its_own_stream() -> None:
    payments, journal = Payments(), MemoryJournal()
    with payments.open(journal) as system:
        [asked] = awaiting(payments, system)
    with payments.open(journal) as system:
        kept = payments.thread(system).approvals()
    [held] = [event for event in journal.read_all() if event.type.name == "approval.requested"]

    assert kept == [asked]
    assert (asked.id, asked.tool, asked.arguments) == ("r/approval:c1", "pay", {"amount": 5, "to": "bob"})
    assert held.stream == "thread/t"


@pytest.mark.requirement("L-HITL-2")
def test_a_predicate_that_changes_its_mind_opens_no_gate_and_closes_none() -> None:
    asked_of: list[dict[str, object]] = []

    def deciding(*, needs: bool) -> Payments:
        def predicate(arguments: dict[str, object]) -> bool:
            asked_of.append(arguments)
            return needs

        return Payments(pay("c1", 5), needs_approval=predicate)

    careful, careless, journal = deciding(needs=True), deciding(needs=False), MemoryJournal()
    with careful.open(journal) as system:
        [asked] = awaiting(careful, system)
    asked_first = list(asked_of)
    with careless.open(journal) as system:
        thread = careless.thread(system)
        before = list(careless.paid)
        thread.approve(asked.id).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        made = thread.run("pay", run_id="r2").result(timeout_s=WAIT_S)
        replayed = [replay(thread, payments.agent) for payments in (careful, careless)]

    # It is told nothing but the arguments.
    assert asked_first == [{"amount": 5, "to": "bob"}]
    assert (before, careful.paid) == ([], [])
    assert (answer.output, made.output) == ("paid 5 to bob", "paid 5 to bob")
    assert [one.digests_equal for one in replayed] == [True, True]


@pytest.mark.requirement("G-PRIN-4")
def test_a_policy_tells_who_asks_from_who_decides_and_no_agent_decides_whatever_it_says() -> None:
    heard: list[tuple[str, str | None]] = []

    def operators(asked: PendingApproval, by: str | None) -> bool:
        heard.append((asked.principal, by))
        return asked.principal == "agent:cashier:a" or by == "operator:root"

    payments = Payments(pay("c1", 5), approvers=operators)
    with payments.open("memory:") as system:
        [_], [_] = awaiting(payments, system, "a"), awaiting(payments, system, "b")
        seen = {
            by: [asked.thread for asked in system.approvals(by=by).pending()] for by in ("operator:jo", "agent:x:a")
        }
        for by in ("agent:cashier:a", "agent:cashier:b", "agent:operator:root"):
            for key in ("a", "b"):
                with pytest.raises(UnknownApproval):
                    system.approvals(by=by).approve(f"thread/{key}/r/approval:c1")
        with pytest.raises(UnknownApproval):
            system.approvals(by="operator:jo").approve("thread/b/r/approval:c1")
        decided = [
            system.approvals(by=by).approve(f"thread/{key}/r/approval:c1").get(timeout=WAIT_S).by
            for key, by in (("a", "operator:jo"), ("b", "operator:root"))
        ]
        outputs = [payments.thread(system, key).attach("r").result(timeout_s=WAIT_S).output for key in ("a", "b")]

    assert seen == {"operator:jo": ["a"], "agent:x:a": []}
    assert decided == ["operator:jo", "operator:root"]
    assert outputs == ["paid 5 to bob"] * 2
    assert ("agent:cashier:b", "operator:jo") in heard
    assert not [by for _, by in heard if by is not None and by.startswith("agent:")]
