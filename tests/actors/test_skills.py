"""Skills: what an agent gets from them, and in which order."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.messages import ModelRequest

from clew.actors import ReplayDivergence, RunFailed
from clew.actors.agent import (
    AgentDefinition,
    DurableSteps,
    RunNow,
    Skill,
    define_agent,
    define_skill,
    replay,
    tool_options,
)
from clew.actors.testing import AgentHarness, Script, agent_harness, final_turn, scripted_model, tool_call_turn
from tests.actors.harnesses import returned, steps_of
from tests.actors.support import WAIT_S, until


def lookup(id: int) -> str:  # noqa: A002  (a name of its own)
    """Look up an invoice."""
    return f"invoice {id}"


def owned(run: RunNow) -> str:
    return "Own."


def told(harness: AgentHarness[Any, Any]) -> str | None:
    """The instructions the model was given last."""
    request = harness.script.requests[-1][-1]
    assert isinstance(request, ModelRequest)
    return request.instructions


@pytest.mark.requirement("L-SKILL-1", "L-SKILL-3")
@pytest.mark.parametrize("own", ["Own.", owned])
def test_instructions_stand_behind_the_agents_own_in_the_order_of_the_skills(own: Any) -> None:
    skills = [
        define_skill("one", instructions="First."),
        define_skill("two", instructions=lambda run: f"Second of {run.thread}."),
        define_skill("none", tools=[lookup]),
        define_skill("blank", instructions=lambda _: "  "),
        define_skill("three", instructions="Third."),
    ]
    agent = define_agent("clerk", model="test", instructions=own, skills=skills)

    with agent_harness(agent, [tool_call_turn("c1", "lookup", {"id": 7}), final_turn("seven")]) as harness:
        harness.run("Which one?")
        assert told(harness) == "Own.\n\nFirst.\n\nSecond of test.\n\nThird."
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert returned(harness) == ["invoice 7"]


@pytest.mark.requirement("L-SKILL-4")
def test_a_function_of_a_skill_is_called_once_a_run_and_recorded() -> None:
    calls: list[str] = []

    async def instructions(run: RunNow) -> str:
        calls.append(run.run)
        return f"Call {len(calls)}."

    clerk = define_agent(
        "clerk", model="test", instructions=lambda _: "Own.", skills=[define_skill("one", instructions=instructions)]
    )
    with agent_harness(clerk, [tool_call_turn("c1", "none", {}), final_turn("a"), final_turn("b")]) as harness:
        harness.run("Go", run_id="r1")
        assert told(harness) == "Own.\n\nCall 1."
        harness.restart()
        harness.run("Go", run_id="r2")
        assert told(harness) == "Own.\n\nCall 2."
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert calls == ["r1", "r2"]
    assert steps_of(harness)[:3] == ["instructions", "skill:instructions:one", "llm:turn:1"]


def test_a_function_that_fails_or_returns_no_text_fails_the_run() -> None:
    def down(run: RunNow) -> str:
        raise ConnectionError("down")

    for thunk, why in ((down, "skill:instructions:one: down"), (lambda _: 3, "are text, not int")):  # pyright: ignore[reportUnknownVariableType, reportUnknownLambdaType]
        one = define_skill("one", instructions=thunk)  # pyright: ignore[reportUnknownArgumentType]
        with (
            agent_harness(define_agent("clerk", model="test", skills=[one]), []) as harness,
            pytest.raises(RunFailed, match=why),
        ):
            harness.run("Go")


@pytest.mark.requirement("L-SKILL-2")
def test_tools_of_one_name_are_refused_with_both_that_have_it() -> None:
    one, two = define_skill("one", tools=[lookup]), define_skill("two", tools=[Tool(lookup)])

    with pytest.raises(ValueError, match=r"'lookup' is of skill 'one' and of skill 'two'"):
        define_agent("clerk", model="test", skills=[one, two])
    with pytest.raises(ValueError, match=r"'lookup' is of the agent itself and of skill 'one'"):
        define_agent("clerk", model="test", tools=[lookup], skills=[one])
    with pytest.raises(ValueError, match=r"'lookup' is of the agent itself and of skill 'one'"):
        AgentDefinition(agent=Agent("test", name="own", tools=[lookup]), skills=[one])
    with pytest.raises(ValueError, match=r"skill 'one': two tools are named 'lookup'"):
        define_skill("one", tools=[lookup, Tool(lookup)])
    with pytest.raises(ValueError, match="two skills are named 'one'"):
        define_agent("clerk", model="test", skills=[one, define_skill("one", instructions="x")])


@pytest.mark.requirement("L-SKILL-1")
def test_an_agent_of_your_own_takes_skills_as_well() -> None:
    one = define_skill("one", instructions="First.", tools=[Tool(lookup, metadata=tool_options(attempts=1))])
    agent = Agent("test", name="own", instructions="Own.")
    definition = AgentDefinition(agent=agent, skills=[one])

    # What is declared again is the same, and the skill's own tool stays as it was.
    AgentDefinition(agent=agent, skills=[one])
    with agent_harness(definition, [tool_call_turn("c1", "lookup", {"id": 7}), final_turn("seven")]) as harness:
        harness.run("Which one?")
        assert told(harness) == "Own.\n\nFirst."
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert returned(harness) == ["invoice 7"]
    assert one.tools[0].metadata == tool_options(attempts=1)
    with pytest.raises(ValueError, match=r"it has tool 'lookup' of skill 'one' from another definition"):
        AgentDefinition(agent=agent)


def test_a_skill_is_shared_by_agents() -> None:
    one = define_skill("one", tools=[lookup])

    for name in ("first", "second"):
        agent = define_agent(name, model="test", skills=[one])
        with agent_harness(agent, [tool_call_turn("c1", "lookup", {"id": 7}), final_turn("seven")]) as harness:
            assert harness.run("Which one?").stopped == "final"


def test_a_tool_of_a_skill_keeps_its_gate() -> None:
    one = define_skill("one", tools=[Tool(lookup, metadata=tool_options(needs_approval=True))])
    agent = define_agent("clerk", model="test", skills=[one])

    with agent_harness(agent, [tool_call_turn("c1", "lookup", {"id": 7}), final_turn("seven")]) as harness:
        run = harness.conversation().run("Which one?", run_id="r")
        run.started(timeout_s=WAIT_S)
        until(harness.conversation().approvals)
        harness.conversation().approve("r/approval:c1").get(timeout=WAIT_S)
        assert run.result(timeout_s=WAIT_S).output == "seven"


@pytest.mark.parametrize("durable", [True, False])
def test_a_sub_agent_is_not_told_what_its_caller_is_told(*, durable: bool) -> None:
    heard = Script([final_turn("hi")])
    capabilities = [DurableSteps()] if durable else []
    sub = Agent(scripted_model(heard), name="sub", instructions="Sub.", capabilities=capabilities)

    async def ask(ctx: RunContext[None]) -> str:
        return (await sub.run("Hello", usage=ctx.usage)).output

    skill = define_skill("one", instructions="First.", knowledge=lambda query, run: ["known"])
    clerk = define_agent("clerk", model="test", tools=[ask], skills=[skill])
    with agent_harness(clerk, [tool_call_turn("c1", "ask"), final_turn("done")]) as harness:
        harness.run("Go")

    (request,) = heard.requests[0]
    assert isinstance(request, ModelRequest)
    assert request.instructions == "Sub."
    assert len(request.parts) == 1
    assert told(harness) == "First."


def test_other_instructions_than_were_recorded_diverge() -> None:
    def clerk(text: str) -> AgentDefinition[None, str]:
        return define_agent("clerk", model="test", skills=[define_skill("one", instructions=text)])

    with agent_harness(clerk("First."), [final_turn("done")]) as harness:
        harness.run("Go")
        with (
            agent_harness(clerk("Other."), []) as other,
            pytest.raises(ReplayDivergence, match="instructions"),
        ):
            replay(harness.conversation(), other.definition)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "x" * 65, 3])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="a skill needs a name"):
        define_skill(name, instructions="x")


def test_what_is_no_skill_is_refused() -> None:
    with pytest.raises(ValueError, match="neither"):
        define_skill("one")
    with pytest.raises(ValueError, match="stored step names"):
        define_skill("one", tools=[Tool(lookup, name="a/b")])
    with pytest.raises(TypeError, match="instructions is a function"):
        define_skill("one", instructions=3)  # pyright: ignore[reportArgumentType]  (it is what is refused)
    with pytest.raises(TypeError, match="made by define_skill"):
        define_agent("clerk", model="test", skills=["one"])  # pyright: ignore[reportArgumentType]  (as above)
    with pytest.raises(TypeError, match="knowledge is a function"):
        define_skill("one", knowledge=3)  # pyright: ignore[reportArgumentType]  (as above)
    assert isinstance(define_skill("one", instructions="x"), Skill)
