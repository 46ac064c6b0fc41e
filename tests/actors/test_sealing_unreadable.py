"""Sealed arguments that cannot be opened: nothing is called, and whoever is to be told hears of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pydantic_ai.messages import ToolCallPart

from clew.actors.agent import (
    ApprovalSettlement,
    Unreadable,
)
from clew.actors.agent.sealing import Plain
from clew.adapters.encryption import AesGcmSeal
from clew.journal import MemoryJournal
from tests.actors.payments import Payments, awaiting, pay
from tests.actors.robot import journal_with
from tests.actors.sealed import ACCOUNT, NEW, OLD, T, asked, cashier, changed, ended, settled
from tests.actors.support import WAIT_S, until


@pytest.mark.requirement("G-SETTLE-3")
@pytest.mark.parametrize("decide", [True, False], ids=["decided", "cancelled"])
def test_when_the_key_is_gone_nothing_is_called_and_whoever_is_to_be_told_hears_unreadable(*, decide: bool) -> None:
    told: list[ApprovalSettlement] = []
    journal = asked(cashier(on_settled=told.append))
    payments = cashier({"new": NEW}, current="new", on_settled=told.append)
    with payments.open(journal) as system:
        thread = payments.thread(system)
        [pending] = thread.approvals()
        if decide:
            thread.approve(pending.id).get(timeout=WAIT_S)
        else:
            # Something else wakes the run, and it meets its sealed arguments before anybody has decided.
            thread.pause("r").get(timeout=WAIT_S)
            thread.resume("r").get(timeout=WAIT_S)
        how = ended(thread)
        until(lambda: told)
        view, after = thread.view(), thread.run("and now?").result(timeout_s=WAIT_S)
        [call] = [part for message in thread.messages() for part in message.parts if isinstance(part, ToolCallPart)]

    assert pending.arguments is None
    assert how == "failed"
    assert view.runs[0].error == "Unreadable: the key 'old' of its arguments is gone"
    assert settled(thread) == [("approved" if decide else "cancelled", "unreadable")]
    [heard] = told
    assert (heard.outcome, heard.arguments, heard.result, heard.tool) == ("unreadable", None, None, "pay")
    assert payments.paid == []
    # The conversation goes on; the model sees that there was a call.
    assert after.output == "you said and now?"
    assert call.args == {"unreadable": True}


def test_an_approval_is_settled_as_unreadable_by_its_call_where_only_that_cannot_be_read() -> None:
    told: list[ApprovalSettlement] = []

    def spoil(data: dict[str, Any]) -> None:
        data["arguments"]["data"] = data["arguments"]["data"][::-1]

    journal = changed(asked(cashier(on_settled=told.append)), "approval.requested", spoil)
    payments = cashier(on_settled=told.append)
    with payments.open(journal) as system:
        thread = payments.thread(system)
        [pending] = thread.approvals()
        thread.approve(pending.id).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        until(lambda: told)

    assert pending.arguments is None
    assert "approved, but not made" in answer.output
    assert settled(thread) == [("approved", "unreadable")]
    assert [(heard.outcome, heard.arguments, heard.result) for heard in told] == [("unreadable", None, None)]
    assert payments.paid == []


def test_what_was_sealed_in_one_thread_is_of_no_use_in_another() -> None:
    payments, journal = cashier(), MemoryJournal()
    with payments.open(journal) as system:
        awaiting(payments, system, "other")
        awaiting(payments, system)
    of_other = {event.type.name: msgspec.json.decode(event.canonical) for event in journal.read("thread/other")}

    def swap_response(data: dict[str, Any]) -> None:
        data["result"] = of_other["step.completed"]["data"]["result"]

    def swap_question(data: dict[str, Any]) -> None:
        data["arguments"] = of_other["approval.requested"]["data"]["arguments"]

    own = [event for event in journal.read_all() if event.stream == T]
    for name, swap in (("step.completed", swap_response), ("approval.requested", swap_question)):
        swapped = changed(journal_with(own), name, swap)
        with payments.open(swapped) as system:
            thread = payments.thread(system)
            thread.approve("r/approval:c1").get(timeout=WAIT_S)
            ended(thread)
            assert settled(thread) == [("approved", "unreadable")]
    assert payments.paid == []


def test_an_agent_without_a_key_does_not_take_what_is_sealed_for_arguments() -> None:
    stored = AesGcmSeal({"k": OLD}, current="k").close({"n": 1}, "p")

    with pytest.raises(Unreadable, match="no key here"):
        Plain().open(stored, "p")


def test_a_run_recorded_with_a_key_is_unreadable_to_an_agent_that_has_none() -> None:
    journal = asked(cashier())
    bare = Payments(pay("c1", 5, ACCOUNT))
    with bare.open(journal) as system:
        thread = bare.thread(system)
        thread.approve("r/approval:c1").get(timeout=WAIT_S)

        assert ended(thread) == "failed"
        assert settled(thread) == [("approved", "unreadable")]
        assert thread.view().runs[0].error == "Unreadable: its arguments are sealed, and there is no key here"
    assert bare.paid == []
