"""What runs get from outside and what tools send to others: taken once, delivered once, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext

from clew.actors import ActorSystem, SignalTimedOut
from clew.actors.agent import AgentDefinition, RunNow, define_agent, replay, this_run, tool_step
from clew.actors.testing import (
    VirtualClock,
    World,
    crash_points,
    final_turn,
    following_model,
    scripted_model,
    tool_call_turn,
    tool_calls_turn,
)
from clew.journal import MemoryJournal
from clew.journal.facts import (
    MessageDelivered,
    MessageSent,
    RunFinished,
    SignalReceived,
    SignalTaken,
)
from clew.journal.facts import SignalTimedOut as SignalTimedOutFact
from tests.actors.support import WAIT_S
from tests.actors.ticking import Ticker, facts, settled
from tests.actors.transfers import CHECKING, Balance, Deposit, deposits

T = "thread/t"
SECOND = 10**9


@pytest.mark.crash
@pytest.mark.requirement("L-RUN-5")
def test_a_crash_anywhere_sends_signals_and_takes_each_once_and_in_order() -> None:
    async def life(world: World) -> Any:
        async def tell(n: int) -> str:
            step = tool_step()
            for cents in (n, n + 1):
                step.send(CHECKING, "bob", Deposit(cents))
            step.signal("other", "go", {"n": n})
            return "told"

        async def listen() -> list[Any]:
            return [await tool_step().wait_for_signal("go") for _ in range(2)]

        calls = [tool_call_turn("c1", "tell", {"n": 1}), tool_call_turn("c2", "tell", {"n": 3}), final_turn("told")]
        teller = define_agent("teller", model=following_model(calls), tools=[tell])
        listener = define_agent(
            "listener", model=following_model([tool_call_turn("c", "listen", {}), final_turn("heard")]), tools=[listen]
        )
        async with world.open(agents=[teller, listener], actors=[CHECKING]) as system:
            heard = system.thread(listener, "other", owner="ann").run("listen", run_id="r")
            await system.thread(teller, "t", owner="ann").run("tell", run_id="r")
            await heard
            await world.until(lambda: len(facts(world.journal, T, MessageDelivered)) == 6)
        assert deposits(world.journal, "checking/bob") == [1, 2, 3, 4]
        payloads = [msgspec.json.decode(fact.payload) for fact in facts(world.journal, "thread/other", SignalReceived)]
        assert payloads == [{"n": 1}, {"n": 3}]
        return len(facts(world.journal, "thread/other", SignalTaken))

    assert len(crash_points(life).points) > 60


@pytest.mark.scenario("CON-08")
@pytest.mark.requirement("L-RUN-5")
@pytest.mark.parametrize("first", ["signal", "time", "both"])
def test_a_wait_gets_a_signal_or_runs_out_of_time_but_never_both(first: str) -> None:
    got: list[Any] = []

    async def listen() -> str:
        try:
            got.append(await tool_step().wait_for_signal("go", timeout_s=60))
        except SignalTimedOut:
            got.append("nothing")
        return str(got[-1])

    async def life(world: World) -> None:
        agent = define_agent(
            "listener", model=following_model([tool_call_turn("c", "listen", {}), final_turn("heard")]), tools=[listen]
        )
        async with world.open(agents=[agent]) as system:
            thread = system.thread(agent, "t", owner="ann")
            run = thread.run("listen", run_id="r")
            await world.until(lambda: [e.type.name for e in world.journal.read(T)][-1:] == ["run.suspended"])
            if first == "both":
                # The alarm is due now, and was not looked at yet.
                world.clock.jump(60)
            else:
                await asyncio.sleep(59.0 if first == "signal" else 61.0)
            await thread.signal("go", "a letter", id="s")
            await run

    world = World()
    world.run(life)

    ends = facts(world.journal, T, SignalTaken, SignalTimedOutFact)
    assert len(ends) == len(got) == len(facts(world.journal, T, RunFinished)) == 1
    assert isinstance(ends[0], SignalTaken) is (got == ["a letter"])
    if first != "both":
        assert got == ["a letter" if first == "signal" else "nothing"]


def test_a_signal_that_comes_while_the_run_is_at_work_is_there_when_it_waits() -> None:
    entered, gate, got = threading.Event(), threading.Event(), list[Any]()

    def work() -> str:
        entered.set()
        assert gate.wait(WAIT_S)
        return "worked"

    async def listen() -> str:
        got.append(await tool_step().wait_for_signal("go"))
        return "heard"

    turns = [tool_call_turn("c1", "work", {}), tool_call_turn("c2", "listen", {}), final_turn("done")]
    agent = define_agent("worker", model=scripted_model(turns), tools=[work, listen])
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t")
        run = thread.run("work", run_id="r")
        assert entered.wait(WAIT_S)
        thread.signal("go", 1).get(timeout=WAIT_S)
        gate.set()
        run.result(timeout_s=WAIT_S)
        names = [event.type.name for event in system.journal.read(T)]

    assert got == [1]
    assert names.index("signal.received") < names.index("signal.awaited")


def test_a_tool_signals_threads_of_its_own_owner_alone() -> None:
    ticker, journal = Ticker(), MemoryJournal()

    async def tell(thread: str) -> str:
        tool_step().signal(thread, "go", "psst")
        return "told"

    turns = [tool_calls_turn(("c1", "tell", {"thread": "hers"}), ("c2", "tell", {"thread": "his"})), final_turn("ok")]
    teller = define_agent("teller", model=scripted_model(turns), tools=[tell])
    with ActorSystem(journal, agents=[ticker.agent, teller], clock=ticker.clock, idle_s=0.01) as system:
        for key, owner in (("hers", "ann"), ("his", "bob")):
            system.thread(ticker.agent, key, owner=owner).run("hold", run_id="r").started(timeout_s=WAIT_S)
        settled(system)
        system.thread(teller, "t", owner="ann").run("tell").result(timeout_s=WAIT_S)
        settled(system, lambda: len(facts(journal, T, MessageDelivered)) == 2)
        status = [system.thread(ticker.agent, key, owner=o).status("r") for key, o in (("hers", "ann"), ("his", "bob"))]

    refused = {fact.id.partition("/")[2]: fact.refused for fact in facts(journal, T, MessageDelivered)}
    assert status == ["done", "awaiting_input"]
    assert refused["tool:tell:c1:0"] is None
    assert refused["tool:tell:c2:0"].type == "UnknownThread"
    assert facts(journal, "thread/his", SignalReceived) == []


def test_what_a_kind_takes_from_nobody_is_refused_in_the_tool() -> None:
    told: list[str] = []

    async def tell() -> str:
        with pytest.raises(TypeError, match="takes no Balance from others") as refused:
            tool_step().send(CHECKING, "bob", Balance())
        told.append(str(refused.value))
        return "ok"

    model = scripted_model([tool_call_turn("c", "tell", {}), final_turn("ok")])
    agent = define_agent("teller", model=model, tools=[tell])
    with ActorSystem("memory:", agents=[agent], actors=[CHECKING]) as system:
        system.thread(agent, "t").run("tell").result(timeout_s=WAIT_S)

        assert facts(system.journal, T, MessageSent) == []
    assert len(told) == 1


async def instructed(run: RunNow) -> str:
    """Instructions that somebody gives while the run waits for them."""
    return f"do {await run.wait_for_signal('go')}"


class Gate(AbstractCapability[Any]):
    """A hook that lets no request out before somebody says so."""

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        await this_run().wait_for_signal("go")
        return request_context


@pytest.mark.requirement("L-RUN-5")
@pytest.mark.parametrize("where", ["instructions", "hook"])
def test_a_run_waits_between_turns_with_nothing_of_it_in_memory(where: str) -> None:
    turns = [tool_call_turn("c1", "look", {}), final_turn("done")]
    clock, looked, journal = VirtualClock(), list[str](), MemoryJournal()

    def look() -> str:
        looked.append("x")
        return "looked"

    gates: list[Any] = [Gate()] if where == "hook" else []
    agent = Agent(scripted_model(turns), name="gated", tools=[look], capabilities=gates)
    definition = AgentDefinition(agent=agent, instructions=instructed if where == "instructions" else None)
    waits = 2 if where == "hook" else 1
    for number in range(waits):
        with ActorSystem(journal, agents=[definition], clock=clock, idle_s=0.01) as system:
            thread = system.thread(definition, "t", owner="ann")
            thread.run("go", run_id="r").started(timeout_s=WAIT_S)
            settled(system, lambda: [e.type.name for e in journal.read(T)][-1] == "run.suspended")
            clock.advance(86_400)
            thread.signal("go", number).get(timeout=WAIT_S)
            settled(system)
    with ActorSystem(journal, agents=[definition], clock=clock, idle_s=0.01) as system:
        thread = system.thread(definition, "t", owner="ann")
        output = thread.attach("r").result(timeout_s=WAIT_S).output
        replayed = replay(thread, definition)

    assert (output, looked) == ("done", ["x"])
    assert len(facts(journal, T, SignalTaken)) == waits
    assert replayed.digests_equal
