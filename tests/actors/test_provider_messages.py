"""Whatever a model says, what it is sent next is what a provider accepts."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent, ModelResponse, TextPart
from pydantic_ai.messages import ToolReturnPart

from clew.actors.agent import replay
from clew.actors.testing import agent_harness, final_turn, invalid_for_provider, tool_call_turn, tool_calls_turn


@pytest.mark.scenario("MSG-07", "MSG-13")
def test_calls_with_the_same_or_no_id_each_run_once_and_get_their_own_result() -> None:
    agent = Agent("test", name="reader")
    read: list[str] = []

    @agent.tool_plain
    def fetch(name: str) -> str:
        read.append(name)
        return name.upper()

    calls = tool_calls_turn(*[(i, "fetch", {"name": n}) for n, i in (("a", "x"), ("b", "x"), ("c", ""), ("d", "x/y"))])
    script = [calls, tool_call_turn("x", "fetch", {"name": "e"}), final_turn("done"), final_turn("more")]
    with agent_harness(agent, script) as harness:
        harness.run("Read.")
        replayed = replay(harness.conversation(), harness.definition)
        harness.run("More.")

    sent = harness.script.requests[-1]
    contents = [p.content for m in sent for p in m.parts if isinstance(p, ToolReturnPart)]
    assert sorted(read) == ["a", "b", "c", "d", "e"]
    assert contents == ["A", "B", "C", "D", "E"]
    assert invalid_for_provider(sent) == []
    assert replayed.digests_equal


@pytest.mark.scenario("MSG-09")
@pytest.mark.parametrize("parts", [[], [TextPart("")], [TextPart("  \n")]], ids=["nothing", "empty", "blank"])
def test_an_empty_turn_does_not_kill_the_thread(parts: list[Any]) -> None:
    agent = Agent("test", name="silent")
    script = [ModelResponse(list(parts)), final_turn("something"), final_turn("and more")]

    with agent_harness(agent, script) as harness:
        first = harness.conversation().run("Say something.")
        try:
            first.result(timeout_s=10)
        except Exception:  # noqa: BLE001  (whether the run may end so is not the question)
            harness.script.requests.append([])
        harness.run("And now?")

    assert invalid_for_provider(harness.script.requests[-1]) == []
    assert harness.thread().status == "done"


@pytest.mark.scenario("MSG-11")
def test_a_call_with_unparsable_arguments_is_not_executed_and_sent_as_json_later() -> None:
    agent = Agent("test", name="cut")
    calls: list[str] = []

    @agent.tool_plain
    def write(path: str = "", content: str = "") -> str:
        calls.append(path)
        return "written"

    script = [tool_call_turn("c1", "write", '{"path": "/a", "content": "abc'), final_turn("ok"), final_turn("on")]
    with agent_harness(agent, script) as harness:
        harness.run("Write.")
        replayed = replay(harness.conversation(), harness.definition)
        harness.restart()
        harness.run("Go on.")

    assert calls == []
    assert all(invalid_for_provider(request) == [] for request in harness.script.requests)
    assert replayed.digests_equal


@pytest.mark.scenario("MSG-12", "SEC-10")
def test_unknown_tools_are_answered_and_old_ones_stay_readable() -> None:
    agent = Agent("test", name="renamed")
    agent.tool_plain(lambda: "x", name="known")  # pyright: ignore[reportCallIssue, reportArgumentType]
    nopes = tool_calls_turn(*[(f"n{i}", "nope", None) for i in range(5)])

    with agent_harness(agent, [nopes, final_turn("ok"), final_turn("on")]) as harness:
        harness.run("Go.")
        harness.run("On.")

    sent = harness.script.requests[-1]
    results = [p for m in sent for p in m.parts if isinstance(p, ToolReturnPart)]
    assert len(results) == 5
    assert all("nope" in str(p.content) and "known" in str(p.content) for p in results)
    assert invalid_for_provider(sent) == []


def test_a_call_whose_id_looks_like_an_attempt_at_another_one_is_recorded_as_its_own() -> None:
    agent = Agent("test", name="reader")
    read: list[str] = []

    @agent.tool_plain
    def fetch(name: str) -> str:
        read.append(name)
        if read == ["a"]:
            raise ConnectionError("once")
        return name.upper()

    turns = [[(i, "fetch", {"name": n})] for i, n in (("c1", "a"), ("c1!1", "b"), ("c1>1", "c"), ("c1?1", "d"))]
    with agent_harness(agent, [*(tool_calls_turn(*calls) for calls in turns), final_turn("done")]) as harness:
        answer = harness.run("Read.")
        replayed = replay(harness.conversation(), harness.definition)

    assert answer.output == "done"
    assert read == ["a", "a", "b", "c", "d"]
    assert replayed.digests_equal
