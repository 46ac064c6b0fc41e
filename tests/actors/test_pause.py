"""A run that is paused stops before its next tool, stays so over a restart, and goes on when it is resumed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo

from clew.actors import ActorSystem, RunCancelled, RunEnded, UnknownRun, UnknownThread
from clew.actors.agent import AgentDefinition, define_agent, replay
from clew.actors.testing import Script, final_turn, invalid_for_provider, scripted_model, tool_call_turn
from clew.journal import Journal, MemoryJournal
from tests.actors.payments import Payments, awaiting, waiting
from tests.actors.support import WAIT_S, until


@pytest.fixture(params=["memory", "lmdb"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Journal | str]:
    """What a system is opened over, each time again."""
    memory = MemoryJournal()
    return lambda: memory if request.param == "memory" else str(tmp_path / "data")


class TwoSteps:
    """An agent that does `first`, which blocks its thread until the gate opens, and then `second`."""

    def __init__(self) -> None:
        self.entered, self.gate = threading.Event(), threading.Event()
        self.done: list[str] = []

        def first() -> str:
            self.entered.set()
            assert self.gate.wait(WAIT_S)
            self.done.append("first")
            return "first"

        async def second() -> str:
            self.done.append("second")
            return "second"

        self.script = Script([self.respond] * 9)
        self.agent: AgentDefinition[Any, str] = define_agent(
            "two", model=scripted_model(self.script), tools=[first, second]
        )

    def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert invalid_for_provider(messages) == []
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        return (tool_call_turn("c1", "first", {}), tool_call_turn("c2", "second", {}), final_turn("done"))[turn]


@pytest.mark.scenario("CON-15")
def test_a_pause_in_a_step_takes_effect_before_the_next_one(reopen: Callable[[], Any]) -> None:
    two = TwoSteps()
    with ActorSystem(reopen(), agents=[two.agent]) as system:
        thread = system.thread(two.agent, "t", owner="ann")
        thread.run("go", run_id="r").started(timeout_s=WAIT_S)
        assert two.entered.wait(WAIT_S)
        thread.pause("r", reason="lunch").get(timeout=WAIT_S)
        thread.pause("r").get(timeout=WAIT_S)
        two.gate.set()
        until(lambda: thread.status("r") == "paused")
        done, turns = list(two.done), two.script.calls
    with ActorSystem(reopen(), agents=[two.agent]) as system:
        thread = system.thread(two.agent, "t", owner="ann")
        restarted, reason = thread.status("r"), thread.view().runs[0].pausing
        system.recover()
        still = thread.status("r")
        thread.resume("r").get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        replayed = replay(thread, two.agent)

    assert (done, turns) == (["first"], 1)
    assert (restarted, still, reason) == ("paused", "paused", "lunch")
    assert (answer.output, two.done) == ("done", ["first", "second"])
    assert replayed.digests_equal


@pytest.mark.scenario("CON-15")
def test_a_paused_run_is_not_woken_by_a_decision_but_by_being_resumed() -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        [asked] = awaiting(payments, system)
        thread = payments.thread(system)
        thread.pause("r").get(timeout=WAIT_S)
        thread.approve(asked.id).get(timeout=WAIT_S)
        paid = list(payments.paid)
        thread.resume("r").get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)

    assert (paid, answer.output, payments.amounts) == ([], "paid 5 to bob", [5])


def test_a_paused_run_can_be_cancelled_and_one_that_ended_is_not_paused() -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        awaiting(payments, system)
        thread = payments.thread(system)
        thread.pause("r").get(timeout=WAIT_S)
        assert thread.cancel("r").get(timeout=WAIT_S).cancelled
        with pytest.raises(RunCancelled):
            thread.attach("r").result(timeout_s=WAIT_S)
        for act in (thread.pause, thread.resume):
            with pytest.raises(RunEnded, match="cancelled"):
                act("r").get(timeout=WAIT_S)
            with pytest.raises(UnknownRun):
                act("other").get(timeout=WAIT_S)
        stranger = payments.thread(system, owner="eve")
        for act in (stranger.pause, stranger.resume):
            with pytest.raises(UnknownThread):
                act("r").get(timeout=WAIT_S)


def test_a_run_that_only_waits_is_left_alone_by_resume() -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        awaiting(payments, system)
        thread = payments.thread(system)
        before = thread.view().sequence
        thread.resume("r").get(timeout=WAIT_S)
        waiting(thread)

        assert thread.view().sequence == before


def test_nobody_waits_for_a_run_that_never_was() -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        awaiting(payments, system)
        with pytest.raises(UnknownRun, match="typo"):
            payments.thread(system).attach("typo").result(timeout_s=WAIT_S)
