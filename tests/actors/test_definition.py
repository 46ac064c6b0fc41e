"""What is refused where an agent is declared, in its own words; and that one declaration is all it takes."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, FunctionToolset, Tool
from pydantic_ai.models.test import TestModel

from clew.actors import ActorSystem
from clew.actors.agent import AgentDefinition, RunNow, define_agent, tool_options, tool_step
from clew.actors.testing import agent_harness, final_turn, tool_call_turn
from tests.actors.harnesses import steps_of
from tests.actors.support import WAIT_S

ROOT = Path(__file__).parents[2]


class Place(BaseModel):
    name: str


class Shop:
    """What tools work with."""


def look() -> str:
    return "seen"


def other() -> str:
    return "other"


async def later(*_: Any) -> Any:
    return True


def seven(*_: Any) -> Any:
    return 7


def brief(_: RunNow) -> str:
    return "Be brief."


async def brief_later(_: RunNow) -> str:
    return "Be brief."


class Waiting:
    async def __call__(self, *_: Any) -> bool:
        return True


class Closing:
    async def close(self, *_: Any) -> bytes:
        return b""

    def open(self, *_: Any) -> str:
        return ""


LATER = [later, Waiting(), functools.partial(later, 1)]


def declared(way: str, **options: Any) -> AgentDefinition[Any, Any]:
    """Declare an agent in one place, or around a pydantic-ai agent that somebody brought."""
    if way == "defined":
        return define_agent("helper", model="test", **options)
    return AgentDefinition(agent=Agent("test", name="helper"), **options)


WAYS = pytest.mark.parametrize("way", ["defined", "brought"])


@pytest.mark.requirement("L-DEF-1", "L-DEF-2", "L-DEF-6")
def test_one_declaration_gives_a_durable_loop_with_a_name_for_every_step() -> None:
    def remember(text: str) -> str:
        tool_step().update_state(lambda notes: [*(notes or []), text])
        return "noted"

    def instructions(run: RunNow) -> str:
        return f"Help {run.owner}."

    agent = define_agent("helper", model="test", instructions=instructions, tools=[remember], initial_state=[])
    script = [tool_call_turn("c1", "remember", {"text": "milk"}), final_turn("Noted.")]
    with agent_harness(agent, script) as harness:
        answer = harness.run("Milk, please.", owner="ann")
        thread = harness.conversation(owner="ann")
        harness.restart()
        again = harness.conversation(owner="ann")

        assert answer.output == "Noted."
        assert steps_of(harness) == ["instructions", "llm:turn:1", "tool:remember:c1", "llm:turn:2"]
        assert (again.state(), again.messages()) == (thread.state(), thread.messages())
        assert again.state() == ["milk"]


@pytest.mark.requirement("L-DEF-6")
@pytest.mark.parametrize("instructions", ["Be brief.", brief, brief_later])
def test_instructions_are_a_text_or_a_function_that_is_awaited_where_needed(instructions: Any) -> None:
    agent = define_agent("helper", model="test", instructions=instructions)
    with agent_harness(agent, [final_turn("Yes.")]) as harness:
        harness.run("Hello")
        sent = harness.script.requests[0][-1]

    assert getattr(sent, "instructions", None) == "Be brief."


@pytest.mark.requirement("L-DEF-7")
def test_a_model_is_a_name_a_model_or_what_a_function_of_the_environment_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HELPER_ANSWER", "from the environment")

    def from_environment(env: Mapping[str, str]) -> TestModel:
        return TestModel(custom_output_text=env["HELPER_ANSWER"])

    agents = [
        define_agent("name", model="test"),
        define_agent("model", model=TestModel(custom_output_text="a model")),
        define_agent("factory", model=from_environment),
    ]
    with ActorSystem("memory:", agents=agents) as system:
        said = [system.thread(agent, agent.name).run("Hello").result(timeout_s=WAIT_S).output for agent in agents]

    assert said == ["success (no tool calls)", "a model", "from the environment"]


@pytest.mark.parametrize("name", ["", None, "two words", "a/b", "x" * 65, "caf\u00e9", "new\nline", 7])
def test_a_name_that_could_not_be_recorded_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=r"an agent needs a name of letters, digits, _ and - \(at most 64\), not"):
        define_agent(name, model="test")
    with pytest.raises(ValueError, match="an agent needs a name"):
        AgentDefinition(agent=Agent("test", name=name))


def test_what_is_no_agent_is_refused() -> None:
    with pytest.raises(TypeError, match=r"of a pydantic_ai\.Agent, not of str"):
        AgentDefinition(agent="helper")  # type: ignore[arg-type]  # it is the mistake


@WAYS
@pytest.mark.parametrize("option", ["deps_for", "on_step_finish", "approvers", "state_upcast"])
@pytest.mark.parametrize("function", LATER, ids=["function", "object", "partial"])
def test_an_async_function_where_nobody_would_await_it_is_refused(way: str, option: str, function: Any) -> None:
    with pytest.raises(TypeError, match=f"agent 'helper': {option} is not awaited"):
        declared(way, **{option: function})


@WAYS
@pytest.mark.parametrize(
    "option", ["deps_for", "instructions", "on_step_finish", "approvers", "on_settled", "state_upcast"]
)
def test_what_is_no_function_is_refused_by_the_option_it_was_given_as(way: str, option: str) -> None:
    with pytest.raises(TypeError, match=f"{option} is a function, not"):
        declared(way, **{option: 7})


@WAYS
@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"max_turns": 0}, "max_turns is at least 1, not 0"),
        ({"deps": 1, "deps_for": seven}, "give deps or deps_for, not both"),
        ({"run_timeout_s": 5, "turn_timeout_s": 6}, "turn_timeout_s is 6, but the run as a whole has only"),
        ({"on_concurrent_run": "wait"}, "on_concurrent_run is one of reject, replace, queue, not 'wait'"),
        ({"queue_max": 0}, "queue_max is at least 1"),
        ({"recoveries_max": 0}, "recoveries_max is at least 1"),
        ({"queue_timeout_s": 0}, "queue_timeout_s is more than 0"),
        ({"run_timeout_s": -1.0}, "run_timeout_s is more than 0"),
        ({"turn_timeout_s": float("nan")}, "turn_timeout_s is more than 0"),
    ],
)
def test_options_that_are_out_of_range_or_contradict_each_other_are_refused(
    way: str, options: dict[str, Any], what: str
) -> None:
    with pytest.raises(ValueError, match=f"agent 'helper': {what}"):
        declared(way, **options)


@WAYS
@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"max_turns": "5"}, "max_turns is of type int, not str: '5'"),
        ({"max_turns": True}, "max_turns is of type int, not bool"),
        ({"queue_max": 1.5}, "queue_max is of type int, not float"),
        ({"run_timeout_s": "60"}, "run_timeout_s is of type float, not str"),
        ({"policy_version": 2}, "policy_version is of type str, not int"),
        ({"budget": 5}, "budget is of type Budget, not int"),
        ({"compaction": 5}, "compaction is of type Compaction, not int"),
        ({"result_cap": 5}, "result_cap is of type ResultCap, not int"),
        ({"seal": "key"}, "seal has a method 'close', and str has none"),
        ({"seal": Closing()}, r"seal\.close is not awaited"),
    ],
)
def test_an_option_of_another_type_is_refused_by_name(way: str, options: dict[str, Any], what: str) -> None:
    with pytest.raises(TypeError, match=f"agent 'helper': {what}"):
        declared(way, **options)


def test_a_model_of_a_definition_is_a_model() -> None:
    with pytest.raises(TypeError, match="agent 'helper': model is of type Model, not str: 'test'"):
        declared("brought", model="test")


def _missing_key(env: Mapping[str, str]) -> str:
    return env["NO_SUCH_KEY"]


@pytest.mark.parametrize(
    ("model", "error", "what"),
    [
        (_missing_key, ValueError, "its model could not be made: KeyError: 'NO_SUCH_KEY'"),
        (later, TypeError, "the function that returns its model is not awaited"),
        (seven, TypeError, "7"),
        ("no:such", ValueError, "cannot be made: UserError: Unknown model: no:such"),
    ],
)
def test_a_model_that_cannot_be_made_is_told_with_the_name_of_the_agent(
    model: Any, error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=f"agent 'helper'.*{what}"):
        define_agent("helper", model=model)


def test_dependencies_may_come_later_for_who_only_decides_or_looks_takes_none() -> None:
    assert define_agent("helper", model="test", deps_type=Shop).deps is None


@pytest.mark.parametrize(
    ("tools", "error", "what"),
    [
        ([look, Tool(other, name="look")], ValueError, "two tools are named 'look'"),
        ([look, 7], TypeError, "a tool is a function or a pydantic_ai.Tool, not int"),
        (look, TypeError, "tools is a list of functions and tools, not <function look"),
        ("look", TypeError, "tools is a list"),
        ([Agent("test", name="x")], TypeError, "an agent is no tool by itself; write agent_as_tool"),
        ([define_agent("x", model="test")], TypeError, "an agent is no tool by itself"),
    ],
)
def test_tools_that_are_none_or_share_a_name_are_refused(tools: Any, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=f"agent 'helper': {what}"):
        define_agent("helper", model="test", tools=tools)


def _sets(*toolsets: Any) -> list[Any]:
    return list(toolsets)


def _set(*functions: Any, id_: str = "theirs") -> FunctionToolset[Any]:
    return FunctionToolset(functions, id=id_)


@pytest.mark.parametrize(
    ("tools", "toolsets", "output", "name"),
    [
        ([look], _sets(_set(look)), str, "look"),
        ([], _sets(_set(look), _set(look, id_="other")), str, "look"),
        ([], _sets(_set(look).prefixed("a"), _set(Tool(other, name="a_look"), id_="other")), str, "a_look"),
        ([other], _sets(_set(look).renamed({"other": "look"})), str, "other"),
        ([look], _sets(_set(look).approval_required()), str, "look"),
        ([Tool(look, name="final_result")], [], Place, "final_result"),
    ],
)
def test_tools_of_one_name_in_different_places_are_refused_where_the_agent_is_declared(
    tools: list[Any], toolsets: list[Any], output: Any, name: str
) -> None:
    agent = Agent("test", name="helper", tools=tools, toolsets=toolsets, output_type=output)

    with pytest.raises(ValueError, match=f"agent 'helper': two tools are named '{name}', of .* and of .*: rename one"):
        AgentDefinition(agent=agent)


def test_tools_whose_names_differ_or_depend_on_the_run_are_taken() -> None:
    toolsets = _sets(
        _set(look).prefixed("a"),
        _set(look, id_="b").renamed({"seen": "look"}),
        _set(look, id_="c").filtered(lambda _, __: False),
    )
    agent = Agent("test", name="helper", tools=[look], toolsets=toolsets)
    with agent_harness(AgentDefinition(agent=agent), [tool_call_turn("c1", "a_look"), final_turn("ok")]) as harness:
        assert harness.run("Look.").output == "ok"


@pytest.mark.parametrize("predicate", LATER, ids=["function", "object", "partial"])
def test_an_async_predicate_of_approvals_is_refused(predicate: Any) -> None:
    with pytest.raises(TypeError, match=r"needs_approval.* is not awaited"):
        tool_options(needs_approval=predicate)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"needs_approval": "yes"}, "needs_approval.* is a function, not str"),
        ({"retry_on": OSError}, "retry_on is a list of classes of errors"),
        ({"retry_on": ["OSError"]}, "retry_on is a list of classes of errors"),
        ({"attempts": "3"}, "attempts is of type int, not str"),
        ({"timeout_s": "3"}, "timeout_s is of type float, not str"),
    ],
)
def test_an_option_of_a_tool_that_is_of_another_type_is_refused_by_name(options: dict[str, Any], what: str) -> None:
    with pytest.raises(TypeError, match=what):
        tool_options(**options)


@pytest.mark.requirement("L-DEF-15")
def test_the_package_says_that_it_may_change() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert "Development Status :: 3 - Alpha" in project["classifiers"]
    assert project["version"].startswith("0.")
