"""Functions of the application that tools call by name."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from clew.actors import ActorSystem, InvalidInput, RunFailed, UnknownFunction
from clew.actors.agent import (
    Function,
    define_agent,
    define_function,
    function,
    function_tool,
    replay,
    tool_options,
    tool_step,
)
from clew.actors.testing import World, agent_harness, crash_points, final_turn, following_model, tool_call_turn
from clew.journal import MemoryJournal
from tests.actors.harnesses import returned, steps_of
from tests.actors.support import WAIT_S


class Order(BaseModel):
    id: int
    lines: list[str] = []


class OrderStruct(msgspec.Struct):
    id: int


@function("orders.find")
def find_order(id: int, *, schema: str = "short", **more: int) -> dict[str, Any]:  # noqa: A002  (a name of its own)
    """Find an order.

    By its number.
    """
    return {"id": id, "schema": schema, **more}


def stub(**given: Any) -> dict[str, Any]:
    return {"stub": given}


def number_of(order: Order | OrderStruct | dict[str, Any]) -> int:
    return order["id"] if isinstance(order, dict) else order.id


def asks(call: Callable[[], Any]) -> Any:
    """An agent with a tool `ask` that does this."""

    async def ask() -> Any:
        return await call()

    return define_agent("clerk", model="test", tools=[ask])


ASK = [tool_call_turn("c1", "ask"), final_turn("done")]


@pytest.mark.requirement("L-DEF-9", "L-TEST-5", "L-TEST-3")
def test_a_tool_calls_a_function_by_name_and_by_reference() -> None:
    async def both() -> list[Any]:
        step = tool_step()
        return [await step.call("orders.find", {"id": "7", "a": 1}), await step.call(find_order, {"id": 8})]

    with agent_harness(asks(both), ASK, functions=[find_order]) as harness:
        harness.run("Find it")
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert returned(harness) == [[{"id": 7, "schema": "short", "a": 1}, {"id": 8, "schema": "short"}]]
    assert harness.dispatches == [
        {"path": "orders.find", "args": {"id": "7", "a": 1}},
        {"path": "orders.find", "args": {"id": 8}},
    ]


@pytest.mark.requirement("L-TEST-5")
def test_stubs_stand_in_for_functions_also_for_those_that_are_given_themselves() -> None:
    async def call() -> Any:
        return await tool_step().call(find_order, {"id": 8})

    with agent_harness(asks(call), ASK, functions={"orders.find": stub}) as harness:
        harness.run("Find it")
        harness.restart()
        assert harness.dispatches == [{"path": "orders.find", "args": {"id": 8}}]

    assert returned(harness) == [{"stub": {"id": 8}}]


@pytest.mark.requirement("L-DEF-9")
def test_a_function_that_is_not_there_is_told_with_those_that_are() -> None:
    async def call() -> Any:
        with pytest.raises(UnknownFunction, match=r"'orders.lost' \(there are: orders.find\)") as caught:
            await tool_step().call("orders.lost")
        return caught.value.known

    with agent_harness(asks(call), ASK, functions=[find_order]) as harness:
        harness.run("Find it")

    assert returned(harness) == [["orders.find"]]


@pytest.mark.requirement("L-DEF-9")
@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, r"\$\.id"),
        ({"id": "x"}, r"\$\.id"),
        ({"id": 1, "a": "x"}, r"\$\.a"),
        ({"id": 1, "schema": 3}, r"\$\.schema"),
    ],
)
def test_arguments_are_checked_against_the_signature(given: dict[str, Any], path: str) -> None:
    async def call() -> Any:
        await tool_step().call(find_order, given)

    with (
        agent_harness(asks(call), [tool_call_turn("c1", "ask")]) as harness,
        pytest.raises(RunFailed, match=f"InvalidInput.*{path}"),
    ):
        harness.run("Find it")
    assert harness.dispatches == []


@pytest.mark.parametrize(
    "declared",
    [
        define_function("orders.id", number_of, input=Order),
        define_function("orders.id", number_of, input=OrderStruct),
        define_function("orders.id", number_of, input={"type": "object", "required": ["id"]}),
    ],
)
def test_a_function_may_take_one_value_of_a_type(declared: Function[..., Any]) -> None:
    async def call() -> Any:
        with pytest.raises(InvalidInput):
            await tool_step().call(declared, {})
        return await tool_step().call("orders.id", {"id": 4})

    with agent_harness(asks(call), ASK, functions=[declared]) as harness:
        harness.run("Find it")
    assert returned(harness) == [4]


def test_a_function_gets_what_the_call_has_in_it_and_its_own_defaults() -> None:
    marker = object()

    @function("look")
    def look(at: Decimal, mark: Any = marker) -> bool:
        return mark is marker and isinstance(at, Decimal)

    async def call() -> Any:
        return await tool_step().call(look, {"at": Decimal("1.5")}), look(Decimal(1))

    with agent_harness(asks(call), ASK) as harness:
        harness.run("Look")
    assert returned(harness) == [[True, True]]
    assert look.input.schema["required"] == ["at"]


def test_a_function_may_change_the_state_as_the_tool_that_calls_it() -> None:
    @function("count")
    async def count(by: int) -> str:
        tool_step().update_state(lambda state: (state or 0) + by)
        return tool_step().name

    async def call() -> Any:
        return await tool_step().call(count, {"by": 2})

    with agent_harness(asks(call), ASK) as harness:
        harness.run("Count")
        assert harness.conversation().state() == 2
    assert returned(harness) == ["tool:ask:c1"]


@pytest.mark.requirement("L-TOOLS-1")
def test_a_function_is_a_tool_with_the_schema_of_what_it_takes() -> None:
    tool = function_tool(find_order)
    script = [tool_call_turn("c1", "orders_find", {"id": 7, "a": 1}), final_turn("found")]

    with agent_harness(define_agent("clerk", model="test", tools=[tool]), script) as harness:
        harness.run("Find it")
        assert replay(harness.conversation(), harness.definition).digests_equal

    schema = tool.function_schema.json_schema
    assert (tool.name, tool.description) == ("orders_find", "Find an order.")
    assert schema["properties"]["id"]["type"] == "integer"
    assert (schema["properties"]["schema"]["default"], schema["required"]) == ("short", ["id"])
    assert steps_of(harness)[1] == "tool:orders_find:c1"
    assert returned(harness) == [{"id": 7, "schema": "short", "a": 1}]
    assert harness.dispatches == [{"path": "orders.find", "args": {"id": 7, "a": 1}}]


@pytest.mark.requirement("L-TOOLS-1")
def test_a_tool_that_names_its_function_says_what_that_takes() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"id": {}}}
    tool = function_tool("orders.find", description="Find.", input_schema=schema, name="find", attempts=1)
    script = [
        tool_call_turn("c1", "find", {"id": "seven"}),
        tool_call_turn("c2", "find", {"id": 7}),
        final_turn("found"),
    ]

    with agent_harness(define_agent("clerk", model="test", tools=[tool]), script, functions=[find_order]) as harness:
        harness.run("Find it")

    # What the function itself refuses, the model is told, and only what it takes is called.
    assert "$.id" in str(harness.script.requests[1][-1].parts)
    assert [call["args"] for call in harness.dispatches] == [{"id": 7}]
    with pytest.raises(TypeError, match="does not say what"):
        function_tool("orders.find", description="Find.")
    with pytest.raises(ValueError, match="description"):
        function_tool("orders.find", input_schema=schema)


def test_an_agent_whose_tool_has_no_function_is_refused_when_the_system_is_opened() -> None:
    schema = {"type": "object"}
    clerk = define_agent("clerk", model="test", tools=[function_tool("lost", description="x", input_schema=schema)])

    with pytest.raises(ValueError, match=r"tool 'lost': there is no function 'lost' \(only orders.find\)"):
        ActorSystem(MemoryJournal(), agents=[clerk], functions=[find_order])
    # One without any looks around or decides, and calls none.
    with (
        agent_harness(clerk, [tool_call_turn("c1", "lost", {})]) as harness,
        pytest.raises(RunFailed, match="UnknownFunction"),
    ):
        harness.run("Find it")


def test_a_mistake_within_a_function_is_not_the_models() -> None:
    @function("outer")
    async def outer(id: int) -> Any:  # noqa: A002  (as above)
        return await tool_step().call("outer", {"id": "wrong"})

    clerk = define_agent("clerk", model="test", tools=[function_tool(outer, description="x", attempts=1)])

    with (
        agent_harness(clerk, [tool_call_turn("c1", "outer", {"id": 1})], functions=[outer]) as harness,
        pytest.raises(RunFailed, match="InvalidInput"),
    ):
        harness.run("Go")


def positional(a: int, /) -> None:
    """Take it by its place."""


def many(*a: int) -> None:
    """Take as many as there are."""


def lost_hint(a: Any) -> None:
    """Take what nobody knows."""


lost_hint.__annotations__["a"] = "Missing"


@pytest.mark.parametrize("call", [positional, many, lost_hint])
def test_a_function_whose_arguments_cannot_be_given_by_name_is_refused(call: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="function 'it'"):
        define_function("it", call)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 129])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        define_function(name, lambda: None)


def test_functions_of_a_system_are_declared_and_have_names_of_their_own() -> None:
    undeclared: Any = lambda: None  # noqa: E731  (it is what is refused)
    with pytest.raises(TypeError, match="@function"):
        ActorSystem(MemoryJournal(), functions=[undeclared])
    with pytest.raises(TypeError, match="is a function"):
        define_function("x", 3)  # pyright: ignore[reportArgumentType]  (it is what is refused)
    with pytest.raises(ValueError, match="two functions"):
        ActorSystem(MemoryJournal(), functions=[find_order, find_order])


@pytest.mark.crash
@pytest.mark.requirement("L-DEF-9")
def test_a_function_is_part_of_the_tools_step_and_runs_again_with_its_key() -> None:
    async def scenario(world: World) -> Any:
        @function("pay")
        def pay(amount: int) -> str:
            world.effect(tool_step().idempotency_key)
            return f"paid {amount}"

        model = following_model([tool_call_turn("c1", "pay", {"amount": 3}), final_turn("done")])
        tool = function_tool("pay", description="Pay.", input_schema=pay.input.schema)
        payer = define_agent("payer", model=model, tools=[tool])
        async with world.open(agents=[payer], functions=[pay]) as system:
            return (await system.thread(payer, "t").run("Pay", run_id="r")).output

    tried = crash_points(scenario)
    assert tried.points
    assert tried.redelivered > 0


def test_a_system_of_your_own_has_functions() -> None:
    async def ask() -> Any:
        return await tool_step().call("orders.find", {"id": 1})

    turns = [tool_call_turn("c1", "ask"), final_turn("done")]
    clerk = define_agent("clerk", model=following_model(turns), tools=[ask])
    with ActorSystem(MemoryJournal(), agents=[clerk], functions=[find_order]) as system:
        assert system.thread(clerk, "t").run("Go").result(timeout_s=WAIT_S).output == "done"
        assert system.functions.names == ("orders.find",)


def test_an_at_most_once_tool_keeps_its_function_from_being_doubled() -> None:
    assert function_tool(find_order, at_most_once=True).metadata == tool_options(at_most_once=True)
