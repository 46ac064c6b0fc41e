"""Arguments of calls that need approval, unreadable in the journal: everything goes on as if they were not sealed."""

from __future__ import annotations

from types import NoneType
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.toolsets import DynamicToolset, FunctionToolset

from clew.actors import ActorSystem
from clew.actors.agent import (
    AgentDefinition,
    define_agent,
    replay,
    tool_options,
)
from clew.actors.agent.sealing import SEALED
from clew.actors.testing import Script, VirtualClock, final_turn, scripted_model, tool_call_turn
from clew.adapters.encryption import AesGcmSeal
from clew.journal import MemoryJournal, RecordedEvent
from tests.actors.payments import Payments, awaiting, pay, waiting
from tests.actors.robot import journal_with
from tests.actors.sealed import ACCOUNT, NEW, OLD, T, asked, cashier, stored
from tests.actors.support import WAIT_S, until


@pytest.mark.requirement("G-LEDGER-2")
def test_until_the_tool_has_run_nothing_recorded_says_what_it_is_called_with() -> None:
    payments, journal = cashier(), MemoryJournal()
    with payments.open(journal) as system:
        [pending] = awaiting(payments, system)
        thread = payments.thread(system)
        waiting_bytes = stored(journal)
        thread.approve(pending.id).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        before_result = stored(journal, before="tool:pay:c1")
        cells = b"".join(value for _, value in journal.cells.scan(b""))

    assert pending.arguments == {"amount": 5, "to": ACCOUNT}
    assert answer.output == f"paid 5 to {ACCOUNT}"
    for recorded in (waiting_bytes, before_result):
        assert recorded.count(SEALED.encode()) == 1
        assert ACCOUNT.encode() not in recorded
        assert b'"amount"' not in recorded
    # Afterwards only the tool's own words say it.
    assert stored(journal).count(ACCOUNT.encode()) == stored(journal).count(f"paid 5 to {ACCOUNT}".encode())
    assert b'"amount"' not in cells


def test_without_a_seal_the_arguments_are_recorded_as_they_are() -> None:
    journal = asked(Payments(pay("c1", 5, ACCOUNT)))

    assert stored(journal).count(ACCOUNT.encode()) == 2


def test_a_call_that_needs_nobody_is_recorded_as_it_is() -> None:
    payments, journal = (
        Payments(pay("c1", 5, ACCOUNT), needs_approval=False, seal=AesGcmSeal({"k": OLD}, current="k")),
        (MemoryJournal()),
    )
    with payments.open(journal) as system:
        payments.thread(system).run("pay").result(timeout_s=WAIT_S)

    assert SEALED.encode() not in stored(journal)
    assert ACCOUNT.encode() in stored(journal, before="tool:pay:c1")


@pytest.mark.replay
@pytest.mark.parametrize("edit", [False, True])
def test_a_sealed_call_is_decided_over_restarts_and_replayed_to_the_same_digest(*, edit: bool) -> None:
    journal = asked(cashier())
    deciding, driving = cashier(), cashier()
    with deciding.open(journal) as system:
        [pending] = waiting(deciding.thread(system))
        edited = {"amount": 3, "to": "CH-0815"} if edit else None
        deciding.thread(system).approve(pending.id, arguments=edited).get(timeout=WAIT_S)
    before = stored(journal, before="tool:pay:c1")
    with driving.open(journal) as system:
        thread = driving.thread(system)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        after = thread.run("and now?").result(timeout_s=WAIT_S)
        replayed = replay(thread, driving.agent)
        [call] = [part for message in thread.messages() for part in message.parts if isinstance(part, ToolCallPart)]

    assert answer.output == ("paid 3 to CH-0815" if edit else f"paid 5 to {ACCOUNT}")
    # A call that was cut off when its system was closed runs again, with the same key.
    assert set(deciding.paid + driving.paid) == {("thread/t/r/tool:pay:c1", 3 if edit else 5)}
    assert ACCOUNT.encode() not in before
    assert b"0815" not in before
    assert after.output == "you said and now?"
    assert call.args == {"amount": 5, "to": ACCOUNT}
    assert replayed.digests_equal
    assert [run.ended for run in replayed.runs] == ["done", "done"]


def test_a_call_with_arguments_that_the_tool_does_not_take_is_sent_back_without_repeating_them() -> None:
    def transfer(amount: int, to: str) -> str:
        """Send money."""
        return f"sent {amount} to {to}"

    wrong = tool_call_turn("c1", "transfer", {"amount": f"all of {ACCOUNT}", "to": ACCOUNT})
    text = tool_call_turn("c2", "transfer", f'{{"amount": {ACCOUNT}')
    right = tool_call_turn("c3", "transfer", {"amount": 5, "to": ACCOUNT})
    script = Script([wrong, text, right, final_turn("sent")])
    tool = Tool(transfer, max_retries=3, metadata=tool_options(needs_approval=True))
    agent = define_agent("bank", model=scripted_model(script), tools=[tool], seal=AesGcmSeal({"k": OLD}, current="k"))
    journal = MemoryJournal()
    with ActorSystem(journal, agents=[agent], clock=VirtualClock()) as system:
        thread = system.thread(agent, "t")
        thread.run("go", run_id="r").started(timeout_s=WAIT_S)
        [pending] = waiting(thread)
        recorded = stored(journal)
        thread.approve(pending.id).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        replayed = replay(thread, agent)

    assert ACCOUNT.encode() not in recorded
    assert "valid integer" in str(script.requests[1][-1].parts)
    assert answer.output == "sent"
    assert replayed.digests_equal


