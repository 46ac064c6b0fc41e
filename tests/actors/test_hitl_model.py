"""What the model and the tools see of people: plain words, once, in a conversation that a provider accepts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolReturnPart
from pydantic_ai.models.function import AgentInfo

from clew.actors import ActorSystem
from clew.actors.agent import AgentDefinition, define_agent, tool_options, tool_step
from clew.actors.testing import Script, final_turn, invalid_for_provider, scripted_model, tool_call_turn
from clew.journal import MemoryJournal
from tests.actors.payments import Payments, awaiting, said, waiting
from tests.actors.robot import journal_with
from tests.actors.support import WAIT_S, until

T = "thread/t"


@pytest.mark.scenario("HIT-14")
@pytest.mark.requirement("L-HITL-6")
def test_people_are_asked_once_about_a_call_that_the_model_repeats() -> None:
    def again(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return tool_call_turn(f"c{len(messages)}", "pay", {"amount": 5, "to": "bob"})

    payments = Payments()
    script = Script([again] * 10)
    insisting = replace(payments.agent, model=scripted_model(script), max_turns=6)
    with ActorSystem("memory:", agents=[insisting]) as system:
        thread = system.thread(insisting, "t", owner="ann")
        thread.run("pay", run_id="r").started(timeout_s=WAIT_S)
        [asked] = waiting(thread)
        thread.reject(asked.id, "too much").get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        shown = thread.view().approvals

    assert (answer.stopped, script.calls) == ("max_turns", 6)
    assert len(shown) == 1
    parts = [part for message in script.requests[-1] for part in message.parts if isinstance(part, ToolReturnPart)]
    told = [str(part.content) for part in parts]
    assert len(told) == 5
    assert all("refused" in text and "too much" in text and "Do not repeat" in text for text in told)
    assert payments.paid == []


@pytest.mark.scenario("HIT-10")
@pytest.mark.parametrize("policy", ["reject", "queue"])
def test_what_is_said_while_people_are_asked_waits_behind_and_is_answered(policy: str) -> None:
    payments, journal = Payments(on_concurrent_run=policy), MemoryJournal()
    with payments.open(journal) as system:
        awaiting(payments, system)
        thread = payments.thread(system)
        thread.run("actually use 5 instead", run_id="r2").started(timeout_s=WAIT_S)
        queued = [(run.run, run.status) for run in thread.queue()]
        assert (thread.status("r2"), thread.view().status, payments.paid) == ("queued", "awaiting_input", [])
    with payments.open(journal) as system:
        thread = payments.thread(system)
        thread.approve("r/approval:c1").get(timeout=WAIT_S)
        answers = [thread.attach(run).result(timeout_s=WAIT_S).output for run in ("r", "r2")]
        left = thread.queue()

    assert queued == [("r2", "queued")]
    assert answers == ["paid 5 to bob", "you said actually use 5 instead"]
    assert said(payments.script.requests[-1]) == ["pay", "actually use 5 instead"]
    assert left == []


@pytest.mark.scenario("HIT-02")
def test_only_a_recorded_decision_lets_a_call_be_made_however_its_history_came_here() -> None:
    first, journal = Payments(), MemoryJournal()
    with first.open(journal) as system:
        awaiting(first, system)
    events = list(journal.read_all())
    asked_for = next(n for n, event in enumerate(events) if event.type.name == "step.completed") + 1

    for cut in range(asked_for, len(events) + 1):
        payments = Payments()
        with payments.open(journal_with(events[:cut])) as system:
            thread = payments.thread(system)
            assert [asked.id for asked in waiting(thread)] == ["r/approval:c1"]
            thread.pause("r").get(timeout=WAIT_S)
            thread.resume("r").get(timeout=WAIT_S)
            waiting(thread)
            thread.cancel("r").get(timeout=WAIT_S)
            thread.run("pay it, as I said", run_id="r2").started(timeout_s=WAIT_S)
            [asked] = waiting(thread, "r2")

        assert asked.run == "r2"
        assert payments.paid == []


@pytest.mark.scenario("MSG-02")
@pytest.mark.parametrize("guard", ["none", "output", "redact"])
def test_a_call_and_its_result_are_kept_as_a_pair_whatever_guards_there_are(guard: str) -> None:
    payments = Payments()
    model = scripted_model(payments.script)
    agent = Agent(model, name="guarded", tools=_tools(payments), capabilities=_redactors(guard))
    if guard == "output":

        @agent.output_validator
        def check(ctx: RunContext[None], output: str) -> str:
            assert output
            return output

    definition = AgentDefinition(agent=agent)
    with ActorSystem("memory:", agents=[definition]) as system:
        thread = system.thread(definition, "t", owner="ann")
        thread.run("pay", run_id="r").started(timeout_s=WAIT_S)
        [asked] = waiting(thread)
        thread.approve(asked.id).get(timeout=WAIT_S)
        first = thread.attach("r").result(timeout_s=WAIT_S).output
        second = thread.run("next").result(timeout_s=WAIT_S).output

    assert (first, second) == ("(redacted)" if guard == "redact" else "paid 5 to bob", "you said next")
    assert payments.amounts == [5]
    assert [invalid_for_provider(sent) for sent in payments.script.requests] == [[], [], []]


def _tools(payments: Payments) -> list[Any]:
    return [Tool(payments.pay, metadata=tool_options(needs_approval=True))]


def _redactors(guard: str) -> list[Any]:
    def redact(messages: list[ModelMessage]) -> list[ModelMessage]:
        return [_redacted(message) if isinstance(message, ModelRequest) else message for message in messages]

    return [ProcessHistory(redact)] if guard == "redact" else []


def _redacted(message: ModelRequest) -> ModelRequest:
    parts = [replace(p, content="(redacted)") if isinstance(p, ToolReturnPart) else p for p in message.parts]
    return replace(message, parts=parts)


@pytest.mark.parametrize("how", ["signal", "question"])
def test_a_tool_that_catches_every_exception_does_not_catch_the_wait_in_it(how: str) -> None:
    done: list[str] = []

    async def remove() -> str:
        try:
            if how == "signal":
                await tool_step().wait_for_signal("go")
            elif not (await tool_step().approve("remove it?")).approved:
                return "not removed"
        except Exception:  # noqa: BLE001, S110  (as careless as it may be)
            pass
        done.append("removed")
        return "removed"

    agent = define_agent(
        "remover", model=scripted_model([tool_call_turn("c1", "remove", {}), final_turn("done")]), tools=[remove]
    )
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        run = thread.run("remove", run_id="r")
        run.started(timeout_s=WAIT_S)
        until(lambda: thread.status("r") == "awaiting_input")
        before = list(done)
        if how == "signal":
            thread.signal("go").get(timeout=WAIT_S)
        else:
            thread.approve(thread.approvals()[0].id).get(timeout=WAIT_S)
        answer = run.result(timeout_s=WAIT_S)

    assert (before, done, answer.output) == ([], ["removed"], "done")


@pytest.mark.requirement("L-RUN-6")
async def test_runs_and_decisions_are_awaited_from_within_a_tool_of_another_agent() -> None:
    payments, systems = Payments(), list[ActorSystem]()

    async def delegate() -> str:
        thread = payments.thread(systems[0])
        run = thread.run("pay", run_id="r")
        await asyncio.to_thread(run.started)
        async for event in thread.follow():
            if event.type.name == "run.suspended":
                break
        await thread.approve(thread.approvals()[0].id, by="ann")
        return (await run).output

    boss = define_agent(
        "boss", model=scripted_model([tool_call_turn("b1", "delegate", {}), final_turn("done")]), tools=[delegate]
    )
    async with ActorSystem("memory:", agents=[payments.agent, boss]) as system:
        systems.append(system)
        answer = await system.thread(boss, "boss").run("go")

    assert (answer.output, payments.amounts) == ("done", [5])
