"""Tools that are declared by a schema of what they take."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, Field
from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ToolReturnPart
from typing_extensions import TypedDict

from clew.actors import InvalidArguments
from clew.actors.agent import ToolOptions, ToolStep, define_agent, define_agent_tool, replay, tool_options
from clew.actors.testing import World, agent_harness, crash_points, final_turn, following_model, tool_call_turn
from tests.actors.harnesses import returned
from tests.actors.support import WAIT_S, until

SCHEMA = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/city"}, "days": {"type": "array", "items": {"type": "integer"}}},
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"city": {"type": "string", "minLength": 2}},
}


class Trip(BaseModel):
    city: str = Field(min_length=2)
    days: list[int] = []


class TripStruct(msgspec.Struct):
    city: str
    days: list[int] = []


class TripDict(TypedDict):
    city: str
    days: list[int]


def planned(trip: Any, step: ToolStep) -> str:
    return "planned"


def agent_with(*tools: Tool[Any]) -> Any:
    return define_agent("planner", model="test", tools=tools)


def called(tool: Tool[Any], *inputs: dict[str, Any]) -> list[object]:
    """What the model got for each of these inputs."""
    script = [tool_call_turn(f"c{number}", tool.name, given) for number, given in enumerate(inputs)]
    with agent_harness(agent_with(tool), [*script, final_turn("done")]) as harness:
        harness.run("Plan")
        assert replay(harness.conversation(), harness.definition).digests_equal
    parts = [part for request in harness.script.requests[-1] for part in request.parts]
    return [part.content for part in parts if isinstance(part, ToolReturnPart)]


@pytest.mark.requirement("L-DEF-8")
@pytest.mark.parametrize(("schema", "kind"), [(SCHEMA, dict), (Trip, Trip), (TripStruct, TripStruct), (TripDict, dict)])
@pytest.mark.parametrize("awaited", [True, False])
def test_a_tool_gets_what_its_schema_makes_of_the_input_and_its_step(schema: Any, kind: type, awaited: bool) -> None:
    def plan(trip: Any, step: ToolStep) -> dict[str, Any]:
        assert isinstance(trip, kind)
        step.set_state({"planned": step.get_state()})
        return {"key": step.idempotency_key, "thread": step.thread}

    async def plan_later(trip: Any, step: ToolStep) -> dict[str, Any]:
        return plan(trip, step)

    tool = define_agent_tool(
        "plan", description="Plan a trip.", input_schema=schema, execute=plan_later if awaited else plan
    )
    with agent_harness(
        agent_with(tool), [tool_call_turn("c1", "plan", {"city": "Oslo", "days": [1]}), final_turn("ok")]
    ) as harness:
        harness.run("Plan", run_id="r1")
        assert harness.conversation().state() == {"planned": None}

    assert returned(harness) == [{"key": "thread/test/r1/tool:plan:c1", "thread": "test"}]
    assert (tool.description, tool.function_schema.json_schema["required"][0]) == ("Plan a trip.", "city")


@pytest.mark.requirement("L-DEF-8")
@pytest.mark.parametrize("schema", [SCHEMA, Trip, TripStruct])
def test_what_does_not_fit_is_told_to_the_model_with_its_place_and_reaches_nobody(schema: Any) -> None:
    got: list[Any] = []
    tool = define_agent_tool("plan", description="Plan.", input_schema=schema, execute=lambda trip, _: got.append(trip))

    refused, _ = called(tool, {"city": "Oslo", "days": [1, "two"]}, {"city": "Oslo"})

    assert len(got) == 1
    assert "['days', 1]" in str(refused) or "$.days[1]" in str(refused)


@pytest.mark.parametrize("given", [{"city": "Oslo", "days": [2**70]}, {"city": "Oslo", "more": 1}, {"city": 1}, {}])
def test_odd_input_never_ends_a_run(given: dict[str, Any]) -> None:
    for schema in (SCHEMA, Trip, TripStruct):
        tool = define_agent_tool("plan", description="Plan.", input_schema=schema, execute=planned)
        assert called(tool, given, {"city": "Oslo"})[-1] == "planned"


def test_nobody_is_asked_about_a_call_that_does_not_fit() -> None:
    tool = define_agent_tool("plan", description="Plan.", input_schema=SCHEMA, execute=planned, needs_approval=True)
    script = [
        tool_call_turn("c1", "plan", {"city": "X"}),
        tool_call_turn("c2", "plan", {"city": "Oslo"}),
        final_turn("ok"),
    ]
    with agent_harness(agent_with(tool), script) as harness:
        thread = harness.conversation()
        run = thread.run("Plan")
        run.started(timeout_s=WAIT_S)
        until(thread.approvals)
        (asked,) = thread.approvals()
        assert asked.arguments == {"city": "Oslo"}
        with pytest.raises(InvalidArguments, match="too short"):
            thread.approve(asked.id, arguments={"city": "Y"})
        thread.approve(asked.id, arguments={"city": "Rome"}).get(timeout=WAIT_S)
        assert run.result(timeout_s=WAIT_S).output == "ok"


@pytest.mark.requirement("L-DEF-8")
@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "object", "properties": 3}, "no JSON schema, at"),
        ({"type": "array"}, "'type': 'object'"),
        ({}, "'type': 'object'"),
        (list[int], "'type': 'object'"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}, "has no such part"),
        ({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/a"}}}, "outside of it"),
        (object(), "nothing that can be checked"),
    ],
)
def test_a_malformed_schema_is_refused_where_it_is_declared(schema: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        define_agent_tool("plan", description="Plan.", input_schema=schema, execute=planned)


def test_values_in_a_schema_are_no_references() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [{"$ref": "elsewhere"}]}, "$ref": {"type": "string"}}}

    tool = define_agent_tool("plan", description="Plan.", input_schema=schema, execute=lambda given, _: given)

    assert called(tool, {"a": {"$ref": "elsewhere"}}) == [{"a": {"$ref": "elsewhere"}}]


def test_a_schema_that_goes_round_in_circles_is_told_to_the_model() -> None:
    tool = define_agent_tool(
        "plan",
        description="Plan.",
        input_schema={"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
        execute=planned,
    )

    assert "nested too deeply" in str(called(tool, {"a": 1}, {})[0])


@pytest.mark.parametrize("name", ["", "a/b", "a:b", "a#b"])
def test_a_name_that_no_step_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        define_agent_tool(name, description="x", input_schema=SCHEMA, execute=planned)


def test_its_options_are_those_of_every_tool() -> None:
    assert set(ToolOptions.__annotations__) == set(inspect.signature(tool_options).parameters)
    with pytest.raises(ValueError, match="attempts"):
        define_agent_tool("plan", description="x", input_schema=SCHEMA, execute=planned, attempts=0)


def test_it_works_in_an_agent_of_your_own() -> None:
    tool = define_agent_tool("plan", description="Plan.", input_schema=Trip, execute=lambda trip, _: trip.city)
    agent = Agent("test", name="own", tools=[tool])

    with agent_harness(agent, [tool_call_turn("c1", "plan", {"city": "Oslo"}), final_turn("ok")]) as harness:
        harness.run("Plan")

    assert returned(harness) == ["Oslo"]


@pytest.mark.crash
def test_it_does_its_work_once_wherever_the_process_dies() -> None:
    async def scenario(world: World) -> str:
        def pay(given: Any, step: ToolStep) -> str:
            world.effect(step.idempotency_key)
            step.update_state(lambda paid: (paid or 0) + given["amount"])
            return "paid"

        tool = define_agent_tool(
            "pay",
            description="Pay.",
            input_schema={"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]},
            execute=pay,
        )
        model = following_model([tool_call_turn("c1", "pay", {"amount": 3}), final_turn("done")])
        agent = define_agent("payer", model=model, tools=[tool])
        async with world.open(agents=[agent]) as system:
            thread = system.thread(agent, "t")
            answer = await thread.run("Pay", run_id="r")
            return f"{answer.output} {thread.state()}"

    assert crash_points(scenario).points
