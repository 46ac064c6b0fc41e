"""A tool that catches whatever there is: the cancel that lets go of its wait is no answer, and nothing rests on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import NoneType
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.toolsets import FunctionToolset, ToolsetTool, WrapperToolset

from clew.actors import ActorSystem, PauseSwallowed
from clew.actors.agent import AgentDefinition, Thread, define_agent, replay, tool_options, tool_step
from clew.actors.testing import final_turn, following_model, tool_calls_turn
from clew.journal import Commit, JournalFull, MemoryJournal, NewEvent
from tests.actors.payments import Call, waiting
from tests.actors.support import WAIT_S, events_of, until

T = "thread/t"
STEP = "tool:remove:c1"

Ask = Callable[[], Awaitable[object]]
Say = Callable[[Any], object]


async def bare_except() -> None:
    try:  # noqa: SIM105  (as careless as it may be)
        await tool_step().approve("remove it?")
    except:  # noqa: E722, S110  (as above)
        pass


async def careless() -> None:
    with suppress(Exception):
        await tool_step().approve("remove it?")


async def suppressed() -> None:
    with suppress(BaseException):
        await tool_step().approve("remove it?")


async def again_and_again() -> None:
    for _ in range(20):
        with suppress(BaseException):
            await tool_step().approve("remove it?")
            return


async def another_error() -> None:
    try:
        await tool_step().approve("remove it?")
    except BaseException as error:
        raise ValueError("nobody answers") from error


def nothing(step: Any) -> None:
    """Do nothing more with the step."""


SAYS: dict[str, Say] = {
    "nothing": nothing,
    "idempotency_key": lambda step: step.idempotency_key,
    "get_state": lambda step: step.get_state(),
    "set_state": lambda step: step.set_state({"removed": True}),
    "update_state": lambda step: step.update_state(list),
    "signal": lambda step: step.signal("t", "removed"),
    "unschedule": lambda step: step.unschedule("removal"),
}


def remover(ask: Ask, done: list[str], say: Say = nothing, beside: Ask | None = None) -> AgentDefinition[None, str]:
    """An agent whose tool asks before it removes something, and `beside` it maybe does something else."""

    async def remove() -> str:
        step = tool_step()
        await ask()
        say(step)
        done.append("removed")
        return "removed"

    async def look() -> str:
        if beside is not None:
            await beside()
        return "looked"

    calls: list[Call] = [("c1", "remove", {}), ("c2", "look", {})]
    turns = [tool_calls_turn(*calls[: 1 if beside is None else 2]), final_turn("done")]
    return define_agent("remover", model=following_model(turns), tools=[remove, look])


def asked(system: ActorSystem, agent: AgentDefinition[None, str]) -> Thread[str]:
    """Have it ask, and return its thread once nothing of it is left."""
    thread = system.thread(agent, "t", owner="ann")
    thread.run("remove", run_id="r").started(timeout_s=WAIT_S)
    waiting(thread)
    return thread


@pytest.mark.parametrize("ask", [bare_except, suppressed, again_and_again, another_error])
def test_a_pause_that_a_tool_swallows_is_reported_and_records_nothing(ask: Ask) -> None:
    done: list[str] = []
    agent = remover(ask, done, lambda step: step.idempotency_key)
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = asked(system, agent)
        failures, before, recorded = list(system.failures), list(done), events_of(system.journal, T)
        thread.approve(thread.approvals()[0].id).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        replayed = replay(thread, agent)

    [error] = [failure.error for failure in failures]
    assert isinstance(error, PauseSwallowed)
    assert (error.thread, error.run, error.step) == (T, "r", STEP)
    assert recorded[-2:] == ["requested", "suspended"]
    assert before == []
    assert done == ["removed"]
    assert answer.output == "done"
    assert replayed.digests_equal


@pytest.mark.parametrize("use", SAYS)
def test_a_step_takes_nothing_more_from_a_tool_that_swallowed_its_pause(use: str) -> None:
    done: list[str] = []
    agent = remover(bare_except, done, SAYS[use])
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = asked(system, agent)
        failures, recorded, state = len(system.failures), events_of(system.journal, T), thread.state()

    # What a tool does by itself, without its step, nobody can hold back.
    assert done == (["removed"] if use == "nothing" else [])
    assert recorded[-2:] == ["requested", "suspended"]
    assert (failures, state) == (1, None)


class Careless(WrapperToolset[None]):
    """Makes an answer of whatever goes wrong with a call."""

    async def call_tool(self, name: str, tool_args: Any, ctx: RunContext[None], tool: ToolsetTool[None]) -> Any:
        try:
            return await super().call_tool(name, tool_args, ctx, tool)
        except:  # noqa: E722  (as above)
            return "all is well"


def test_a_gate_before_a_tool_holds_whatever_is_wrapped_around_the_call() -> None:
    done: list[str] = []

    def remove() -> str:
        done.append("removed")
        return "removed"

    tool = Tool(remove, metadata=tool_options(needs_approval=True))
    tools = Careless(FunctionToolset([tool], id="files"))
    turns = [tool_calls_turn(("c1", "remove", {})), final_turn("done")]
    agent = Agent(following_model(turns), name="remover", deps_type=NoneType, toolsets=[tools])
    definition = AgentDefinition(agent=agent)
    with ActorSystem("memory:", agents=[definition]) as system:
        thread = asked(system, definition)
        before, recorded = list(done), events_of(system.journal, T)
        thread.approve(thread.approvals()[0].id).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)

    assert (before, done, answer.output) == ([], ["removed"], "done")
    assert recorded[-2:] == ["requested", "suspended"]


class FullOnce(MemoryJournal):
    """A journal that has no room for a question, the first time it is asked."""

    refused = 0

    def append(self, stream: str, events: Sequence[NewEvent], **options: Any) -> Commit:
        asks = any(b'"approval.requested"' in event.canonical for event in events)
        if asks and not self.refused:
            self.refused += 1
            raise JournalFull(path="memory:", reason="a test")
        return super().append(stream, events, **options)


@pytest.mark.parametrize("ask", [careless, bare_except])
def test_a_question_that_could_not_be_recorded_is_no_answer_either(ask: Ask) -> None:
    done: list[str] = []
    journal, agent = FullOnce(), remover(ask, done, SAYS["idempotency_key"])
    with ActorSystem(journal, agents=[agent]) as system:
        thread = asked(system, agent)
        before = list(done)
        thread.approve(thread.approvals()[0].id).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        replayed = replay(thread, agent)

    assert journal.refused == 1
    assert (before, done, answer.output) == ([], ["removed"], "done")
    assert replayed.digests_equal


def test_a_pause_that_is_swallowed_while_the_system_closes_is_asked_again() -> None:
    done: list[str] = []
    journal, agent = MemoryJournal(), remover(bare_except, done, beside=asyncio.Event().wait)
    with ActorSystem(journal, agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        thread.run("remove", run_id="r").started(timeout_s=WAIT_S)
        until(thread.approvals)
    failures, recorded = list(system.failures), events_of(journal, T)
    agent = remover(bare_except, done, beside=lambda: asyncio.sleep(0))
    with ActorSystem(journal, agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        [again] = waiting(thread)
        thread.approve(again.id).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)

    assert [type(failure.error) for failure in failures] == [PauseSwallowed]
    assert recorded[-1] == "requested"
    assert answer.output == "done"
