"""Runs that stop because what they were for is done, or because they used enough."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, ModelResponse, ModelRetry, TextPart, ToolCallPart
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from clew.actors import ActorSystem, RunFailed
from clew.actors.agent import (
    AgentDefinition,
    Approve,
    DurableSteps,
    LoopState,
    Reject,
    all_of,
    any_of,
    cost_budget,
    define_agent,
    has_tool_call,
    replay,
    token_budget,
    tool_options,
    turn_count,
)
from clew.actors.testing import (
    World,
    agent_harness,
    crash_points,
    final_turn,
    following_model,
    invalid_for_provider,
    tool_call_turn,
    tool_calls_turn,
)
from tests.actors.harnesses import City, steps_of
from tests.actors.support import WAIT_S, until

CALLS: Counter[str] = Counter()


def look(at: str = "sea") -> str:
    CALLS["look"] += 1
    return f"the {at}"


def finalize(text: str = "done") -> str:
    CALLS["finalize"] += 1
    return text


@pytest.fixture(autouse=True)
def _no_calls_yet() -> None:  # pyright: ignore[reportUnusedFunction]
    CALLS.clear()


def looker(**options: Any) -> AgentDefinition[None, str]:
    return define_agent("looker", model="test", tools=[look, finalize], **options)


def bring_your_own(**options: Any) -> AgentDefinition[None, str]:
    return AgentDefinition(agent=Agent("test", name="looker", tools=[look, finalize]), **options)


@pytest.mark.requirement("L-LOOP-2")
@pytest.mark.parametrize("declare", [looker, bring_your_own])
def test_a_run_stops_after_the_tools_of_the_turn_in_which_a_condition_holds(declare: Any) -> None:
    script = [
        tool_call_turn("c1", "look", {}),
        tool_calls_turn(("c2", "finalize", {"text": "yes"}), ("c3", "look", {"at": "sky"})),
        final_turn("And now?"),
    ]

    with agent_harness(declare(stop_when=has_tool_call("finalize")), script) as harness:
        stopped = harness.run("Look, and finalize.")
        replayed = replay(harness.conversation(), harness.definition)
        after = harness.run("Go on.")

    assert (stopped.stopped, stopped.output) == ("stop_condition", None)
    assert CALLS == {"look": 2, "finalize": 1}
    assert steps_of(harness)[:5] == ["llm:turn:1", "tool:look:c1", "llm:turn:2", "tool:finalize:c2", "tool:look:c3"]
    assert (replayed.digests_equal, replayed.runs[0].stopped) == (True, "stop_condition")
    assert (after.output, after.stopped) == ("And now?", "final")
    assert invalid_for_provider(harness.script.requests[-1]) == []
    assert harness.thread().status == "done"


@pytest.mark.requirement("L-LOOP-2", "L-LOOP-3")
def test_an_answer_is_final_though_a_condition_would_hold() -> None:
    def always(state: LoopState) -> bool:
        return True

    with agent_harness(looker(stop_when=always), [final_turn("Hello.")]) as harness:
        answer = harness.run("Hello?")

    assert (answer.stopped, answer.output) == ("final", "Hello.")


@pytest.mark.requirement("L-LOOP-3")
def test_a_typed_answer_is_final_though_it_is_a_tool_call() -> None:
    agent = Agent("test", name="geographer", output_type=City)
    definition = AgentDefinition(agent=agent, stop_when=has_tool_call("final_result"))

    with agent_harness(definition, [tool_call_turn("c1", "final_result", {"name": "Oslo", "people": 1})]) as harness:
        answer = harness.run("Which city?")

    assert (answer.stopped, answer.output) == ("final", City(name="Oslo", people=1))


def test_a_condition_of_ones_own_sees_turns_calls_usage_and_messages() -> None:
    seen: list[LoopState] = []

    def enough(state: LoopState) -> bool:
        seen.append(state)
        return len(state.turns) == 2

    script = [
        tool_call_turn("c1", "look", {"at": "moon"}, text="Let me see."),
        tool_calls_turn(("c2", "look", '{"at": 1}'), ("c3", "nothing", {})),
    ]
    with agent_harness(looker(stop_when=enough), script) as harness:
        answer = harness.run("Look.")

    assert answer.stopped == "stop_condition"
    first, second = seen[1].turns
    assert first.response.text == "Let me see."
    assert [(call.id, call.name, call.arguments, call.outcome, call.result) for call in first.calls] == [
        ("c1", "look", {"at": "moon"}, "success", "the moon")
    ]
    assert [(call.id, call.outcome) for call in second.calls] == [("c2", "retried"), ("c3", "retried")]
    assert (len(seen[0].turns), len(seen[1].messages), seen[1].run.thread) == (1, 5, "test")
    assert seen[1].usage == harness.thread().usage


def test_only_turns_of_the_run_itself_count() -> None:
    script = [tool_call_turn("c1", "look", {}), final_turn("one"), tool_call_turn("c2", "look", {}), final_turn("two")]

    with agent_harness(looker(stop_when=turn_count(2)), script) as harness:
        answers = [harness.run("Look."), harness.run("Again.")]

    assert [answer.output for answer in answers] == ["one", "two"]


def test_what_a_sub_agent_calls_does_not_stop_the_run_around_it() -> None:
    inner = Agent(
        following_model([tool_call_turn("c1", "finalize", {}), final_turn("inner")]),
        name="inner",
        tools=[finalize],
        capabilities=[DurableSteps()],
    )
    outer = Agent("test", name="outer", tools=[finalize])

    @outer.tool_plain(metadata=tool_options(attempts=1))
    async def ask() -> str:
        return (await inner.run("?")).output

    definition = AgentDefinition(agent=outer, stop_when=any_of(has_tool_call("finalize"), turn_count(4)))
    with agent_harness(definition, [tool_call_turn("c1", "ask", {}), final_turn("outer")]) as harness:
        assert harness.run("Go").output == "outer"

    assert CALLS["finalize"] == 1


@pytest.mark.parametrize("failing", ["retried", "failed", "unknown"])
def test_a_call_that_did_not_succeed_is_none_that_a_run_stops_for(failing: str) -> None:
    agent = Agent("test", name="careful")

    @agent.tool_plain
    def close(ok: bool) -> str:
        if not ok:
            raise ModelRetry("not yet") if failing == "retried" else ToolFailed("locked")
        return "closed"

    broken = tool_call_turn("c1", "clos" if failing == "unknown" else "close", {"ok": False})
    definition = AgentDefinition(agent=agent, stop_when=has_tool_call("close"))
    with agent_harness(definition, [broken, tool_call_turn("c2", "close", {"ok": True})]) as harness:
        assert harness.run("Close it.").stopped == "stop_condition"

    assert harness.script.calls == 2


def test_a_call_that_a_person_refused_is_none_that_a_run_stops_for() -> None:
    agent = Agent("test", name="payer")

    @agent.tool_plain(metadata=tool_options(needs_approval=True))
    def pay(usd: int) -> str:
        CALLS["pay"] += 1
        return "paid"

    # The second call is the first one again, about which nobody is asked.
    turns = [tool_call_turn(f"c{n}", "pay", {"usd": usd}) for n, usd in enumerate((5, 5, 4))]
    definition = AgentDefinition(agent=agent, stop_when=has_tool_call("pay"))
    with agent_harness(definition, turns) as harness:
        thread = harness.conversation()
        run = thread.run("Pay.")
        run.started(timeout_s=WAIT_S)
        for decision in (Reject("too much"), Approve()):
            until(lambda: len(thread.approvals()) == 1)
            thread.decide(thread.approvals()[0].id, decision).get(timeout=WAIT_S)
        answer = run.result(timeout_s=WAIT_S)
        replayed = replay(thread, harness.definition)

    assert (answer.stopped, harness.script.calls, CALLS["pay"]) == ("stop_condition", 3, 1)
    assert replayed.digests_equal


@pytest.mark.parametrize(
    ("condition", "turns"),
    [
        (turn_count(3), 3),
        (any_of(turn_count(5), has_tool_call("finalize")), 2),
        (all_of(turn_count(4), has_tool_call("finalize")), 4),
        ([turn_count(4), turn_count(3)], 3),
        (all_of(has_tool_call("look"), has_tool_call("finalize")), 2),
        (token_budget(1), 1),
    ],
)
def test_conditions_are_put_together(condition: Any, turns: int) -> None:
    names = ["look", "finalize", "look", "look", "look", "look"]
    script = [tool_call_turn(f"c{n}", name, {}) for n, name in enumerate(names)]

    with agent_harness(looker(stop_when=condition), script) as harness:
        assert harness.run("Go").stopped == "stop_condition"

    assert harness.script.calls == turns


def test_a_condition_counts_before_the_limit_of_turns_does() -> None:
    script = [tool_call_turn("c1", "finalize", {}), tool_call_turn("c2", "look", {})]

    with agent_harness(looker(stop_when=has_tool_call("finalize"), max_turns=1), script) as harness:
        assert harness.run("Go").stopped == "stop_condition"
    with agent_harness(looker(stop_when=has_tool_call("finalize"), max_turns=1), script[1:]) as harness:
        assert harness.run("Go").stopped == "max_turns"


def priced(usd: str | None) -> ModelResponse:
    cost = None if usd is None else Decimal(usd)
    usage = RequestUsage(input_tokens=40, output_tokens=10, cost=cost)
    return ModelResponse([ToolCallPart("look", {}, tool_call_id=f"c{usd}")], usage=usage)


def test_a_token_budget_is_what_the_run_uses_in_and_out() -> None:
    script = [priced("0.1"), priced("0.2"), priced("0.3")]

    with agent_harness(looker(stop_when=token_budget(100)), script) as harness:
        answer = harness.run("Go")

    assert (answer.stopped, answer.usage.tokens) == ("stop_condition", 100)


@pytest.mark.parametrize("usd", [0.3, "0.30", Decimal("0.3")])
def test_a_cost_budget_is_exact(usd: Any) -> None:
    script = [priced("0.1"), priced("0.2"), priced("0.3")]

    with agent_harness(looker(stop_when=cost_budget(usd)), script) as harness:
        answer = harness.run("Go")
        replayed = replay(harness.conversation(), harness.definition)

    assert (answer.stopped, harness.script.calls, answer.usage.cost_usd) == ("stop_condition", 2, Decimal("0.3"))
    assert replayed.digests_equal


def test_a_cost_budget_fails_a_run_whose_cost_is_not_known() -> None:
    unknown = r"LookupError: stop_when cost_budget\(1\): what 1 of 2 requests cost"

    with (
        agent_harness(looker(stop_when=any_of(cost_budget(1))), [priced("0.1"), priced(None)]) as harness,
        pytest.raises(RunFailed, match=unknown),
    ):
        harness.run("Go")

    assert harness.script.calls == 2


def test_a_condition_that_raises_fails_the_run_by_its_name_and_leaves_the_thread_usable() -> None:
    def rich_enough(state: LoopState) -> bool:
        raise KeyError("no purse")

    script = [tool_call_turn("c1", "look", {}), final_turn("fine")]
    with agent_harness(looker(stop_when=[turn_count(9), rich_enough]), script) as harness:
        with pytest.raises(RunFailed, match="KeyError: stop_when rich_enough: 'no purse'"):
            harness.run("Go")
        assert replay(harness.conversation(), harness.definition).digests_equal
        assert harness.run("And now?").output == "fine"

    assert invalid_for_provider(harness.script.requests[-1]) == []


@pytest.mark.parametrize("said", [1, None, "yes"])
def test_a_condition_says_yes_or_no_and_nothing_else(said: Any) -> None:
    def undecided(state: LoopState) -> bool:
        return said

    with (
        agent_harness(looker(stop_when=undecided), [tool_call_turn("c1", "look", {})]) as harness,
        pytest.raises(RunFailed, match="TypeError: stop_when undecided: it returns True or False"),
    ):
        harness.run("Go")


@pytest.mark.parametrize(
    ("stop_when", "text"),
    [
        (has_tool_call("finalise"), "stop_when names finalise, and it has no such tool; its tools are finalize, look"),
        ([turn_count(1), all_of(has_tool_call("x"))], "names x"),
        ([], "there are none"),
        ("finalize", "a stop condition is a function"),
    ],
)
def test_a_wrong_condition_is_refused_where_it_is_declared(stop_when: Any, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"agent 'looker'.*{text}"):
        looker(stop_when=stop_when)


def test_an_async_condition_is_refused_where_it_is_declared() -> None:
    async def later(state: LoopState) -> bool:
        return True

    with pytest.raises(TypeError, match="stop condition later is async"):
        looker(stop_when=later)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True])
def test_a_budget_out_of_range_is_refused(wrong: Any) -> None:
    for make in (turn_count, token_budget):
        with pytest.raises(ValueError, match="whole number of at least 1"):
            make(wrong)


@pytest.mark.parametrize("wrong", [0, -1, "much", float("nan"), float("inf")])
def test_a_cost_budget_out_of_range_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="an amount of US dollars"):
        cost_budget(wrong)


@pytest.mark.crash
@pytest.mark.requirement("L-LOOP-2")
def test_a_run_stops_in_the_same_place_wherever_it_died_before() -> None:
    turns = [
        tool_calls_turn(("c1", "look", {}), ("c2", "look", {"at": "sky"})),
        tool_calls_turn(("c3", "finalize", {}), ("c4", "look", {})),
        final_turn("after"),
    ]
    definition = define_agent(
        "looker",
        model=following_model(turns),
        tools=[look, finalize],
        stop_when=all_of(has_tool_call("finalize"), turn_count(2)),
    )

    async def scenario(world: World) -> tuple[str, str]:
        async with world.open(agents=[definition]) as system:
            thread = system.thread(definition, "t")
            stopped = await thread.run("Go", run_id="r1")
            after = await thread.run("And?", run_id="r2")
            assert replay(thread, definition).digests_equal
            return stopped.stopped, after.output

    tried = crash_points(scenario)

    assert len(tried.points) > 10


def test_a_run_that_stopped_is_read_after_a_restart(tmp_path: Path) -> None:
    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart("on it"), ToolCallPart("finalize", {}, tool_call_id=f"c{len(messages)}")])

    agent = Agent(FunctionModel(respond), name="looker", tools=[finalize])
    definition = AgentDefinition(agent=agent, stop_when=has_tool_call("finalize"))
    path = str(tmp_path / "journal")
    with ActorSystem(path, agents=[definition]) as system:
        first = system.thread(definition, "test").run("Go", run_id="r1").result(timeout_s=WAIT_S)
    with ActorSystem(path, agents=[definition]) as system:
        again = system.thread(definition, "test").attach("r1").result(timeout_s=WAIT_S)
        assert replay(system.thread(definition, "test"), definition).digests_equal

    assert first == again
    assert CALLS["finalize"] == 1
