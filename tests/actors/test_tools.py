"""Tools in the loop: their results, their failures, and those that run beside each other."""

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
from pydantic_ai import Agent, ModelRetry, RunContext, ToolReturn
from pydantic_ai.messages import ToolReturnPart

from clew.actors import RunFailed
from clew.actors.agent import replay, tool_options, tool_step
from clew.actors.testing import (
    agent_harness,
    final_turn,
    invalid_for_provider,
    tool_call_turn,
    tool_calls_turn,
)
from clew.journal.facts import StepFailed
from tests.actors.harnesses import City, facts, returned, steps_of


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
