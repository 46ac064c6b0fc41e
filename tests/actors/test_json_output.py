"""Answers by a JSON schema: shown to the model by pydantic-ai, and checked by us."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent, NativeOutput, StructuredDict
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.test import TestModel

from clew.actors import ActorSystem, RunFailed
from clew.actors.agent import AgentDefinition, define_agent, json_output, replay
from clew.actors.testing import agent_harness, final_turn, invalid_for_provider, tool_call_turn
from tests.actors.schema_server import schema_server
from tests.actors.support import WAIT_S

ANSWER: dict[str, Any] = {
    "title": "answer",
    "type": "object",
    "properties": {
        "answer": {"type": "string", "minLength": 1},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["answer"],
    "additionalProperties": False,
}

RIGHT = {"answer": "Oslo", "confidence": 0.5}


def teller(**options: Any) -> AgentDefinition[None, Any]:
    return define_agent("teller", model="test", output=ANSWER, **options)


def bring_your_own(**options: Any) -> AgentDefinition[None, Any]:
    return AgentDefinition(agent=Agent("test", name="teller", output_type=json_output(ANSWER)), **options)


@pytest.mark.requirement("L-LOOP-13", "L-LOOP-19")
@pytest.mark.parametrize("declare", [teller, bring_your_own])
def test_an_answer_that_does_not_fit_its_schema_goes_back_to_the_model(declare: Any) -> None:
    wrong = tool_call_turn("c1", "final_result", {"answer": "", "confidence": 2})

    with agent_harness(declare(), [wrong, tool_call_turn("c2", "final_result", RIGHT)]) as harness:
        answer = harness.run("Where?")
        again = harness.conversation().attach(answer.run).result(timeout_s=WAIT_S)
        replayed = replay(harness.conversation(), harness.definition)

    assert answer.output == again.output == RIGHT
    [told] = [part for part in harness.script.requests[-1][-1].parts if isinstance(part, ToolReturnPart)]
    assert told.outcome == "retried"
    assert "$.answer: '' should be non-empty; $.confidence: 2 is greater than the maximum of 1" in str(told.content)
    assert replayed.digests_equal
    assert invalid_for_provider(harness.script.requests[-1]) == []


def test_an_answer_that_never_fits_fails_the_run() -> None:
    wrong = [tool_call_turn(f"c{n}", "final_result", {"answer": n}) for n in range(3)]

    with agent_harness(teller(), wrong) as harness, pytest.raises(RunFailed, match="output retries"):
        harness.run("Where?")


@pytest.mark.requirement("L-LOOP-19")
def test_pydantic_ais_own_schema_type_checks_nothing_but_that_it_is_an_object() -> None:
    agent = Agent("test", name="teller", output_type=StructuredDict(ANSWER))

    with agent_harness(agent, [tool_call_turn("c1", "final_result", {"answer": 7, "more": True})]) as harness:
        assert harness.run("Where?").output == {"answer": 7, "more": True}


def test_the_model_is_shown_the_schema() -> None:
    model = TestModel(custom_output_args=RIGHT)
    definition = define_agent("teller", model=model, output=ANSWER)

    with ActorSystem("memory:", agents=[definition]) as system:
        assert system.thread(definition, "test").run("Where?").result(timeout_s=WAIT_S).output == RIGHT

    shown = model.last_model_request_parameters
    assert shown is not None
    assert shown.output_tools[0].parameters_json_schema["properties"] == ANSWER["properties"]


def test_an_answer_as_text_is_checked_too() -> None:
    agent = Agent("test", name="teller", output_type=NativeOutput(json_output(ANSWER, name="told")))

    with agent_harness(agent, [final_turn('{"answer": ""}'), final_turn('{"answer": "Oslo"}')]) as harness:
        assert harness.run("Where?").output == {"answer": "Oslo"}


def test_references_within_a_schema_are_followed() -> None:
    schema = {
        "type": "object",
        "properties": {"places": {"type": "array", "items": {"$ref": "#/$defs/place"}}},
        "$defs": {"place": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
    }
    script = [
        tool_call_turn(f"c{n}", "final_result", {"places": [place]}) for n, place in enumerate([{}, {"name": "a"}])
    ]

    with agent_harness(define_agent("teller", model="test", output=schema), script) as harness:
        assert harness.run("Where?").output == {"places": [{"name": "a"}]}


def test_a_schema_of_somewhere_else_is_not_fetched() -> None:
    script = [tool_call_turn("c1", "final_result", {"a": 1})]

    with schema_server() as (url, asked):
        outside = {"type": "object", "properties": {"a": {"$ref": url}}}
        with (
            agent_harness(define_agent("teller", model="test", output=outside), script) as harness,
            pytest.raises(RunFailed, match=f"Unresolvable: {url}"),
        ):
            harness.run("Where?")

    assert asked == []


@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": "object", "required": 1}, {"type": "nothing"}], ids=str)
def test_what_is_no_schema_of_an_object_is_refused_where_it_is_declared(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="agent 'teller': the schema of the output cannot be used: "):
        define_agent("teller", model="test", output=schema)


def test_a_schema_that_is_changed_afterwards_stays_what_it_was() -> None:
    schema: dict[str, Any] = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}
    definition = define_agent("teller", model="test", output=schema)
    schema["properties"]["a"]["type"] = "integer"

    with agent_harness(definition, [tool_call_turn("c1", "final_result", {"a": "x"})]) as harness:
        assert harness.run("?").output == {"a": "x"}
