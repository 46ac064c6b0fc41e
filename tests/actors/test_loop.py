"""The agent loop, live: each surprise of the loop underneath is handled, and what is recorded is what happened."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelResponse, ModelRetry, RunContext, TextPart, ToolCallPart, ToolReturn
from pydantic_ai.capabilities import ModelFallback
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RunUsage

from clew.actors import ActorSystem, RunFailed
from clew.actors.agent import AgentDefinition, DurableSteps, define_agent, replay, this_run, tool_options, tool_step
from clew.actors.agent.steps import current_steps
from clew.actors.testing import (
    AgentHarness,
    Script,
    agent_harness,
    final_turn,
    invalid_for_provider,
    scripted_model,
    tool_call_turn,
    tool_calls_turn,
)
from clew.journal.facts import StateSet, StepCompleted, StepFailed
from clew.projections import conversation


def facts(harness: AgentHarness[Any, Any], kind: type) -> list[Any]:
    decoded = [conversation.catalog.decode(event) for event in harness.journal.read("thread/test")]
    return [event for event in decoded if isinstance(event, kind)]


def steps_of(harness: AgentHarness[Any, Any]) -> list[str]:
    return [event.step for event in facts(harness, StepCompleted)]


def returned(harness: AgentHarness[Any, Any]) -> list[object]:
    """The results the model was sent last, in their order."""
    return [part.content for part in harness.script.requests[-1][-1].parts if isinstance(part, ToolReturnPart)]


def calculator() -> tuple[Agent[None, str], Counter[str]]:
    calls: Counter[str] = Counter()
    agent = Agent("test", name="calculator", instructions="Calculate.")

    @agent.tool_plain
    async def add(a: int, b: int) -> int:
        calls["add"] += 1
        return a + b

    return agent, calls


@pytest.mark.requirement("L-DEF-2", "L-REPLAY-1", "L-LOOP-3", "L-TEST-1", "L-TEST-2", "L-TEST-3")
def test_every_turn_and_every_tool_call_is_a_named_step() -> None:
    agent, _ = calculator()
    script = [tool_call_turn("c1", "add", {"a": 1, "b": 2}, text="Let me see."), final_turn("3")]

    with agent_harness(agent, script) as harness:
        answer = harness.run("What is 1 + 2?")

        assert (answer.output, answer.stopped) == ("3", "final")
        assert steps_of(harness) == ["llm:turn:1", "tool:add:c1", "llm:turn:2"]
        assert [message.kind for message in harness.messages()] == ["request", "response", "request", "response"]
        assert not harness.system.failures


@pytest.mark.requirement("L-LOOP-15", "L-TEST-4")
def test_usage_adds_up_over_turns_and_is_kept_with_the_thread() -> None:
    agent, _ = calculator()
    script = [tool_call_turn("c1", "add", {"a": 1, "b": 2}), final_turn("3"), final_turn("again")]

    with agent_harness(agent, script) as harness:
        first, second = harness.run("What is 1 + 2?"), harness.run("And now?")
        view = harness.thread()

    assert (first.usage.requests, first.usage.tool_calls, second.usage.requests) == (2, 1, 1)
    assert view.usage.requests == 3
    assert view.usage.input_tokens == first.usage.input_tokens + second.usage.input_tokens > 0


@pytest.mark.requirement("L-RUN-2", "L-LOOP-12")
def test_a_second_run_sees_all_that_was_said_before() -> None:
    agent, _ = calculator()
    script = [tool_call_turn("c1", "add", {"a": 1, "b": 2}), final_turn("It is 3."), final_turn("You are welcome.")]

    with agent_harness(agent, script) as harness:
        harness.run("What is 1 + 2?")
        harness.run("Thank you.")
        said = harness.messages()

    sent = harness.script.requests[-1]
    assert len(sent) == 5
    assert invalid_for_provider(sent) == []
    assert [type(a).__name__ for a in said[:4]] == [type(a).__name__ for a in sent[:4]]
    assert [a.parts for a in said[:4]] == [a.parts for a in sent[:4]]


def test_messages_folded_from_the_journal_are_those_the_loop_had() -> None:
    agent, _ = calculator()
    had: list[list[ModelMessage]] = []

    @agent.output_validator
    def keep(ctx: RunContext[None], output: str) -> str:
        had.append(list(ctx.messages))
        return output

    turns = tool_calls_turn(("a", "add", {"a": 1, "b": 2}), ("b", "nothing", {}), ("c", "add", {"a": "x"}))
    with agent_harness(agent, [turns, final_turn("3")]) as harness:
        harness.run("What is 1 + 2?")
        folded = harness.messages()

    for mine, theirs in zip(folded, had[-1], strict=False):
        assert mine.parts == theirs.parts
        assert getattr(mine, "instructions", None) == getattr(theirs, "instructions", None)


@pytest.mark.requirement("L-LOOP-1")
def test_a_run_out_of_turns_stops_gracefully_and_the_thread_stays_usable() -> None:
    agent, calls = calculator()
    script = [tool_call_turn(f"c{n}", "add", {"a": n, "b": 1}) for n in range(2)] + [final_turn("Here I am.")]

    with agent_harness(AgentDefinition(agent=agent, max_turns=2), script) as harness:
        stopped = harness.run("Count for ever.")
        after = harness.run("Are you there?")

    assert (stopped.stopped, stopped.output, calls["add"]) == ("max_turns", None, 2)
    assert after.output == "Here I am."
    assert invalid_for_provider(harness.script.requests[-1]) == []


class City(BaseModel):
    name: str
    people: int


@pytest.mark.requirement("L-LOOP-13")
def test_a_structured_answer_comes_back_as_its_type() -> None:
    agent = Agent("test", name="geographer", output_type=City)
    script = [tool_call_turn("c1", "final_result", {"name": "Oslo", "people": 700_000})]

    with agent_harness(agent, script) as harness:
        answer = harness.run("Which city?")
        again = harness.conversation().attach(answer.run).result(timeout_s=5)

        assert answer.output == City(name="Oslo", people=700_000)
        assert again.output == answer.output
        assert replay(harness.conversation(), harness.definition).output == {"name": "Oslo", "people": 700_000}


@pytest.mark.requirement("L-LOOP-14")
def test_on_step_finish_hears_of_each_step_once_and_cannot_break_the_run() -> None:
    agent, _ = calculator()
    heard: list[str] = []

    def listen(finished: Any) -> None:
        heard.append(finished.step)
        raise RuntimeError("the listener is broken")

    script = [tool_call_turn("c1", "add", {"a": 1, "b": 2}), final_turn("3")]
    with agent_harness(AgentDefinition(agent=agent, on_step_finish=listen), script) as harness:
        harness.run("What is 1 + 2?")
        replay(harness.conversation(), harness.definition)

    assert heard == ["llm:turn:1", "tool:add:c1", "llm:turn:2"]


@pytest.mark.requirement("L-DEF-6")
def test_an_instructions_function_is_called_once_a_run_and_recorded() -> None:
    asked: list[str] = []

    def instructions(run: Any) -> str:
        asked.append(run.thread)
        return f"Answer in thread {run.thread}, call number {len(asked)}."

    definition = define_agent("formal", model="test", instructions=instructions)
    script = [final_turn("Good day.")]

    with agent_harness(definition, script) as harness:
        harness.run("Hello")
        replay(harness.conversation(), harness.definition)

    assert asked == ["test"]
    assert steps_of(harness)[0] == "instructions"
    assert getattr(harness.script.requests[0][-1], "instructions", "") == "Answer in thread test, call number 1."


def test_results_stand_in_call_order_whatever_finished_first() -> None:
    agent = Agent("test", name="racer")
    second_is_done = asyncio.Event()

    @agent.tool_plain
    async def slow() -> str:
        await second_is_done.wait()
        return "slow"

    @agent.tool_plain
    async def quick() -> str:
        second_is_done.set()
        return "quick"

    with agent_harness(agent, [tool_calls_turn(("s", "slow", {}), ("q", "quick", {})), final_turn("done")]) as harness:
        harness.run("Go")

    assert steps_of(harness)[1:3] == ["tool:quick:q", "tool:slow:s"]
    assert returned(harness) == ["slow", "quick"]


def siblings(calls: Counter[str], *, works_first: bool) -> Agent[None, str]:
    """Two tools side by side: one fails, the other works on after it has."""
    agent = Agent("test", name="siblings")
    working, failed = asyncio.Event(), asyncio.Event()

    @agent.tool_plain(metadata=tool_options(attempts=1))
    async def breaks() -> str:
        calls["breaks"] += 1
        if works_first:
            await working.wait()
        failed.set()
        raise ValueError("no")

    @agent.tool_plain
    async def works() -> str:
        calls["works"] += 1
        working.set()
        await failed.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        return "kept"

    return agent


ORDERS = [("breaks", "works"), ("works", "breaks")]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_a_tool_that_raises_waits_for_its_siblings_so_none_runs_twice(order: tuple[str, str]) -> None:
    calls: Counter[str] = Counter()
    agent = siblings(calls, works_first=True)

    with agent_harness(agent, [tool_calls_turn(*[(name, name, None) for name in order])]) as harness:
        with pytest.raises(RunFailed, match="ValueError: tool:breaks:breaks: no"):
            harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)

    assert steps_of(harness) == ["llm:turn:1", "tool:works:works"]
    assert calls == {"breaks": 1, "works": 1}
    assert replayed.digests_equal


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_a_sibling_either_runs_to_its_record_or_does_not_start(order: tuple[str, str]) -> None:
    calls: Counter[str] = Counter()
    agent = siblings(calls, works_first=False)

    with agent_harness(agent, [tool_calls_turn(*[(name, name, None) for name in order])]) as harness:
        with pytest.raises(RunFailed, match="ValueError: tool:breaks:breaks: no"):
            harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)

    assert calls["works"] == steps_of(harness).count("tool:works:works")
    assert replayed.digests_equal


@pytest.mark.parametrize("first", ["a", "b"])
def test_of_two_tools_that_fail_the_one_recorded_first_is_the_reason_also_on_replay(first: str) -> None:
    agent = Agent("test", name="both")
    failed = asyncio.Event()

    @agent.tool_plain(metadata=tool_options(attempts=1))
    async def breaks(name: str) -> str:
        if name != first:
            await failed.wait()
        failed.set()
        raise ValueError(f"{name} is broken")

    turn = tool_calls_turn(("a", "breaks", {"name": "a"}), ("b", "breaks", {"name": "b"}))
    with agent_harness(agent, [turn]) as harness:
        with pytest.raises(RunFailed, match=f"{first} is broken"):
            harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)

    assert replayed.digests_equal


@pytest.mark.requirement("L-REPLAY-3", "L-DEF-8", "L-DEF-10")
def test_a_tool_that_raises_is_tried_again_with_the_same_idempotency_key() -> None:
    agent = Agent("test", name="retrier")
    keys: list[str] = []

    @agent.tool_plain(metadata=tool_options(attempts=3))
    def flaky() -> str:
        keys.append(tool_step().idempotency_key)
        if len(keys) < 3:
            raise OSError(f"attempt {len(keys)}")
        return "ok"

    with agent_harness(agent, [tool_call_turn("c1", "flaky", {}), final_turn("done")]) as harness:
        answer = harness.run("Go", run_id="r1")
        failures = [(event.attempt, event.final, event.error.message) for event in facts(harness, StepFailed)]

    assert answer.output == "done"
    assert keys == ["thread/test/r1/tool:flaky:c1"] * 3
    assert failures == [(1, False, "attempt 1"), (2, False, "attempt 2")]


class Awkward(Exception):
    def __init__(self, code: int, detail: object) -> None:
        super().__init__(f"{code}:{detail}")
        self.code = code


@pytest.mark.scenario("SER-09")
def test_an_error_with_its_own_constructor_is_recorded_as_type_and_message() -> None:
    agent = Agent("test", name="awkward")

    @agent.tool_plain(metadata=tool_options(attempts=1))
    def break_it() -> str:
        raise Awkward(500, "lock")

    with agent_harness(agent, [tool_call_turn("c1", "break_it", {}), final_turn("fine")]) as harness:
        with pytest.raises(RunFailed, match="Awkward: tool:break_it:c1: 500:lock"):
            harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)
        after = harness.run("And now?")

    assert replayed.digests_equal
    assert replayed.runs[0].ended == "failed"
    assert after.output == "fine"


@pytest.mark.scenario("SER-08")
@pytest.mark.parametrize(
    ("value", "path", "kind"),
    [
        ({"a": [Fraction(1, 3)]}, "a[0]", "Fraction"),
        ({"a": {1, 2}}, "a", "set"),
        (b"bytes", "$", "bytes"),
        ([PurePath("x")], "[0]", "PurePosixPath"),
        ({"a": {"b": object()}}, "a.b", "object"),
        ([1, math.nan], "[1]", "nan"),
        ("half \ud800 of a pair", "$", "surrogate"),
        (complex(1, 2), "$", "complex"),
    ],
    ids=["fraction", "set", "bytes", "path", "object", "nan", "surrogate", "complex"],
)
def test_a_tool_result_that_is_not_json_is_refused_by_the_tools_name(value: object, path: str, kind: str) -> None:
    agent = Agent("test", name="odd")
    calls: Counter[str] = Counter()

    @agent.tool_plain
    def odd() -> Any:
        calls["odd"] += 1
        return value

    with agent_harness(agent, [tool_call_turn("c1", "odd", {}), final_turn("fine")]) as harness:
        with pytest.raises(RunFailed) as failed:
            harness.run("Go")
        after = harness.run("And now?")

    assert "odd" in str(failed.value)
    assert path in str(failed.value)
    assert kind in str(failed.value)
    assert calls["odd"] == 1, "calling it again would not have made it JSON"
    assert after.output == "fine"


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ((1, 2), [1, 2]),
        (Decimal("1.50"), "1.50"),
        (City(name="Oslo", people=1), {"name": "Oslo", "people": 1}),
        (Point(3), {"x": 3}),
        ({"kind": "tool-return", "x": 1}, {"kind": "tool-return", "x": 1}),
        (None, None),
        (True, True),
        (2**70, 2**70),
        (ToolReturn("value", metadata={"m": 1}), "value"),
    ],
    ids=["tuple", "decimal", "model", "dataclass", "confusing", "none", "true", "big", "tool-return"],
)
def test_the_model_sees_the_same_result_now_and_on_replay(value: object, seen: object) -> None:
    agent = Agent("test", name="results")
    agent.tool_plain(lambda: value, name="get")  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownLambdaType]

    with agent_harness(agent, [tool_call_turn("c1", "get", {}), final_turn("done"), final_turn("more")]) as harness:
        harness.run("Go")
        live = returned(harness)
        replayed = replay(harness.conversation(), harness.definition)
        harness.run("Again")
        again = [p.content for p in harness.script.requests[-1][2].parts if isinstance(p, ToolReturnPart)]

    assert live == again == [seen]
    assert replayed.digests_equal


def test_a_model_error_is_recorded_and_the_model_that_failed_is_not_asked_again() -> None:
    asked: Counter[str] = Counter()

    def bad(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked["bad"] += 1
        raise ModelHTTPError(503, "bad", {"reason": "busy"})

    def good(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked["good"] += 1
        return final_turn("from the second model")

    second = FunctionModel(good, model_name="good")
    agent = Agent(
        FunctionModel(bad, model_name="bad"),
        name="careful",
        capabilities=[ModelFallback("second"), DurableSteps(models={"second": second})],
    )
    with ActorSystem("memory:", agents=[agent]) as system:
        answer = system.thread(agent, "test").run("Go").result(timeout_s=10)
        replayed = replay(system.thread(agent, "test"), agent)

    assert answer.output == "from the second model"
    assert asked == {"bad": 1, "good": 1}
    assert replayed.digests_equal
    assert replayed.runs[0].steps == ("llm:turn:1", "llm:turn:1#2")


def test_a_model_that_fails_ends_the_run_with_its_error_and_replays_it() -> None:
    agent, _ = calculator()
    script = Script([ModelHTTPError(500, "script", {"why": "broken"}), final_turn("fine")])

    with agent_harness(agent, script) as harness:
        with pytest.raises(RunFailed, match=r"ModelHTTPError: .*500"):
            harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)
        after = harness.run("And now?")

    assert (replayed.digests_equal, replayed.runs[0].ended) == (True, "failed")
    assert after.output == "fine"
    assert invalid_for_provider(script.requests[-1]) == []


def test_what_a_sub_agent_used_counts_the_same_on_replay() -> None:
    inner = Agent(scripted_model([final_turn("inner")]), name="inner")
    outer = Agent("test", name="outer")

    @outer.tool
    async def ask(ctx: RunContext[object]) -> str:
        return (await inner.run("?", usage=ctx.usage)).output

    with agent_harness(outer, [tool_call_turn("c1", "ask", {}), final_turn("done")]) as harness:
        answer = harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)

    assert answer.usage.requests == 3
    assert replayed.digests_equal
    assert facts(harness, StepCompleted)[1].usage != b"null"


def test_sub_agents_in_parallel_tools_keep_their_own_steps() -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked = [part.content for part in messages[0].parts if isinstance(part, UserPromptPart)]
        return final_turn(f"answer to {asked[0]}")

    inner = Agent(FunctionModel(answer), name="inner", capabilities=[DurableSteps()])
    outer = Agent("test", name="outer")

    @outer.tool_plain
    async def ask(question: str) -> str:
        return (await inner.run(question)).output

    turns = tool_calls_turn(("a", "ask", {"question": "A"}), ("b", "ask", {"question": "B"}))
    with agent_harness(outer, [turns, final_turn("done")]) as harness:
        harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)

    assert returned(harness) == ["answer to A", "answer to B"]
    assert {"tool:ask:a/llm:turn:1", "tool:ask:b/llm:turn:1"} < set(steps_of(harness))
    assert replayed.digests_equal
    assert len(harness.messages()) == 4


def test_toolsets_that_arrive_at_run_time_are_refused() -> None:
    inner = Agent(scripted_model([final_turn("inner")]), name="inner", capabilities=[DurableSteps()])
    outer = Agent("test", name="outer")

    @outer.tool_plain(metadata=tool_options(attempts=1))
    async def ask() -> str:
        from pydantic_ai import FunctionToolset

        late = FunctionToolset(id="late")
        late.add_function(lambda: "x", name="x")
        return (await inner.run("?", toolsets=[late])).output

    with (
        agent_harness(outer, [tool_call_turn("c1", "ask", {})]) as harness,
        pytest.raises(RunFailed, match="UserError"),
    ):
        harness.run("Go")


def test_a_tool_may_ask_the_model_to_try_again_and_that_is_a_result() -> None:
    agent = Agent("test", name="picky")
    calls: Counter[str] = Counter()

    @agent.tool_plain
    def pick(n: int) -> str:
        calls["pick"] += 1
        if n > 9:
            raise ModelRetry("one digit, please")
        return f"picked {n}"

    script = [tool_call_turn("c1", "pick", {"n": 10}), tool_call_turn("c2", "pick", {"n": 7}), final_turn("done")]
    with agent_harness(agent, script) as harness:
        harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)

    assert calls["pick"] == 2
    assert replayed.digests_equal
    assert invalid_for_provider(harness.script.requests[-1]) == []


@pytest.mark.requirement("L-STATE-2", "L-STATE-3", "L-STATE-7")
def test_state_set_by_a_tool_is_recorded_with_its_result() -> None:
    agent = Agent("test", name="planner")
    seen: list[Any] = []

    @agent.tool_plain
    def plan(note: str) -> str:
        step = tool_step()
        seen.append(step.get_state())
        step.set_state({"notes": [*(step.get_state() or {"notes": []})["notes"], note]})
        return "noted"

    script = [
        tool_call_turn("c1", "plan", {"note": "a"}),
        tool_call_turn("c2", "plan", {"note": "b"}),
        final_turn("ok"),
    ]
    with agent_harness(agent, script) as harness:
        harness.run("Plan")
        names = [event.type.name for event in harness.journal.read("thread/test")]
        state = harness.conversation().state()

    assert seen == [None, {"notes": ["a"]}]
    assert state == {"notes": ["a", "b"]}
    assert names[names.index("state.set") + 1] == "step.completed"
    assert len(facts(harness, StateSet)) == 2


def test_state_that_is_not_json_is_refused_where_it_is_set() -> None:
    agent = Agent("test", name="planner")

    @agent.tool_plain(metadata=tool_options(attempts=1))
    def plan() -> str:
        tool_step().set_state({"when": [object()]})
        return "noted"

    with (
        agent_harness(agent, [tool_call_turn("c1", "plan", {})]) as harness,
        pytest.raises(RunFailed, match=r"when\[0\]"),
    ):
        harness.run("Plan")


@dataclass
class Services:
    greeting: str


def test_the_accessor_works_beside_any_deps_in_sync_and_async_tools() -> None:
    agent = Agent("test", name="mixed", deps_type=Services)
    seen: list[tuple[str, str, str | None]] = []

    @agent.tool
    def sync_tool(ctx: RunContext[Services]) -> str:
        seen.append((tool_step().name, tool_step().thread, tool_step().owner))
        return ctx.deps.greeting

    @agent.tool
    async def async_tool(ctx: RunContext[Services]) -> str:
        seen.append((tool_step().name, tool_step().run, tool_step().owner))
        return ctx.deps.greeting

    turns = tool_calls_turn(("s", "sync_tool", {}), ("a", "async_tool", {}))
    definition = AgentDefinition(agent=agent, deps=Services("hello"))
    with agent_harness(definition, [turns, final_turn("done")]) as harness:
        harness.run("Go", owner="ann", run_id="r1")

    assert sorted(seen) == [("tool:async_tool:a", "r1", "ann"), ("tool:sync_tool:s", "test", "ann")]
    assert returned(harness) == ["hello", "hello"]


def test_deps_can_be_made_for_each_run() -> None:
    agent = Agent("test", name="each", deps_type=Services)

    @agent.tool
    def greet(ctx: RunContext[Services]) -> str:
        return ctx.deps.greeting

    definition = AgentDefinition(agent=agent, deps_for=lambda run: Services(f"hello {run.owner} in {run.thread}"))
    with agent_harness(definition, [tool_call_turn("c1", "greet", {}), final_turn("done")]) as harness:
        harness.run("Go", owner="ann")

    assert returned(harness) == ["hello ann in test"]


@pytest.mark.scenario("RPL-01")
def test_time_ids_and_chance_are_the_same_for_every_attempt_and_do_not_shift() -> None:
    agent = Agent("test", name="lucky")
    drawn: list[tuple[object, ...]] = []

    @agent.tool_plain(metadata=tool_options(attempts=2))
    def draw() -> str:
        step = tool_step()
        if drawn:
            assert step.uuid("another") != step.uuid("child")
        drawn.append((step.uuid("child"), step.random("dice").randrange(10**9), step.now))
        if len(drawn) == 1:
            raise OSError("again")
        return str(step.uuid("child"))

    with agent_harness(agent, [tool_call_turn("c1", "draw", {}), final_turn("done")]) as harness:
        harness.run("Go")

    assert drawn[0] == drawn[1]


def test_the_run_is_known_to_code_of_the_loop_and_to_nothing_outside() -> None:
    agent = Agent("test", name="where")
    seen: list[object] = []

    @agent.instructions
    def where() -> str:
        run = this_run()
        seen.append((run.thread, run.run, run.now))
        return f"You are in {run.thread}."

    with agent_harness(agent, [final_turn("ok")]) as harness:
        harness.run("Go", run_id="r1")
        replay(harness.conversation(), harness.definition)

    assert len(set(seen)) == 1
    assert current_steps() is None
    with pytest.raises(RuntimeError, match="drives"):
        this_run()
    with pytest.raises(RuntimeError, match="tool"):
        tool_step()


def test_validated_arguments_are_a_step_of_their_own() -> None:
    agent = Agent("test", name="validator")
    checked: list[int] = []

    def positive(ctx: RunContext[None], n: int) -> None:
        checked.append(n)

    @agent.tool_plain(args_validator=positive)  # pyright: ignore[reportArgumentType]
    def take(n: int) -> int:
        return n

    with agent_harness(agent, [tool_call_turn("c1", "take", {"n": 1}), final_turn("done")]) as harness:
        harness.run("Go")
        replay(harness.conversation(), harness.definition)

    assert checked == [1]
    assert "validate:take:c1" in steps_of(harness)


def test_usage_limits_of_pydantic_ai_do_not_count_our_turns() -> None:
    agent, _ = calculator()
    script = [tool_call_turn(f"c{n}", "add", {"a": n, "b": 1}) for n in range(60)] + [final_turn("done")]

    with agent_harness(AgentDefinition(agent=agent, max_turns=100), script) as harness:
        assert harness.run("Count.").usage == harness.thread().usage
        assert harness.thread().usage.requests == 61


def test_a_text_and_a_call_in_one_turn_keep_their_order() -> None:
    agent, _ = calculator()
    turn = ModelResponse([TextPart("one"), ToolCallPart("add", {"a": 1, "b": 1}, tool_call_id="x"), TextPart("two")])

    with agent_harness(agent, [turn, final_turn("2")]) as harness:
        harness.run("Go")
        kinds = [part.part_kind for part in harness.messages()[1].parts]

    assert kinds == ["text", "tool-call", "text"]
    assert RunUsage() == RunUsage()