def test_keys_are_changed_while_approvals_wait() -> None:
    journal = asked(cashier())
    both = cashier({"new": NEW, "old": OLD}, current="new")
    with both.open(journal) as system:
        thread = both.thread(system)
        [pending] = thread.approvals()
        thread.approve(pending.id, arguments={"amount": 3, "to": ACCOUNT}).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        replayed = replay(thread, both.agent)
    [resolved] = [event.canonical for event in journal.read(T) if event.type.name == "approval.resolved"]

    assert answer.output == f"paid 3 to {ACCOUNT}"
    assert b'"key":"new"' in resolved
    assert replayed.digests_equal


def test_a_model_that_writes_what_looks_sealed_is_taken_at_its_word() -> None:
    kept: list[Any] = []

    def keep(**values: Any) -> str:
        """Keep something."""
        kept.append(values)
        return "kept"

    forged = {SEALED: {"sealed": "aes-gcm", "key": "k", "nonce": "", "data": ""}}
    for seal in (None, AesGcmSeal({"k": OLD}, current="k")):
        script = Script([tool_call_turn("c1", "keep", forged), final_turn("done")])
        agent = define_agent("keeper", model=scripted_model(script), tools=[keep], seal=seal)
        with ActorSystem("memory:", agents=[agent]) as system:
            thread = system.thread(agent, "t")
            answer = thread.run("go").result(timeout_s=WAIT_S)
            calls = [m.parts[0] for m in thread.messages() if isinstance(m, ModelResponse)]
            assert answer.output == "done"
            assert replay(thread, agent).digests_equal
        assert isinstance(calls[0], ToolCallPart)
        assert calls[0].args_as_dict() == forged
    assert kept == [forged, forged]


@pytest.mark.crash
def test_a_crash_around_any_append_of_a_sealed_call_pays_once() -> None:
    full = MemoryJournal()
    whole = cashier()
    with whole.open(full) as system:
        awaiting(whole, system)
        whole.thread(system).approve("r/approval:c1").get(timeout=WAIT_S)
        whole.thread(system).attach("r").result(timeout_s=WAIT_S)
    events: list[RecordedEvent] = list(full.read_all())

    for cut in [n for n in range(1, len(events)) if events[n].cause != events[n - 1].cause]:
        payments = cashier()
        with payments.open(journal_with(events[:cut])) as system:
            thread = payments.thread(system)
            thread.run("pay", run_id="r").started(timeout_s=WAIT_S)
            until(lambda thread=thread: thread.view().approvals)
            thread.approve("r/approval:c1").get(timeout=WAIT_S)
            answer = thread.attach("r").result(timeout_s=WAIT_S)
            assert replay(thread, payments.agent).digests_equal
        recorded = any(b'"step":"tool:pay:c1"' in e.canonical and e.type.name == "step.completed" for e in events[:cut])
        assert answer.output == f"paid 5 to {ACCOUNT}"
        assert payments.amounts == ([] if recorded else [5])


def test_what_is_recorded_of_checking_a_call_of_a_toolset_made_on_the_way_is_sealed_too() -> None:
    def transfer(amount: int) -> str:
        """Send money."""
        return f"sent {amount}"

    def check(ctx: RunContext[None], amount: int) -> None:
        """See to it that the amount is a good one."""

    def made(ctx: RunContext[None]) -> FunctionToolset[None]:
        tool = Tool(transfer, takes_ctx=False, args_validator=check, metadata=tool_options(needs_approval=True))
        return FunctionToolset([tool], id="inner", max_retries=3)

    wrong, right = ({"amount": f"all of {ACCOUNT}"}, {"amount": 5})
    turns = [tool_call_turn("c1", "transfer", wrong), tool_call_turn("c2", "transfer", right), final_turn("sent")]
    made_on_the_way = DynamicToolset(made, id="made")
    agent = AgentDefinition(
        agent=Agent(scripted_model(turns), name="bank", deps_type=NoneType, toolsets=[made_on_the_way]),
        seal=AesGcmSeal({"k": OLD}, current="k"),
    )
    journal = MemoryJournal()
    with ActorSystem(journal, agents=[agent]) as system:
        thread = system.thread(agent, "t")
        thread.run("go", run_id="r").started(timeout_s=WAIT_S)
        [pending] = waiting(thread)
        recorded = stored(journal)
        thread.approve(pending.id).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        replayed = replay(thread, agent)

    assert b'"step":"validate:transfer:c1"' in recorded
    assert ACCOUNT.encode() not in recorded
    assert answer.output == "sent"
    assert replayed.digests_equal
