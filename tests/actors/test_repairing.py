"""Calls that a model got wrong, corrected before anybody sees them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from pydantic_ai import Agent, ModelResponse, Tool, ToolCallPart
from pydantic_ai.messages import ToolReturnPart

from clew.actors.agent import AgentDefinition, BrokenCall, DurableSteps, define_agent, replay, tool_options
from clew.actors.testing import (
    AgentHarness,
    World,
    agent_harness,
    crash_points,
    final_turn,
    following_model,
    invalid_for_provider,
    tool_call_turn,
    tool_calls_turn,
)
from clew.adapters.encryption import AesGcmSeal
from clew.journal.facts import StepCompleted
from tests.actors.harnesses import City, facts, steps_of
from tests.actors.schema_server import schema_server
from tests.actors.sealed import OLD
from tests.actors.support import WAIT_S, until

CALLS: Counter[str] = Counter()


def pay(usd: int, to: str = "bob") -> str:
    CALLS["pay"] += 1
    return f"paid {usd} to {to}"


@pytest.fixture(autouse=True)
def _no_calls_yet() -> None:  # pyright: ignore[reportUnusedFunction]
    CALLS.clear()


class Repairs:
    """Notes what was broken, and returns what it was told to."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.broken: list[BrokenCall] = []

    def __call__(self, broken: BrokenCall) -> Any:
        self.broken.append(broken)
        answer = self.answers[len(self.broken) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def payer(repair: Callable[[BrokenCall], Any], **options: Any) -> AgentDefinition[None, str]:
    return define_agent("payer", model="test", tools=[pay], repair_tool_call=repair, **options)


def bring_your_own(repair: Callable[[BrokenCall], Any], **options: Any) -> AgentDefinition[None, str]:
    return AgentDefinition(agent=Agent("test", name="payer", tools=[pay]), repair_tool_call=repair, **options)


def results(harness: AgentHarness[Any, Any]) -> list[tuple[str, str]]:
    """The results the model was sent last."""
    parts = harness.script.requests[-1][-1].parts
    return [(part.outcome, str(part.content)) for part in parts if isinstance(part, ToolReturnPart)]


def recorded_calls(harness: AgentHarness[Any, Any]) -> list[dict[str, Any]]:
    responses = [msgspec.json.decode(step.result) for step in facts(harness, StepCompleted) if "llm" in step.step]
    return [part for response in responses for part in response["parts"] if part["part_kind"] == "tool-call"]


BROKEN = {
    "unknown": tool_call_turn("c1", "payment", {"usd": 5}),
    "cut off": tool_call_turn("c1", "pay", '{"usd": 5, "to": "bo'),
    "no object": tool_call_turn("c1", "pay", "[5]"),
    "wrong type": tool_call_turn("c1", "pay", {"usd": "five"}),
    "missing": tool_call_turn("c1", "pay", {"to": "bob"}),
    "as text": tool_call_turn("c1", "pay", '{"usd": "five"}'),
}


@pytest.mark.requirement("L-LOOP-6")
@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("declare", [payer, bring_your_own])
def test_a_corrected_call_is_made_and_recorded_and_never_corrected_again(declare: Any, kind: str) -> None:
    corrected = ToolCallPart("pay", {"usd": 5}, tool_call_id="another id")
    repairs = Repairs(corrected if kind == "unknown" else {"usd": 5})

    with agent_harness(declare(repairs), [BROKEN[kind], final_turn("done")]) as harness:
        answer = harness.run("Pay 5.")
        replayed = replay(harness.conversation(), harness.definition)

    assert (answer.output, CALLS["pay"], len(repairs.broken)) == ("done", 1, 1)
    assert results(harness) == [("success", "paid 5 to bob")]
    assert steps_of(harness) == ["llm:turn:1", "tool:pay:c1", "llm:turn:2"]
    assert [(call["tool_name"], call["args"]) for call in recorded_calls(harness)] == [("pay", {"usd": 5})]
    assert replayed.digests_equal
    assert invalid_for_provider(harness.script.requests[-1]) == []


@pytest.mark.requirement("L-LOOP-6")
def test_a_repair_is_told_what_is_wrong_and_what_would_be_right() -> None:
    repairs = Repairs(None, None, None, None)
    turn = tool_calls_turn(
        ("c1", "payment", {}), ("c2", "pay", '{"usd'), ("c3", "pay", {"usd": "five"}), ("c4", "pay", {"usd": 5})
    )

    with agent_harness(payer(repairs), [turn, final_turn("done")]) as harness:
        harness.run("Pay.")

    unknown, cut, wrong = repairs.broken
    assert [broken.tool_call.tool_call_id for broken in repairs.broken] == ["c1", "c2", "c3"]
    assert (unknown.error, unknown.input_schema, list(unknown.tools)) == ("there is no tool 'payment'", None, ["pay"])
    assert cut.error.startswith("the arguments are no JSON object: ")
    assert wrong.error == "$.usd: 'five' is not of type 'integer'"
    assert wrong.input_schema is not None
    assert wrong.input_schema["required"] == ["usd"]


@pytest.mark.requirement("L-LOOP-6")
def test_a_call_that_is_given_up_stays_as_it_was_and_the_model_is_told() -> None:
    repairs = Repairs(None)
    script = [BROKEN["cut off"], tool_call_turn("c2", "pay", {"usd": 5}), final_turn("done")]

    with agent_harness(payer(repairs), script) as harness:
        assert harness.run("Pay.").output == "done"
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert [call["args"] for call in recorded_calls(harness)] == ['{"usd": 5, "to": "bo', {"usd": 5}]
    assert "provider_details" not in recorded_calls(harness)[0]
    assert (len(repairs.broken), CALLS["pay"]) == (1, 1)


async def test_a_repair_may_be_async() -> None:
    async def repair(broken: BrokenCall) -> dict[str, Any]:
        return {"usd": len(broken.tools)}

    with agent_harness(payer(repair), [BROKEN["missing"], final_turn("done")]) as harness:
        await harness.conversation().run("Pay.")

    assert results(harness) == [("success", "paid 1 to bob")]


@pytest.mark.parametrize(
    ("answer", "logged"),
    [
        pytest.param(KeyError("what"), "KeyError", id="raises"),
        pytest.param({"usd": "still"}, "wrong too", id="broken"),
        pytest.param(ToolCallPart("payment", {}), "there is no tool 'payment'", id="unknown"),
        pytest.param({"usd": float("nan")}, "JSON", id="not a number"),
        pytest.param({"usd": 1, "to": object()}, "JSON", id="an object"),
        pytest.param(7, "not 7", id="no answer"),
        pytest.param(ToolCallPart("pay", '{"usd'), "EOF", id="cut off"),
    ],
)
def test_a_repair_that_fails_leaves_the_call_as_it_was_and_is_logged(
    answer: Any, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    script = [BROKEN["wrong type"], final_turn("done")]

    with caplog.at_level(logging.ERROR, "clew"), agent_harness(payer(Repairs(answer)), script) as harness:
        assert harness.run("Pay.").output == "done"
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert "repair_tool_call of agent payer failed for call c1 of pay" in caplog.text
    assert logged in caplog.text
    assert [call["args"] for call in recorded_calls(harness)] == [{"usd": "five"}]
    assert results(harness)[0][0] == "retried"


def test_calls_that_are_right_are_nobodys_business() -> None:
    turn = tool_calls_turn(("c1", "pay", {"usd": 5}), ("c2", "pay", '{"usd": 6}'))

    with agent_harness(payer(Repairs()), [turn, final_turn("done")]) as harness:
        harness.run("Pay.")
    with agent_harness(define_agent("payer", model="test", tools=[pay]), [turn, final_turn("done")]) as plain:
        plain.run("Pay.")

    assert [step.request for step in facts(harness, StepCompleted)] == [
        step.request for step in facts(plain, StepCompleted)
    ]
    assert recorded_calls(harness) == recorded_calls(plain)


def test_what_the_model_had_said_is_kept_beside_the_corrected_call() -> None:
    said = ModelResponse([ToolCallPart("payment", '{"usd": 5', "c1", id="item-1", provider_details={"own": 1})])
    repairs = Repairs(ToolCallPart("pay", {"usd": 5}))

    with agent_harness(payer(repairs), [said, final_turn("done")]) as harness:
        harness.run("Pay.")

    [call] = recorded_calls(harness)
    assert call["provider_details"] == {"own": 1, "clew_repaired": {"tool_name": "payment", "args": '{"usd": 5'}}
    assert call.get("id") is None
    assert call["tool_call_id"] == "c1"


def test_a_typed_answer_is_corrected_too() -> None:
    agent = Agent("test", name="geographer", output_type=City)
    repairs = Repairs({"name": "Oslo", "people": 7})
    definition = AgentDefinition(agent=agent, repair_tool_call=repairs)

    with agent_harness(definition, [tool_call_turn("c1", "final_result", {"name": "Oslo"})]) as harness:
        assert harness.run("Which city?").output == City(name="Oslo", people=7)

    assert repairs.broken[0].error == "$: 'people' is a required property"


def test_people_are_asked_about_the_call_as_it_was_corrected_and_nothing_recorded_says_it_in_plain() -> None:
    agent = Agent("test", name="payer")

    @agent.tool_plain(metadata=tool_options(needs_approval=True))
    def transfer(usd: int, to: str) -> str:
        CALLS["transfer"] += 1
        return "done"

    repairs = Repairs({"usd": 5, "to": "IBAN-77"})
    seal = AesGcmSeal({"k": OLD}, current="k")
    definition = AgentDefinition(agent=agent, repair_tool_call=repairs, seal=seal)
    broken = tool_call_turn("c1", "transfer", '{"usd": 5, "to": "IBAN-7')
    with agent_harness(definition, [broken, final_turn("done")]) as harness:
        thread = harness.conversation()
        run = thread.run("Pay.")
        run.started(timeout_s=WAIT_S)
        until(lambda: len(thread.approvals()) == 1)
        asked = thread.approvals()[0]
        assert (asked.arguments, CALLS["transfer"]) == ({"usd": 5, "to": "IBAN-77"}, 0)
        thread.approve(asked.id).get(timeout=WAIT_S)
        run.result(timeout_s=WAIT_S)
        assert replay(thread, harness.definition).digests_equal

    assert CALLS["transfer"] == 1
    assert not any(b"IBAN-7" in event.canonical for event in harness.journal.read("thread/test"))


def test_a_tool_that_is_not_active_is_one_that_there_is_not() -> None:
    repairs = Repairs(ToolCallPart("look", {}))
    agent = Agent("test", name="payer", tools=[pay])

    @agent.tool_plain
    def look() -> str:
        return "seen"

    definition = AgentDefinition(agent=agent, repair_tool_call=repairs, active_tools=["look"])
    with agent_harness(definition, [tool_call_turn("c1", "pay", {"usd": 5}), final_turn("done")]) as harness:
        harness.run("Pay.")

    assert (repairs.broken[0].error, CALLS["pay"]) == ("there is no tool 'pay'", 0)
    assert results(harness) == [("success", "seen")]


def test_calls_of_a_sub_agent_are_its_own_business() -> None:
    inner = Agent(
        following_model([tool_call_turn("c1", "pay", {"usd": "5"}), final_turn("inner")]),
        name="inner",
        tools=[pay],
        capabilities=[DurableSteps()],
    )
    outer = Agent("test", name="outer")

    @outer.tool_plain
    async def ask() -> str:
        return (await inner.run("?")).output

    repairs = Repairs()
    definition = AgentDefinition(agent=outer, repair_tool_call=repairs)
    with agent_harness(definition, [tool_call_turn("c1", "ask", {}), final_turn("outer")]) as harness:
        assert harness.run("Go").output == "outer"

    assert (CALLS["pay"], repairs.broken) == (1, [])


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_schema_that_cannot_be_used_fetches_nothing_and_loses_no_turn(
    *, elsewhere: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with schema_server() as (url, asked), caplog.at_level(logging.ERROR, "clew"):
        usd: dict[str, Any] = {"$ref": url} if elsewhere else {"minimum": "one"}
        tool = Tool.from_schema(pay, "pay", "Pay.", {"type": "object", "properties": {"usd": usd}})
        definition = define_agent("payer", model="test", tools=[tool], repair_tool_call=Repairs())
        with agent_harness(definition, [tool_call_turn("c1", "pay", {"usd": 5}), final_turn("done")]) as harness:
            assert harness.run("Pay.").output == "done"

    assert (CALLS["pay"], asked) == (1, [])
    assert "the schema of tool pay of agent payer cannot be used" in caplog.text


def test_a_repair_is_a_function() -> None:
    with pytest.raises(TypeError, match="agent 'payer': repair_tool_call is a function, not str"):
        payer("fix it")  # type: ignore[arg-type]  # the point


@pytest.mark.crash
@pytest.mark.requirement("L-LOOP-6")
def test_a_recorded_correction_is_never_made_again_wherever_the_run_died() -> None:
    turns = [
        tool_calls_turn(("c1", "pay", {"usd": "five"}), ("c2", "payment", {"usd": 6})),
        tool_call_turn("c3", "pay", '{"usd": 7'),
        final_turn("done"),
    ]
    asked: Counter[str] = Counter()

    def repair(broken: BrokenCall) -> ToolCallPart:
        asked[broken.tool_call.tool_call_id] += 1
        return ToolCallPart("pay", {"usd": int(broken.tool_call.tool_call_id[1])})

    definition = define_agent("payer", model=following_model(turns), tools=[pay], repair_tool_call=repair)

    async def scenario(world: World) -> str:
        async with world.open(agents=[definition]) as system:
            thread = system.thread(definition, "t")
            answer = await thread.run("Go", run_id="r1")
            asked.clear()
            assert replay(thread, definition).digests_equal
            assert not asked
            return answer.output

    assert len(crash_points(scenario).points) > 10
