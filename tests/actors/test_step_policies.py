"""A tool's policy holds over crashes: once at the most, so many attempts, so late, so long."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from pydantic_ai import Tool

from clew.actors import ActorRef, ActorSystem, RunFailed
from clew.actors.agent import AgentDefinition, Thread, define_agent, replay, tool_options, tool_step
from clew.actors.testing import (
    Script,
    VirtualClock,
    final_turn,
    invalid_for_provider,
    scripted_model,
    tool_call_turn,
    tool_calls_turn,
)
from clew.actors.thread import SettleStep, ThreadState
from clew.journal import MemoryJournal, RecordedEvent
from tests.actors.robot import journal_with
from tests.actors.story import raw
from tests.actors.support import WAIT_S, until

T = "thread/t"


class Bank:
    """A tool that moves money, and counts how often it did for which key."""

    def __init__(self, *errors: BaseException, **options: Any) -> None:
        self.errors: list[BaseException] = list(errors)
        self.moved: Counter[str] = Counter()
        self.script = Script([tool_call_turn("c1", "move", {"amount": 5}), final_turn("done")])
        self.clock = VirtualClock()
        self.agent = define_agent(
            "bank", model=scripted_model(self.script), tools=[Tool(self.move, metadata=tool_options(**options))]
        )

    async def move(self, amount: int) -> str:
        """Move money."""
        self.moved[tool_step().idempotency_key] += 1
        if self.errors:
            raise self.errors.pop(0)
        return f"moved {amount}"

    def open(self, journal: MemoryJournal) -> ActorSystem:
        return ActorSystem(journal, agents=[self.agent], clock=self.clock)


def thread_of(system: ActorSystem, agent: AgentDefinition[Any, str]) -> Thread[str]:
    return system.thread(agent, "t", owner="ann")


def suspended_after(journal: MemoryJournal, attempts: int) -> bool:
    return names(journal)[-1] == "run.suspended" and names(journal).count("step.failed") == attempts


def names(journal: MemoryJournal) -> list[str]:
    return [event.type.name for event in journal.read(T)]


def begun(bank: Bank) -> list[RecordedEvent]:
    """What is recorded when the tool was claimed and the process died in it."""
    journal = MemoryJournal()
    with bank.open(journal) as system:
        thread_of(system, bank.agent).run("go", run_id="r").result(timeout_s=WAIT_S)
    events = list(journal.read(T))
    bank.script = Script([final_turn("done")])
    bank.agent = define_agent("bank", model=scripted_model(bank.script), tools=list(_tools(bank)))
    return events[: names(journal).index("step.started") + 1]


def _tools(bank: Bank) -> Sequence[Tool[None]]:
    return [Tool(bank.move, metadata=tool_options(at_most_once=True))]


def settle(system: ActorSystem, outcome: str, result: object = None) -> ThreadState:
    held = raw({"result": result, "kind": "tool_return"})
    command = SettleStep("r", "tool:move:c1", outcome, "ann", "ann", 99, held)
    return ActorRef[Any, ThreadState](system, T).ask(command).get(timeout=WAIT_S)


@pytest.mark.crash
@pytest.mark.parametrize("outcome", ["result", "retry", "fail"])
def test_a_step_that_may_run_once_is_in_doubt_after_a_crash_until_somebody_settles_it(outcome: str) -> None:
    bank = Bank(at_most_once=True)
    journal = journal_with(begun(bank))

    with bank.open(journal) as system:
        thread = thread_of(system, bank.agent)
        until(lambda: names(journal)[-1] == "run.suspended")
        in_doubt = dict(bank.moved)
        settle(system, outcome, "moved 5")
        run = thread.attach("r")
        if outcome == "fail":
            with pytest.raises(RunFailed, match="tool:move:c1"):
                run.result(timeout_s=WAIT_S)
        else:
            assert run.result(timeout_s=WAIT_S).output == "done"
            assert invalid_for_provider(bank.script.requests[-1]) == []
            assert "moved 5" in str(bank.script.requests[-1][-1].parts[0])
        assert replay(thread, bank.agent).digests_equal

    key = "thread/t/r/tool:move:c1"
    assert in_doubt == {key: 1}
    assert bank.moved == {key: 2 if outcome == "retry" else 1}


@pytest.mark.crash
def test_a_second_crash_in_a_step_that_was_let_run_again_is_a_second_doubt() -> None:
    bank = Bank(at_most_once=True)
    journal = journal_with(begun(bank))
    with bank.open(journal) as system:
        until(lambda: names(journal)[-1] == "run.suspended")
        settle(system, "retry")
        thread_of(system, bank.agent).attach("r").result(timeout_s=WAIT_S)
    events = list(journal.read(T))
    again = [i for i, event in enumerate(events) if event.type.name == "step.started"][1]
    bank.script = Script([final_turn("done")])
    bank.agent = define_agent("bank", model=scripted_model(bank.script), tools=list(_tools(bank)))
    journal = journal_with(events[: again + 1])

    with bank.open(journal) as system:
        until(lambda: names(journal)[-1] == "run.suspended")
        assert names(journal).count("step.doubted") == 2
        settle(system, "result", "moved 5")
        thread_of(system, bank.agent).attach("r").result(timeout_s=WAIT_S)

    assert bank.moved.total() == 2


def test_a_step_that_may_run_once_and_raises_is_tried_again() -> None:
    bank = Bank(OSError("not now"), at_most_once=True)
    journal = MemoryJournal()

    with bank.open(journal) as system:
        answer = thread_of(system, bank.agent).run("go", run_id="r").result(timeout_s=WAIT_S)

    assert answer.output == "done"
    assert names(journal).count("step.started") == 2


def test_errors_that_are_not_worth_another_attempt_get_none() -> None:
    bank = Bank(KeyError("no such account"), attempts=5, retry_on=[OSError])

    with bank.open(MemoryJournal()) as system, pytest.raises(RunFailed, match="no such account"):
        thread_of(system, bank.agent).run("go").result(timeout_s=WAIT_S)

    assert bank.moved.total() == 1


def test_a_retry_that_waits_long_waits_by_alarm_with_nothing_in_memory() -> None:
    bank = Bank(ConnectionError("down"), ConnectionError("down"), attempts=3, delay_s=60, retry_on=[OSError])
    journal = MemoryJournal()

    with bank.open(journal) as system:
        run = thread_of(system, bank.agent).run("go", run_id="r")
        run.started(timeout_s=WAIT_S)
        for attempts, seconds in ((1, 60.0), (2, 120.0)):
            until(partial(suspended_after, journal, attempts))
            bank.clock.advance(seconds - 0.001)
            assert bank.moved.total() == attempts
            bank.clock.advance(0.001)
        assert run.result(timeout_s=WAIT_S).output == "done"

    assert bank.moved == {"thread/t/r/tool:move:c1": 3}
    assert names(journal).count("run.woken") == 2


@pytest.mark.crash
@pytest.mark.scenario("RPL-09")
def test_a_retry_keeps_its_number_and_its_time_over_a_crash() -> None:
    bank = Bank(ConnectionError("down"), attempts=2, delay_s=60)
    journal = MemoryJournal()
    with bank.open(journal) as system:
        thread_of(system, bank.agent).run("go", run_id="r").started(timeout_s=WAIT_S)
        until(lambda: names(journal)[-1] == "run.suspended")
    cut = names(journal).index("step.delayed") + 1
    journal = journal_with(list(journal.read(T))[:cut])
    bank.errors = [ConnectionError("still down")]

    with bank.open(journal) as system:
        until(lambda: names(journal)[-1] == "run.suspended")
        assert bank.moved.total() == 1
        bank.clock.advance(60)
        with pytest.raises(RunFailed, match="still down"):
            thread_of(system, bank.agent).attach("r").result(timeout_s=WAIT_S)

    assert bank.moved.total() == 2


def test_an_attempt_that_takes_too_long_is_ended_and_recorded() -> None:
    bank = Bank(attempts=1, timeout_s=30)
    entered = asyncio.Event()

    async def move(amount: int) -> str:
        entered.set()
        await asyncio.Event().wait()
        return str(amount)

    tools = [Tool(move, metadata=tool_options(attempts=1, timeout_s=30))]
    agent = define_agent("bank", model=scripted_model(bank.script), tools=tools)

    with ActorSystem(MemoryJournal(), agents=[agent], clock=bank.clock) as system:
        run = thread_of(system, agent).run("go", run_id="r")
        until(entered.is_set)
        bank.clock.advance(31)
        with pytest.raises(RunFailed, match="longer than 30 s"):
            run.result(timeout_s=WAIT_S)


@pytest.mark.crash
def test_the_time_an_attempt_has_goes_on_while_the_process_is_down() -> None:
    bank = Bank(attempts=1, timeout_s=30)
    journal = MemoryJournal()
    with bank.open(journal) as system:
        thread_of(system, bank.agent).run("go", run_id="r").result(timeout_s=WAIT_S)
    journal = journal_with(list(journal.read(T))[: names(journal).index("step.started") + 1])
    bank.clock.advance(31)

    with bank.open(journal) as system, pytest.raises(RunFailed, match="longer than 30 s"):
        thread_of(system, bank.agent).attach("r").result(timeout_s=WAIT_S)


def test_a_turn_of_the_model_that_takes_too_long_ends_the_run() -> None:
    clock, asked = VirtualClock(), asyncio.Event()

    async def stuck(*_: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()

    script = Script([])
    script.respond = stuck  # pyright: ignore[reportAttributeAccessIssue]
    agent = define_agent("slow", model=scripted_model(script), turn_timeout_s=20)

    with ActorSystem(MemoryJournal(), agents=[agent], clock=clock) as system:
        run = thread_of(system, agent).run("go")
        until(asked.is_set)
        clock.advance(21)
        with pytest.raises(RunFailed, match="longer than 20 s"):
            run.result(timeout_s=WAIT_S)


def test_a_run_that_takes_too_long_is_ended_by_its_deadline_wherever_it_is() -> None:
    bank = Bank(needs_approval=True)
    journal = MemoryJournal()
    agent = define_agent(
        "bank",
        model=scripted_model(bank.script),
        tools=[Tool(bank.move, metadata=tool_options(needs_approval=True))],
        run_timeout_s=3600,
    )

    with ActorSystem(journal, agents=[agent], clock=bank.clock) as system:
        run = thread_of(system, agent).run("go", run_id="r")
        run.started(timeout_s=WAIT_S)
        until(lambda: names(journal)[-1] == "run.suspended")
        bank.clock.advance(3601)
        with pytest.raises(RunFailed, match="RunTimedOut"):
            run.result(timeout_s=WAIT_S)

    assert bank.moved.total() == 0


def test_a_step_that_may_run_once_and_takes_too_long_is_in_doubt_and_not_tried_again() -> None:
    bank, journal = Bank(), MemoryJournal()
    entered: list[str] = []

    async def move(amount: int) -> str:
        entered.append(tool_step().idempotency_key)
        await asyncio.Event().wait()
        return str(amount)

    tools = [Tool(move, metadata=tool_options(at_most_once=True, attempts=3, timeout_s=30))]
    bank.agent = define_agent("bank", model=scripted_model(bank.script), tools=tools)

    with bank.open(journal) as system:
        thread = thread_of(system, bank.agent)
        run = thread.run("go", run_id="r")
        until(lambda: entered)
        bank.clock.advance(31)
        until(lambda: thread.status("r") == "awaiting_input")
        view = thread.view().run("r")
        assert view is not None
        assert view.in_doubt == ["tool:move:c1"]
        thread.settle("r", "tool:move:c1", result="moved 5").get(timeout=WAIT_S)
        assert run.result(timeout_s=WAIT_S).output == "done"
        assert replay(thread, bank.agent).digests_equal

    assert entered == ["thread/t/r/tool:move:c1"]


def test_the_time_of_an_attempt_is_not_used_up_by_waiting_for_somebody() -> None:
    bank, journal = Bank(), MemoryJournal()

    async def move(amount: int) -> str:
        said = await tool_step().approve("really?")
        late = await tool_step().wait_for_signal("late")
        return f"{amount} {said.decision} {late}"

    tools = [Tool(move, metadata=tool_options(attempts=1, timeout_s=30))]
    bank.agent = define_agent("bank", model=scripted_model(bank.script), tools=tools)

    with bank.open(journal) as system:
        thread = thread_of(system, bank.agent)
        run = thread.run("go", run_id="r")
        run.started(timeout_s=WAIT_S)
        until(lambda: thread.status("r") == "awaiting_input")
        bank.clock.advance(3600)
        thread.approve(thread.approvals()[0].id).get(timeout=WAIT_S)
        until(lambda: names(journal).count("run.suspended") == 2)
        bank.clock.advance(3600)
        thread.signal("late", 1).get(timeout=WAIT_S)
        assert run.result(timeout_s=WAIT_S).output == "done"

    assert "5 approved 1" in str(bank.script.requests[-1][-1].parts[0])


def test_a_tool_that_waits_while_another_one_works_is_not_ended_for_its_time() -> None:
    bank, journal, entered, over = Bank(), MemoryJournal(), threading.Event(), threading.Event()

    async def ask() -> str:
        return str(await tool_step().wait_for_signal("go"))

    def work() -> str:
        entered.set()
        assert over.wait(WAIT_S)
        return "worked"

    bank.script = Script([tool_calls_turn(("c1", "ask", {}), ("c2", "work", {})), final_turn("done")])
    tools = [Tool(ask, metadata=tool_options(attempts=1, timeout_s=30)), work]
    bank.agent = define_agent("bank", model=scripted_model(bank.script), tools=tools)

    with bank.open(journal) as system:
        thread = thread_of(system, bank.agent)
        run = thread.run("go", run_id="r")
        until(lambda: entered.is_set() and "signal.awaited" in names(journal))
        bank.clock.advance(31)
        over.set()
        until(lambda: names(journal)[-1] == "run.suspended")
        thread.signal("go", "gone").get(timeout=WAIT_S)
        assert run.result(timeout_s=WAIT_S).output == "done"

    assert "step.failed" not in names(journal)
