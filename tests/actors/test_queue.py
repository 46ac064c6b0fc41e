"""Runs that are asked for while another one is open: refused, put in its place, or answered in their turn."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo

from clew.actors import ActorSystem, RunCancelled, RunConflict, UnknownRun
from clew.actors.agent import AgentDefinition, define_agent
from clew.actors.testing import Script, VirtualClock, final_turn, invalid_for_provider, scripted_model, tool_call_turn
from clew.journal import MemoryJournal
from clew.projections import Message
from tests.actors.payments import said
from tests.actors.support import WAIT_S, events_of, until


class Gate:
    """Opened by a test, passed on the loop that tools run on; whoever is cancelled before it leaves nothing behind."""

    def __init__(self) -> None:
        self._open = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def set(self) -> None:
        self._open = True
        for loop, passed in self._waiting:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(passed.set)

    async def wait(self) -> None:
        passed = asyncio.Event()
        self._waiting.append((asyncio.get_running_loop(), passed))
        if not self._open:
            await passed.wait()


class Busy:
    """An agent that is in its tool until the gate opens, when it is told to work; any other prompt it only answers."""

    def __init__(self, **options: Any) -> None:
        self.gate = Gate()
        self.entered = threading.Event()
        self.clock = VirtualClock()
        self.worked = 0

        async def work() -> str:
            self.entered.set()
            await self.gate.wait()
            self.worked += 1
            return "worked"

        self.script = Script([self.respond] * 30)
        self.agent: AgentDefinition[Any, str] = define_agent(
            "busy", model=scripted_model(self.script), tools=[work], **options
        )

    def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert invalid_for_provider(messages) == []
        prompts = [part for part in messages[-1].parts if isinstance(part, UserPromptPart)]
        if prompts and prompts[-1].content == "work":
            return tool_call_turn(f"w{len(messages)}", "work", {})
        done = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        return final_turn("done" if done and not prompts else f"you said {said(messages)[-1]}")

    def open(self, journal: Any) -> ActorSystem:
        return ActorSystem(journal, agents=[self.agent], clock=self.clock)


@pytest.mark.requirement("L-CONC-1", "L-CONC-4", "L-CONC-7")
def test_queued_runs_are_answered_in_their_order_and_one_too_many_is_refused() -> None:
    busy = Busy(on_concurrent_run="queue")
    with busy.open("memory:") as system:
        thread = system.thread(busy.agent, "t", owner="ann")
        first = thread.run("work", run_id="r0")
        assert busy.entered.wait(WAIT_S)
        behind = [thread.run(f"say {n}", run_id=f"r{n}") for n in range(1, 6)]
        for run in behind:
            run.started(timeout_s=WAIT_S)
        listed = [(run.run, thread.status(run.run)) for run in thread.queue()]
        with pytest.raises(RunConflict, match="5 more wait behind it"):
            thread.run("say 6", run_id="r6").result(timeout_s=WAIT_S)
        thread.run("say 1", run_id="r1").started(timeout_s=WAIT_S)
        busy.gate.set()
        answers = [run.result(timeout_s=WAIT_S).output for run in (first, *behind)]
        left, prompts = thread.queue(), said(busy.script.requests[-1])

    assert listed == [(f"r{n}", "queued") for n in range(1, 6)]
    assert answers == ["done", *(f"you said say {n}" for n in range(1, 6))]
    assert prompts == ["work", *(f"say {n}" for n in range(1, 6))]
    assert left == []


@pytest.mark.requirement("L-CONC-4", "L-CONC-5")
def test_a_queue_survives_a_restart_and_goes_on_by_itself(tmp_path: Path) -> None:
    busy, path = Busy(on_concurrent_run="queue"), tmp_path / "data"
    with busy.open(path) as system:
        thread = system.thread(busy.agent, "t", owner="ann")
        thread.run("work", run_id="r0").started(timeout_s=WAIT_S)
        thread.run("then this", run_id="r1").started(timeout_s=WAIT_S)
        assert busy.entered.wait(WAIT_S)
    busy.gate.set()
    with busy.open(path) as system:
        thread = system.thread(busy.agent, "t", owner="ann")
        answers = [thread.attach(run).result(timeout_s=WAIT_S).output for run in ("r0", "r1")]

    assert answers == ["done", "you said then this"]
    assert busy.worked == 1


@pytest.mark.requirement("L-CONC-2")
def test_each_run_may_say_itself_what_is_to_become_of_it() -> None:
    busy = Busy(on_concurrent_run="queue")
    with busy.open("memory:") as system:
        thread = system.thread(busy.agent, "t", owner="ann")
        thread.run("work", run_id="r0").started(timeout_s=WAIT_S)
        with pytest.raises(RunConflict) as refused:
            thread.run("now", on_concurrent_run="reject").result(timeout_s=WAIT_S)
        busy.gate.set()

    assert (refused.value.run, refused.value.status) == ("r0", "running")


@pytest.mark.requirement("L-CONC-3")
def test_a_run_that_replaces_another_one_leaves_those_that_wait_where_they_are() -> None:
    busy = Busy(on_concurrent_run="queue")
    with busy.open("memory:") as system:
        thread = system.thread(busy.agent, "t", owner="ann")
        first = thread.run("work", run_id="r0")
        queued = thread.run("third", run_id="r1")
        queued.started(timeout_s=WAIT_S)
        assert busy.entered.wait(WAIT_S)
        taking = thread.run("second", run_id="r2", on_concurrent_run="replace")
        with pytest.raises(RunCancelled, match="replaced by run r2"):
            first.result(timeout_s=WAIT_S)
        answers = [run.result(timeout_s=WAIT_S).output for run in (taking, queued)]
        statuses = {run.run: run.status for run in thread.view().runs}

    assert answers == ["you said second", "you said third"]
    assert statuses == {"r0": "cancelled", "r2": "done", "r1": "done"}
    assert busy.worked == 0


@pytest.mark.requirement("L-CONC-4")
def test_a_run_that_waits_too_long_is_given_up_and_its_prompt_was_never_said() -> None:
    busy = Busy(on_concurrent_run="queue", queue_timeout_s=60.0)
    with busy.open("memory:") as system:
        thread = system.thread(busy.agent, "t", owner="ann")
        first = thread.run("work", run_id="r0")
        late = thread.run("too late", run_id="r1")
        late.started(timeout_s=WAIT_S)
        busy.clock.advance(60)
        with pytest.raises(RunCancelled, match="waited too long"):
            late.result(timeout_s=WAIT_S)
        busy.gate.set()
        first.result(timeout_s=WAIT_S)
        messages: list[Message] = thread.messages_json()

    assert "too late" not in str(messages)


@pytest.mark.requirement("L-CONC-6", "L-RUN-11")
def test_a_run_that_is_cancelled_in_the_queue_never_begins_and_says_so_to_whoever_waits() -> None:
    busy = Busy(on_concurrent_run="queue")
    with busy.open("memory:") as system:
        thread = system.thread(busy.agent, "t", owner="ann")
        first = thread.run("work", run_id="r0")
        one, two = thread.run("one", run_id="r1"), thread.run("two", run_id="r2")
        two.started(timeout_s=WAIT_S)
        outcome = thread.cancel("r1", reason="not needed").get(timeout=WAIT_S)
        with pytest.raises(RunCancelled, match="not needed"):
            one.result(timeout_s=WAIT_S)
        statuses = [thread.status(run) for run in ("r0", "r1", "r2")]
        with pytest.raises(UnknownRun):
            thread.cancel("r3").get(timeout=WAIT_S)
        busy.gate.set()
        answers = [run.result(timeout_s=WAIT_S).output for run in (first, two)]

    assert outcome.cancelled
    assert statuses == ["running", "cancelled", "queued"]
    assert answers == ["done", "you said two"]
    assert said(busy.script.requests[-1]) == ["work", "two"]


async def test_queued_runs_are_awaited_on_a_loop() -> None:
    busy, journal = Busy(on_concurrent_run="queue"), MemoryJournal()
    async with busy.open(journal) as system:
        thread = system.thread(busy.agent, "t", owner="ann")
        waiting = [asyncio.ensure_future(_answer(thread.run(prompt))) for prompt in ("work", "one", "two")]
        await asyncio.to_thread(until, lambda: events_of(journal, "thread/t").count("queued") == 2)
        busy.gate.set()
        answers = await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S)

    assert answers == ["done", "you said one", "you said two"]


async def _answer(run: Any) -> str:
    return (await run).output


@pytest.mark.requirement("L-CONC-6", "L-RUN-3", "L-RUN-11")
def test_a_whole_thread_is_cancelled_with_all_that_waits_in_it() -> None:
    busy = Busy(on_concurrent_run="queue")
    with busy.open("memory:") as system:
        thread = system.thread(busy.agent, "t", owner="ann")
        thread.run("work", run_id="r0").started(timeout_s=WAIT_S)
        thread.run("one", run_id="r1").started(timeout_s=WAIT_S)
        assert busy.entered.wait(WAIT_S)
        outcome = thread.cancel().get(timeout=WAIT_S)
        status, statuses = thread.view().status, {run.run: run.status for run in thread.view().runs}
        after = thread.run("hello").result(timeout_s=WAIT_S).output
        again = thread.cancel().get(timeout=WAIT_S)
        until(lambda: thread.view().open_run is None)

    assert outcome.cancelled
    assert (status, statuses) == ("cancelled", {"r0": "cancelled", "r1": "cancelled"})
    assert after == "you said hello"
    assert (again.status, again.cancelled) == ("done", False)
    assert busy.worked == 0
