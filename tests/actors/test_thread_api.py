"""A conversation as its users hold it: started, awaited, followed, read; and only by its owner."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_type

import pykka
import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, FunctionToolset, ModelResponse, RunContext, Tool
from pydantic_ai.capabilities import Hooks
from pydantic_ai.messages import ModelMessage, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from clew.actors import ActorSystem, BlockingAsk, RunConflict, UnknownKind, UnknownThread
from clew.actors.agent import AgentDefinition, Answer, Thread, define_agent, replay, tool_options
from clew.actors.testing import agent_harness, final_turn, scripted_model, tool_call_turn, tool_calls_turn
from clew.journal import InvalidName, NotRepresentable
from tests.actors.robot import Robot, history_of, journal_with


class Place(BaseModel):
    name: str


def echo() -> Agent[None, str]:
    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = [p.content for m in messages for p in m.parts if isinstance(p, UserPromptPart)]
        return final_turn(f"you said {said[-1]!r}, {len(said)} messages in all")

    return Agent(FunctionModel(respond, model_name="echo"), name="echo")


def _model_of(env: Mapping[str, str]) -> TestModel:
    return TestModel()


@pytest.mark.requirement("L-DEF-1", "L-DEF-7")
@pytest.mark.parametrize("model", ["test", TestModel(), _model_of], ids=["name", "model", "factory"])
def test_one_declaration_is_enough_to_run(model: Any) -> None:
    definition = define_agent("helper", model=model, instructions="Help.", tools=[len])

    with ActorSystem("memory:", agents=[definition]) as system:
        answer = system.thread(definition, "t").run("Hello").result(timeout_s=10)

    assert answer.stopped == "final"


@pytest.mark.requirement("L-RUN-1", "L-RUN-6")
async def test_runs_start_from_sync_code_async_code_and_inside_a_tool() -> None:
    inner = echo()
    outer = Agent(scripted_model([tool_call_turn("c1", "ask", {}), final_turn("done")]), name="outer")
    systems: list[ActorSystem] = []

    @outer.tool_plain
    async def ask() -> str:
        return (await systems[0].thread(inner, "inner").run("from a tool", run_id="r")).output

    async with ActorSystem("memory:", agents=[inner, outer]) as system:
        systems.append(system)
        from_async = await system.thread(inner, "a").run("async")
        from_sync = await asyncio.to_thread(lambda: system.thread(inner, "b").run("sync").result(timeout_s=10))
        from_tool = await system.thread(outer, "c").run("delegate")
        asked = await system.thread(inner, "inner").attach("r")

    assert from_async.output == "you said 'async', 1 messages in all"
    assert from_sync.output == "you said 'sync', 1 messages in all"
    assert from_tool.output == "done"
    assert asked.output == "you said 'from a tool', 1 messages in all"


def test_the_answer_has_the_agents_output_type() -> None:
    agent = Agent("test", name="places", output_type=Place)

    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t")
        answer = thread.run("Where?").result(timeout_s=10)

    assert_type(thread, Thread[Place])
    assert_type(answer, Answer[Place])
    assert_type(answer.output, Place)
    assert isinstance(answer.output, Place)


@pytest.mark.requirement("L-RUN-10", "L-ACL-3")
def test_the_first_run_fixes_owner_and_title() -> None:
    agent = echo()
    with ActorSystem("memory:", agents=[agent]) as system:
        system.thread(agent, "t", owner="ann", title="Shoes").run("one").result(timeout_s=10)
        system.thread(agent, "t", owner="ann", title="Hats").run("two").result(timeout_s=10)
        view = system.thread(agent, "t", owner="ann").view()

    assert (view.owner, view.title, len(view.runs)) == ("ann", "Shoes", 2)


@pytest.mark.requirement("L-ACL-1", "L-ACL-2", "L-ACL-5")
@pytest.mark.parametrize("stranger", ["bob", "Ann", "", None])
def test_to_anyone_but_its_owner_a_thread_does_not_exist(stranger: str | None) -> None:
    agent = echo()
    with ActorSystem("memory:", agents=[agent]) as system:
        system.thread(agent, "mine", owner="ann").run("secret", run_id="r").result(timeout_s=10)
        before = list(system.journal.read_all())

        def refusals(key: str) -> list[str]:
            thread, texts = system.thread(agent, key, owner=stranger), list[str]()
            for act in (
                thread.view,
                thread.messages,
                thread.events,
                thread.state,
                lambda: thread.status("r"),
                lambda: thread.attach("r").result(timeout_s=5),
            ):
                with pytest.raises(UnknownThread) as refused:
                    act()
                texts.append(str(refused.value).replace(key, "KEY"))
            return texts

        assert refusals("mine") == refusals("none")
        intruder = system.thread(agent, "mine", owner=stranger)
        for write in (intruder.run("hi"), intruder.run("hi", run_id="r"), intruder.cancel("r"), intruder.resume("r")):
            with pytest.raises(UnknownThread):
                write.started(timeout_s=5) if not isinstance(write, pykka.Future) else write.get(timeout=5)
        assert list(system.journal.read_all()) == before


@pytest.mark.requirement("L-ACL-4")
def test_a_thread_without_an_owner_is_open_to_whoever_knows_its_key() -> None:
    agent = echo()
    with ActorSystem("memory:", agents=[agent]) as system:
        system.thread(agent, "open").run("hello").result(timeout_s=10)
        answer = system.thread(agent, "open", owner="bob").run("hello again").result(timeout_s=10)
        view = system.thread(agent, "open").view()

    assert answer.output.endswith("2 messages in all")
    assert view.owner is None


@pytest.mark.requirement("L-CONC-1", "L-CONC-2")
def test_a_second_run_is_refused_while_one_is_open() -> None:
    agent = Agent(scripted_model([tool_call_turn("c1", "wait", {}), final_turn("done")]), name="busy")
    waiting, go_on = threading.Event(), threading.Event()

    @agent.tool_plain
    def wait() -> str:
        waiting.set()
        go_on.wait(10)
        return "waited"

    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t")
        first = thread.run("one", run_id="first")
        waiting.wait(10)
        with pytest.raises(RunConflict, match="first is running"):
            thread.run("two").result(timeout_s=5)
        go_on.set()

        assert first.result(timeout_s=10).output == "done"


@pytest.mark.requirement("L-RUN-7", "L-RUN-8", "L-DEF-3", "L-DEF-5")
async def test_observers_see_each_message_as_it_becomes_durable_and_can_resume() -> None:
    agent, gates = Agent("test", name="stepwise"), [asyncio.Event() for _ in range(2)]
    loop = asyncio.get_running_loop()

    @agent.tool_plain
    async def step(n: int) -> str:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(gates[n].wait(), loop))
        return f"step {n}"

    script = [tool_call_turn("c0", "step", {"n": 0}), tool_call_turn("c1", "step", {"n": 1}), final_turn("done")]
    with agent_harness(agent, script) as harness:
        thread = harness.conversation()
        run = thread.run("Go")
        await asyncio.to_thread(run.started)
        seen: list[str] = []
        async for event in thread.follow():
            seen.append(event.type.name)
            if len(seen) == 3:
                break
        kinds = [message.kind for message in thread.messages()]
        gates[0].set()
        async for event in thread.follow(after=3):
            seen.append(event.type.name)
            if len(seen) == 5:
                break
        gates[1].set()
        answer = await run
        rest = [event.sequence for event in thread.events(after=5)]

    assert seen == ["thread.opened", "run.started", "step.completed", "step.completed", "step.completed"]
    assert kinds == ["request", "response"]
    assert answer.output == "done"
    assert rest == [6, 7, 8]


@pytest.mark.requirement("L-DEF-11", "L-DEF-13")
def test_threads_and_actors_of_any_other_kind_cannot_collide(tmp_path: Path) -> None:
    agent = echo()
    with ActorSystem(tmp_path / "data", agents=[agent]) as system:
        system.thread(agent, "order/1042").run("hi").result(timeout_s=10)
        streams = [head.stream for head in system.journal.streams()]

    assert streams == ["thread/order/1042"]


@pytest.mark.scenario("SEC-01", "JRN-10")
@pytest.mark.parametrize(
    "key",
    ["../../x", "/etc/x", "..", "C:\\x", "a/../../b", "%2e%2e%2fx", "CON", "é" * 1000, "a\x00b", "", "x" * 5000, "\n"],
)
def test_any_key_is_opaque_or_refused_by_name(key: str, tmp_path: Path) -> None:
    agent = echo()
    with ActorSystem(tmp_path / "data", agents=[agent]) as system:
        try:
            output = system.thread(agent, key).run("hi").result(timeout_s=10).output
        except InvalidName as refused:
            output = f"refused: {refused.reason}"

    assert output.startswith(("you said 'hi', 1 messages in all", "refused: "))
    assert output.startswith("refused") == (not key.isprintable() or not 0 < len(key.encode()) < 2042)

    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def blobs_of(message: ModelMessage) -> list[bytes]:
    content = [c for p in message.parts if isinstance(p, UserPromptPart) for c in p.content]
    return [c.data for c in content if isinstance(c, BinaryContent)]


@pytest.mark.scenario("SER-11")
def test_binary_content_in_a_prompt_comes_back_byte_for_byte() -> None:
    dice, got = random.Random(1), list[bytes]()
    blobs = [dice.randbytes(size) for size in range(300)]

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        got.extend(blobs_of(messages[-1]))
        return final_turn("seen")

    agent = Agent(FunctionModel(respond), name="eyes")
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t")
        prompt = ["Look.", *(BinaryContent(blob, media_type="application/octet-stream") for blob in blobs)]
        thread.run(prompt).result(timeout_s=10)
        folded = blobs_of(thread.messages()[0])

    assert got == folded == blobs


def test_a_prompt_that_cannot_be_recorded_is_refused_at_the_call() -> None:
    agent = echo()
    with ActorSystem("memory:", agents=[agent]) as system:
        with pytest.raises(NotRepresentable, match="surrogate"):
            system.thread(agent, "t").run("half \ud800 of a pair")

        assert system.thread(agent, "t").run("fine").result(timeout_s=10)


def test_waiting_in_a_blocking_way_inside_a_tool_of_the_loop_is_refused() -> None:
    agent = echo()
    outer = Agent(scripted_model([tool_call_turn("c1", "ask", {}), final_turn("done")]), name="outer")
    systems: list[ActorSystem] = []
    refused: list[BaseException] = []

    @outer.tool_plain
    async def ask() -> str:
        try:
            return systems[0].thread(agent, "inner").run("?").result(timeout_s=1).output
        except BlockingAsk as error:
            refused.append(error)
            return "refused"

    with ActorSystem("memory:", agents=[agent, outer]) as system:
        systems.append(system)
        system.thread(outer, "t").run("Go").result(timeout_s=10)

    assert len(refused) == 1


@pytest.mark.scenario("RPL-08")
def test_code_that_sees_an_error_sees_the_same_on_replay() -> None:
    seen: list[tuple[str, tuple[object, ...], str]] = []
    hooks: Hooks[object] = Hooks()

    @hooks.on.tool_execute_error
    async def note(ctx: RunContext[object], **facts: Any) -> Any:
        error = facts["error"]
        seen.append((type(error).__name__, error.args, str(error)))
        return "it failed, and that is known"

    agent = Agent("test", name="seeing", capabilities=[hooks])

    @agent.tool_plain(metadata=tool_options(attempts=1))
    def boom() -> str:
        raise KeyError("x")

    with agent_harness(agent, [tool_call_turn("c1", "boom", {}), final_turn("ok")]) as harness:
        harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)

    assert seen[0] == seen[1]
    assert replayed.digests_equal


@pytest.mark.scenario("RPL-03")
def test_any_interleaving_of_completions_replays() -> None:
    for seed in range(15):
        dice = random.Random(seed)
        agent = Agent("test", name="shuffled")
        turns = {name: dice.randrange(40) for name in "abcdef"}

        @agent.tool_plain
        async def work(name: str, turns: dict[str, int] = turns) -> str:
            for _ in range(turns[name]):
                await asyncio.sleep(0)
            return name.upper()

        calls = tool_calls_turn(*[(name, "work", {"name": name}) for name in turns])
        with agent_harness(agent, [calls, calls, final_turn("done")]) as harness:
            harness.run("Go")
            replayed = replay(harness.conversation(), harness.definition)

        assert replayed.digests_equal, f"seed {seed}"


class BadAgents:
    """Agents that cannot be driven, with what the refusal must name."""

    @staticmethod
    def nameless() -> Agent[None, str]:
        return Agent("test")

    @staticmethod
    def odd_name() -> Agent[None, str]:
        return Agent("test", name="a:b")

    @staticmethod
    def ambiguous_tool() -> Agent[None, str]:
        return Agent("test", name="x", tools=[Tool(len, name="a/b")])

    @staticmethod
    def toolset_without_id() -> Agent[None, str]:
        return Agent("test", name="x", toolsets=[FunctionToolset([len])])


@pytest.mark.requirement("G-REG-3")
@pytest.mark.parametrize(
    ("make", "names"),
    [
        (BadAgents.nameless, "name"),
        (BadAgents.odd_name, "a:b"),
        (BadAgents.toolset_without_id, "id"),
        (BadAgents.ambiguous_tool, "a/b"),
    ],
    ids=["nameless", "odd name", "toolset without id", "ambiguous tool"],
)
def test_an_agent_that_cannot_be_driven_is_refused_when_the_system_opens(make: Any, names: str) -> None:
    with pytest.raises(ValueError, match=names):
        ActorSystem("memory:", agents=[make()])


def test_contradictory_declarations_are_refused_where_they_are_made() -> None:
    agent = Agent("test", name="x")
    wrong: list[Any] = [{"max_turns": 0}, {"deps": 1, "deps_for": len}, {"on_step_finish": 3}, {"instructions": 3}]

    for options in wrong:
        with pytest.raises((ValueError, TypeError), match="agent 'x'"):
            AgentDefinition(agent=agent, **options)
    with pytest.raises(ValueError, match="len"):
        define_agent("x", model="test", tools=[len, len])
    with pytest.raises(ValueError, match="two agents"):
        ActorSystem("memory:", agents=[agent, Agent("test", name="x")])
    with pytest.raises(ValueError, match="attempts"):
        tool_options(attempts=0)


def test_an_agent_the_system_was_not_given_is_refused() -> None:
    with ActorSystem("memory:", agents=[echo()]) as system, pytest.raises(UnknownKind, match="echo"):
        system.thread(Agent("test", name="other"), "t")


def test_a_system_that_only_looks_around_leaves_open_runs_alone() -> None:
    journal, robot = journal_with(history_of(Robot(), "one")[:5]), Robot()

    with ActorSystem(journal, agents=[robot.agent], recover=False) as system:
        status = system.thread(robot.agent, "t", owner="ann").status("one")
        live = system.live
    untouched = journal.head("thread/t").sequence
    with ActorSystem(journal, agents=[robot.agent]) as system:
        answer = system.thread(robot.agent, "t", owner="ann").attach("one").result(timeout_s=10)

    assert (status, live, untouched) == ("running", 0, 5)
    assert answer.output == "the sums are [2, 4, 6]"
