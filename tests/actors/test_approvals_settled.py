"""Whoever asked to be told what became of an approval is told once, whatever became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from clew.actors import ActorSystem
from clew.actors.agent import ApprovalSettlement, Thread, Unreadable, define_agent
from clew.actors.testing import scripted_model
from clew.journal import MemoryJournal
from clew.projections import ThreadView
from tests.actors.payments import Payments, awaiting
from tests.actors.support import WAIT_S, until


class Lock:
    """A seal in which a key's name is all that keeps a reader out."""

    def __init__(self, key: str) -> None:
        self.key = key

    def close(self, arguments: Mapping[str, Any], place: str) -> msgspec.Raw:
        """Return what is stored."""
        held = msgspec.json.encode(arguments).hex()
        return msgspec.Raw(msgspec.json.encode({"locked": held, "key": self.key, "place": place}))

    def open(self, stored: msgspec.Raw, place: str) -> object:
        """Return the arguments."""
        locked = msgspec.json.decode(stored, type=dict[str, str])
        if (locked["key"], locked["place"]) != (self.key, place):
            raise Unreadable("another key")
        return msgspec.json.decode(bytes.fromhex(locked["locked"]))


def ended(payments: Payments, system: ActorSystem) -> ThreadView:
    """Wait until the run has ended and all that was to be told has been told."""
    thread = payments.thread(system)
    until(lambda: thread.status("r") in ("done", "failed", "cancelled"))
    return thread.view()


def approve(thread: Thread[str]) -> None:
    thread.approve("r/approval:c1").get(timeout=WAIT_S)


def reject(thread: Thread[str]) -> None:
    thread.reject("r/approval:c1", "no").get(timeout=WAIT_S)


def cancel(thread: Thread[str]) -> None:
    thread.cancel("r").get(timeout=WAIT_S)


@pytest.mark.requirement("G-SETTLE-1", "G-SETTLE-2", "G-SETTLE-4")
@pytest.mark.parametrize(
    ("decide", "outcome", "result"),
    [(approve, "approved", "paid 5 to bob"), (reject, "rejected", None), (cancel, "cancelled", None)],
)
def test_each_settlement_is_told_once_with_what_it_was_about(
    decide: Callable[[Thread[str]], None], outcome: str, result: str | None
) -> None:
    told: list[ApprovalSettlement] = []
    payments, journal = Payments(on_settled=told.append), MemoryJournal()
    with payments.open(journal) as system:
        awaiting(payments, system)
        decide(payments.thread(system))
        ended(payments, system)
        until(lambda: told)
    for _ in range(2):
        with payments.open(journal) as system:
            assert ended(payments, system).approvals[0].outcome == outcome

    [settled] = told
    assert (settled.thread, settled.run, settled.approval, settled.tool) == ("t", "r", "r/approval:c1", "pay")
    assert (settled.outcome, settled.arguments, settled.result) == (outcome, {"amount": 5, "to": "bob"}, result)


@pytest.mark.requirement("G-LEDGER-11")
@pytest.mark.parametrize("is_async", [True, False])
def test_a_hook_that_raises_is_reported_and_does_no_harm(*, is_async: bool) -> None:
    def hostile(settled: ApprovalSettlement) -> None:
        raise ZeroDivisionError(settled.approval)

    async def hostile_too(settled: ApprovalSettlement) -> None:
        raise ZeroDivisionError(settled.approval)

    payments = Payments(on_settled=hostile_too if is_async else hostile)
    with payments.open("memory:") as system:
        [asked] = awaiting(payments, system)
        payments.thread(system).approve(asked.id).get(timeout=WAIT_S)
        answer = payments.thread(system).attach("r").result(timeout_s=WAIT_S)
        until(lambda: system.failures)
        [failure] = system.failures

    assert answer.output == "paid 5 to bob"
    assert isinstance(failure.error, ZeroDivisionError)


def test_a_call_whose_arguments_cannot_be_read_any_more_is_not_made() -> None:
    told: list[ApprovalSettlement] = []
    asking, journal = Payments(seal=Lock("old")), MemoryJournal()
    payments = Payments(seal=Lock("new"), on_settled=told.append)
    notified = replace(asking.agent, on_settled=told.append)
    with ActorSystem(journal, agents=[notified], clock=asking.clock) as system:
        thread = system.thread(notified, "t", owner="ann")
        thread.run("pay", run_id="r").started(timeout_s=WAIT_S)
        until(lambda: thread.approvals() and thread.status("r") == "awaiting_input")
        readable = thread.approvals()[0].arguments
        stored = b"".join(event.canonical for event in journal.read_all() if event.type.name == "approval.requested")
    with payments.open(journal) as system:
        [asked] = payments.thread(system).approvals()
        payments.thread(system).approve(asked.id).get(timeout=WAIT_S)
        view = ended(payments, system)
        until(lambda: told)

    assert (readable, asked.arguments) == ({"amount": 5, "to": "bob"}, None)
    assert b"bob" not in stored
    assert [(settled.arguments, settled.result) for settled in told] == [(None, None)]
    assert told[0].outcome == view.approvals[0].outcome != "approved"
    assert view.runs[0].error == "Unreadable: another key"
    assert payments.paid == asking.paid == []


@pytest.mark.requirement("G-SETTLE-1")
def test_a_grant_for_a_tool_that_is_gone_is_settled_as_unknown_when_its_run_is_given_up() -> None:
    told: list[ApprovalSettlement] = []
    asking, journal = Payments(on_settled=told.append), MemoryJournal()
    with asking.open(journal) as system:
        [asked] = awaiting(asking, system)
    bare = define_agent("cashier", model=scripted_model(asking.script), tools=[asking.look], on_settled=told.append)
    with ActorSystem(journal, agents=[bare], clock=asking.clock) as system:
        thread = system.thread(bare, "t", owner="ann")
        thread.approve(asked.id).get(timeout=WAIT_S)
        until(lambda: thread.status("r") == "halted")
        before = list(told)
        thread.cancel("r").get(timeout=WAIT_S)
        until(lambda: told)

    assert before == []
    assert [(settled.outcome, settled.result) for settled in told] == [("unknown", None)]
    assert asking.paid == []
