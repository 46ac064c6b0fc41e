"""Whoever cancels is told what happened, and after "cancelled" nothing more happens."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew.actors import ActorSystem, RunCancelled, UnknownRun, UnknownThread
from clew.actors.agent import Answer, define_agent
from clew.actors.schedule import every
from clew.actors.testing import Script, final_turn, invalid_for_provider, scripted_model, tool_call_turn
from clew.journal import MemoryJournal
from tests.actors.payments import Payments, said
from tests.actors.support import WAIT_S, events_of, until

T = "thread/t"


@pytest.mark.scenario("CON-03")
@pytest.mark.requirement("L-RUN-3", "L-CONC-6")
def test_a_cancel_that_races_with_the_end_of_a_run_is_answered_with_what_happened() -> None:
    outcomes: set[str] = set()
    payments, journal = Payments(needs_approval=False, tool={"at_most_once": True}), MemoryJournal()
    with payments.open(journal) as system:
        for number in range(14):
            thread = payments.thread(system, f"t{number}")
            run = thread.run("pay", run_id="r")
            until(lambda number=number: journal.head(f"thread/t{number}").sequence >= number % 7)
            run.started(timeout_s=WAIT_S)
            outcome = thread.cancel("r").get(timeout=WAIT_S)
            sequence = thread.view().sequence
            try:
                end: Answer[str] | RunCancelled = run.result(timeout_s=WAIT_S)
            except RunCancelled as error:
                end = error
            events = events_of(journal, f"thread/t{number}")

            assert outcome.cancelled == isinstance(end, RunCancelled) == (thread.status("r") == "cancelled")
            assert outcome.status == thread.status("r")
            assert sum(name in ("cancelled", "finished", "failed") for name in events) == 1
            if outcome.cancelled:
                # A tool in flight cannot be called back; none that was not begun is, and nothing is recorded.
                begun, paid = events.count("started") - 1, sum(f"t{number}/" in key for key, _ in payments.paid)
                assert paid <= begun
                assert len(events) == sequence
            assert thread.cancel("r").get(timeout=WAIT_S) == outcome
            outcomes.add(outcome.status)

    assert outcomes <= {"cancelled", "done"}


@pytest.mark.scenario("CON-03")
def test_a_cancel_of_what_is_not_there_says_so() -> None:
    payments = Payments(needs_approval=False)
    with payments.open("memory:") as system:
        thread = payments.thread(system)
        for run in ("r", None):
            with pytest.raises(UnknownThread):
                thread.cancel(run).get(timeout=WAIT_S)
        thread.run("pay", run_id="r").result(timeout_s=WAIT_S)
        with pytest.raises(UnknownRun, match="other"):
            thread.cancel("other").get(timeout=WAIT_S)
        with pytest.raises(UnknownThread):
            payments.thread(system, owner="eve").cancel("r").get(timeout=WAIT_S)
        outcome = thread.cancel("r").get(timeout=WAIT_S)

    assert (outcome.status, outcome.cancelled) == ("done", False)


@pytest.mark.requirement("L-RUN-3", "L-CONC-6")
async def test_a_run_is_cancelled_in_a_call_of_its_model() -> None:
    entered, left = threading.Event(), threading.Event()

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert invalid_for_provider(messages) == []
        if said(messages)[-1] != "think":
            return final_turn("here")
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return final_turn("never")

    agent = define_agent("thinker", model=FunctionModel(respond))
    async with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        run = thread.run("think", run_id="r")
        assert await asyncio.to_thread(entered.wait, WAIT_S)
        outcome = await thread.cancel("r", reason="too slow")
        with pytest.raises(RunCancelled, match="too slow"):
            await run
        assert await asyncio.to_thread(left.wait, WAIT_S)
        answer = await thread.run("hello?")

    assert (outcome.cancelled, answer.output) == (True, "here")


@pytest.mark.requirement("L-RUN-3")
def test_what_a_blocking_tool_returns_after_the_cancel_is_not_recorded() -> None:
    entered, gate, left = threading.Event(), threading.Event(), threading.Event()

    def block() -> str:
        entered.set()
        assert gate.wait(WAIT_S)
        left.set()
        return "late"

    script = Script([tool_call_turn("c1", "block", {}), final_turn("fine")])
    agent = define_agent("blocker", model=scripted_model(script), tools=[block])
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        run = thread.run("go", run_id="r")
        assert entered.wait(WAIT_S)
        outcome = thread.cancel("r").get(timeout=WAIT_S)
        gate.set()
        assert left.wait(WAIT_S)
        with pytest.raises(RunCancelled):
            run.result(timeout_s=WAIT_S)
        answer: Any = thread.run("and now?", run_id="r2").result(timeout_s=WAIT_S)
        events = [(event.type.name, b"late" in event.canonical) for event in thread.events()]

    assert outcome.cancelled
    assert answer.output == "fine"
    assert not any(late for _, late in events)
    assert invalid_for_provider(script.requests[-1]) == []
    assert script.calls == 2


def test_to_cancel_everything_in_a_thread_that_had_no_run_is_nothing_to_do() -> None:
    payments = Payments(needs_approval=False)
    with payments.open("memory:") as system:
        thread = payments.thread(system)
        thread.schedules.set("later", every(3600), "pay").get(timeout=WAIT_S)

        outcome = thread.cancel().get(timeout=WAIT_S)

    assert (outcome.status, outcome.cancelled) == ("nothing", False)
