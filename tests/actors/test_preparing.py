"""Turns that are taken with another model, other messages or other settings, each for itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai import Agent, ModelResponse, ModelSettings, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.settings import ToolOrOutput

from clew.actors import ActorSystem, ReplayDivergence, RunFailed
from clew.actors.agent import (
    AgentDefinition,
    Compaction,
    DurableSteps,
    ResultCap,
    TurnChange,
    TurnStart,
    define_agent,
    replay,
)
from clew.actors.testing import (
    Script,
    World,
    agent_harness,
    crash_points,
    final_turn,
    following_model,
    scripted_model,
    tool_call_turn,
    tool_calls_turn,
)
from clew.journal import MemoryJournal
from tests.actors.prepared import CALLS, Seen, always, bring_your_own, look, looker, pay, requests_of, run_it
from tests.actors.support import WAIT_S


@pytest.fixture(autouse=True)
def _no_calls_yet() -> None:  # pyright: ignore[reportUnusedFunction]
    CALLS.clear()


@pytest.mark.requirement("L-LOOP-4", "L-LOOP-5")
@pytest.mark.parametrize("declare", [looker, bring_your_own])
def test_a_step_number_counts_the_turns_before_and_no_change_is_none(declare: Any) -> None:
    seen = Seen(tool_call_turn("c1", "look", {}), final_turn("done"), final_turn("again"))
    starts: list[TurnStart] = []

    def prepare(start: TurnStart) -> dict[str, Any] | None:
        starts.append(start)
        return {} if start.step_number else None

    _, unchanged = run_it(declare(seen, prepare_step=prepare), "Go", "Once more")
    _, plain = run_it(declare(Seen(*seen.turns)), "Go", "Once more")

    assert [start.step_number for start in starts[:3]] == [0, 1, 0]
    assert [len(start.messages) for start in starts[:3]] == [1, 3, 5]
    assert (starts[0].model, starts[0].tools) == ("function:seen", ("look", "pay"))
    assert [start.usage.requests for start in starts[:3]] == [0, 1, 0]
    assert starts[0].run.thread == "test"
    assert requests_of(unchanged) == requests_of(plain)


@pytest.mark.requirement("L-LOOP-4")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_turn_is_taken_with_another_model(asynchronous: bool) -> None:
    dear = Seen(tool_call_turn("c1", "look", {}), final_turn("dear"))
    cheap = Seen(tool_call_turn("c2", "look", {}), final_turn("cheap"))

    def prepare(start: TurnStart) -> TurnChange:
        return TurnChange(model="cheap" if start.step_number == 1 else None)

    async def later(start: TurnStart) -> TurnChange:
        return prepare(start)

    models = {"cheap": FunctionModel(cheap, model_name="cheap")}
    definition = looker(dear, prepare_step=later if asynchronous else prepare, models=models)
    answers, journal = run_it(definition, "Go")

    assert answers[0].output == "dear"
    assert (len(dear.tools), len(cheap.tools)) == (2, 1)
    assert [(step, request.get("model")) for step, request, _ in requests_of(journal) if "llm" in step] == [
        ("llm:turn:1", "seen"),
        ("llm:turn:2", "cheap"),
        ("llm:turn:3", "seen"),
    ]
    assert CALLS["look"] == 2


def test_a_harness_drives_the_other_models_too() -> None:
    cheap = Script([final_turn("cheap")])
    definition = define_agent("looker", model="test", prepare_step=always({"model": "cheap"}))
    scripted = replace(definition, models={"cheap": scripted_model(cheap)})

    with agent_harness(scripted, []) as harness:
        assert harness.run("Go").output == "cheap"

    assert (harness.script.calls, cheap.calls) == (0, 1)


def test_an_agent_with_durable_steps_of_its_own_chooses_from_their_models() -> None:
    seen, cheap = Seen(), Seen(final_turn("cheap"))
    steps = DurableSteps(models={"cheap": cheap.model})
    agent = Agent(seen.model, name="looker", capabilities=[steps])

    answers, _ = run_it(AgentDefinition(agent=agent, prepare_step=always(TurnChange(model="cheap"))), "Go")

    assert answers[0].output == "cheap"
    with pytest.raises(ValueError, match=r"brings its own DurableSteps; give the model to that: models="):
        AgentDefinition(agent=agent, models={"other": cheap.model})


def test_hooks_of_others_see_by_which_model_a_turn_was_taken() -> None:
    seen, cheap = Seen(tool_call_turn("c1", "look", {})), Seen(final_turn("cheap"))
    asked: list[str | None] = []

    class Noting(AbstractCapability[Any]):
        async def after_model_request(
            self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
        ) -> ModelResponse:
            asked.append(request_context.model_id)
            return response

    agent = Agent(seen.model, name="looker", tools=[look], capabilities=[Noting()])

    def prepare(start: TurnStart) -> dict[str, str]:
        return {"model": "cheap"} if start.step_number else {}

    run_it(AgentDefinition(agent=agent, prepare_step=prepare, models={"cheap": cheap.model}), "Go")

    assert asked == [None, "cheap"] * 2


@pytest.mark.parametrize("name", ["chaep", "clew:model", "test"])
def test_an_unknown_model_fails_the_run_and_names_those_there_are(name: str) -> None:
    definition = looker(Seen(), prepare_step=always(TurnChange(model=name)), models={"cheap": "test"})
    said = f"prepare_step of agent 'looker': there is no model '{name}'; its models are 'cheap'"

    with agent_harness(definition, []) as harness, pytest.raises(RunFailed, match=f"{said}$"):
        harness.run("Go")

    assert harness.script.calls == 0


@pytest.mark.requirement("L-LOOP-4")
def test_messages_are_other_ones_for_one_turn_and_the_history_stays_whole() -> None:
    seen = Seen(final_turn("one"), final_turn("two"), final_turn("three"))

    def last_only(start: TurnStart) -> TurnChange | None:
        return TurnChange(messages=start.messages[-1:]) if len(start.messages) == 3 else None

    definition = looker(seen, prepare_step=last_only)
    answers, journal = run_it(definition, "1", "2", "3")

    assert [len(sent) for sent in seen.sent] == [1, 1, 5]
    assert [answer.output for answer in answers] == ["one", "two", "three"]
    with ActorSystem(journal, agents=[definition]) as system:
        assert len(system.thread(definition, "test").messages()) == 6


def test_messages_of_ones_own_are_sent_and_not_kept() -> None:
    seen = Seen(final_turn("yes"), final_turn("no"))

    def hint(start: TurnStart) -> TurnChange | None:
        if len(start.messages) > 1:
            return None
        return TurnChange(messages=[ModelRequest([UserPromptPart("Say yes.")]), *start.messages])

    run_it(looker(seen, prepare_step=hint), "1", "2")

    assert [part.content for part in prompts(seen.sent[0])] == ["Say yes.", "1"]
    assert [part.content for part in prompts(seen.sent[1])] == ["1", "2"]
    assert seen.instructions == ["Look.", "Look."]


def test_instructions_are_part_of_what_is_compared_also_with_messages_of_ones_own() -> None:
    def only(start: TurnStart) -> TurnChange:
        return TurnChange(messages=[ModelRequest([UserPromptPart("Go.")])])

    one = define_agent("looker", model="test", instructions="Look.", prepare_step=only)
    other = define_agent("looker", model="test", instructions="Look away.", prepare_step=only)
    with agent_harness(one, [final_turn("done")]) as harness:
        harness.run("Go")
        assert replay(harness.conversation(), harness.definition).digests_equal
        with pytest.raises(ReplayDivergence) as diverged:
            replay(harness.conversation(), replace(other, model=harness.definition.model))

    assert diverged.value.field == "request.instructions"


def prompts(messages: list[ModelMessage]) -> list[UserPromptPart]:
    return [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]


@pytest.mark.parametrize(
    ("cut", "text"),
    [
        (slice(2, None), "the results of 'c1' without the calls"),
        (slice(0, 2), "do not end with a request"),
        (slice(0, 0), "do not end with a request"),
    ],
)
def test_messages_that_no_provider_takes_are_refused(cut: slice, text: str) -> None:
    def tear(start: TurnStart) -> TurnChange | None:
        return TurnChange(messages=start.messages[cut]) if start.step_number else None

    script = [tool_call_turn("c1", "look", {}), final_turn("never")]
    with (
        agent_harness(looker(Seen(), prepare_step=tear), script) as harness,
        pytest.raises(RunFailed, match=f"prepare_step of agent 'looker': its messages.*{text}"),
    ):
        harness.run("Go")


def test_a_call_without_its_result_is_refused() -> None:
    def tear(start: TurnStart) -> TurnChange | None:
        if not start.step_number:
            return None
        return TurnChange(messages=[*start.messages[:-1], ModelRequest([UserPromptPart("Well?")])])

    with (
        agent_harness(looker(Seen(), prepare_step=tear), [tool_call_turn("c1", "look", {})]) as harness,
        pytest.raises(RunFailed, match="the calls 'c1' without their results"),
    ):
        harness.run("Go")


@pytest.mark.parametrize("torn", ["call", "result"])
def test_what_another_hook_tore_apart_is_not_the_fault_of_a_function_that_leaves_it_so(torn: str) -> None:
    class Tearing(AbstractCapability[Any]):
        async def before_model_request(
            self, ctx: RunContext[Any], request_context: ModelRequestContext
        ) -> ModelRequestContext:
            messages = request_context.messages
            if len(messages) == 3:
                cut = [messages[0], messages[2]] if torn == "call" else [*messages[:2], ModelRequest([])]
                request_context.messages = cut
            return request_context

    def same(start: TurnStart) -> TurnChange:
        return TurnChange(messages=start.messages)

    seen = Seen(tool_call_turn("c1", "look", {}), final_turn("fine"))
    agent = Agent(seen.model, name="looker", tools=[look], capabilities=[Tearing()])

    answers, _ = run_it(AgentDefinition(agent=agent, prepare_step=same), "Go")

    assert answers[0].output == "fine"


def test_settings_of_a_turn_are_laid_over_those_of_the_agent() -> None:
    seen = Seen(tool_call_turn("c1", "look", {}), final_turn("done"))

    def warmer(start: TurnStart) -> TurnChange | None:
        return None if start.step_number else TurnChange(settings=ModelSettings(temperature=1.0))

    run_it(looker(seen, prepare_step=warmer, settings=ModelSettings(temperature=0.0, seed=1)), "Go")

    assert seen.settings == [{"temperature": 1.0, "seed": 1}, {"temperature": 0.0, "seed": 1}]


def test_instructions_of_a_turn_come_behind_those_of_the_agent() -> None:
    seen = Seen(tool_call_turn("c1", "look", {}), final_turn("done"))

    def hint(start: TurnStart) -> TurnChange | None:
        return None if start.step_number else TurnChange(instructions="At the sea.")

    run_it(looker(seen, prepare_step=hint), "Go")

    assert seen.instructions == ["Look.\n\nAt the sea.", "Look."]


@pytest.mark.requirement("L-LOOP-11")
def test_a_turn_is_prepared_after_compaction_and_may_undo_it() -> None:
    seen = Seen(*(final_turn(f"answer {n}") for n in range(4)))
    starts: list[TurnStart] = []
    whole: list[ModelMessage] = []

    def prepare(start: TurnStart) -> TurnChange | None:
        starts.append(start)
        return TurnChange(messages=[ModelRequest([UserPromptPart("Only this.")])]) if len(starts) == 4 else None

    writer = following_model([final_turn("a brief")])
    definition = looker(seen, prepare_step=prepare, compaction=Compaction(max_messages=4, model=writer))
    journal = MemoryJournal()
    with ActorSystem(journal, agents=[definition]) as system:
        thread = system.thread(definition, "test")
        for number in range(4):
            thread.run(f"question {number}").result(timeout_s=WAIT_S)
        whole += thread.messages()

    assert "a brief" in str(starts[2].messages[0].parts[0])
    assert [part.content for part in prompts(seen.sent[3])] == ["Only this."]
    assert len(whole) == 8


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"active_tools": ["lok"]}, "active_tools names lok, and it has no such tool; its tools are look, pay"),
        ({"active_tools": "look"}, "active_tools is a list of names"),
        ({"active_tools": 1}, "active_tools is a list of names"),
        ({"tool_choice": ["lok"], "max_turns": 2}, "tool_choice names lok"),
        ({"tool_choice": ToolOrOutput(["lok"])}, "tool_choice names lok"),
        ({"tool_choice": "look"}, "tool_choice is 'auto', 'none', 'required', a list or ToolOrOutput, not 'look'"),
        ({"tool_choice": "required"}, "never answers; give it stop_when"),
        ({"tool_choice": ["look"]}, "never answers; give it stop_when"),
        ({"tool_choice": ToolOrOutput(["look"]), "active_tools": ["pay"]}, "names look, which active_tools leaves out"),
        ({"prepare_step": "no"}, "prepare_step is a function, not str"),
        ({"models": ["test"]}, "models is a mapping"),
        ({"models": {"a b": "test"}}, "a model is named with letters"),
        ({"models": {"default": "test"}}, "and not 'default'"),
        ({"models": {"cheap": "nobody:none"}}, "model 'nobody:none' cannot be used"),
        ({"models": {"cheap": 1}}, "a model is a model, the name of one, or a list of them"),
        ({"models": {"cheap": []}}, "the list of its models is empty"),
        ({"active_tools": ["look"], "result_cap": ResultCap()}, "active_tools leaves out read_artifact"),
    ],
    ids=str,
)
def test_a_wrong_option_is_refused_where_it_is_declared(options: dict[str, Any], text: str) -> None:
    for declare in (looker, bring_your_own):
        with pytest.raises((ValueError, TypeError), match=f"agent 'looker'.*{text}"):
            declare(Seen(), **options)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"active_tools": ["lok"]}, "active_tools names 'lok'"),
        ({"tool_choice": ["pay"], "active_tools": ["look"]}, "tool_choice names 'pay'"),
        ({"tool_choice": "required", "active_tools": []}, "tool_choice is 'required', and there is no tool"),
        ({"tools": ["look"]}, "it may change .*, and not 'tools'"),
        ({"model": 1}, "is the name of one of the agent's models"),
        ({"active_tools": "look"}, "active_tools is a list of names"),
        (7, "it returns a TurnChange, a mapping or None, not 7"),
    ],
    ids=str,
)
def test_a_change_that_makes_no_sense_fails_the_run(change: Any, text: str) -> None:
    with agent_harness(looker(Seen(), prepare_step=always(change)), []) as harness:
        with pytest.raises(RunFailed, match=text):
            harness.run("Go")
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert harness.script.calls == 0


def test_a_function_that_raises_fails_the_run_by_its_name() -> None:
    def broken(start: TurnStart) -> TurnChange:
        raise KeyError("what")

    with (
        agent_harness(looker(Seen(), prepare_step=broken), []) as harness,
        pytest.raises(RunFailed, match="KeyError: prepare_step: 'what'"),
    ):
        harness.run("Go")


@pytest.mark.crash
@pytest.mark.requirement("L-LOOP-4", "L-LOOP-17")
def test_prepared_turns_are_the_same_wherever_the_run_died_before() -> None:
    turns = [tool_calls_turn(("c1", "look", {}), ("c2", "look", {"at": "sky"})), tool_call_turn("c3", "pay", {})]
    turns.append(final_turn("done"))

    def prepare(start: TurnStart) -> TurnChange:
        if start.step_number == 0:
            return TurnChange(active_tools=["look"], tool_choice="required")
        return TurnChange(model="cheap", instructions="Be quick.", settings=ModelSettings(seed=start.usage.requests))

    definition = define_agent(
        "looker",
        model=following_model(turns),
        models={"cheap": following_model(turns, name="cheap")},
        tools=[look, pay],
        prepare_step=prepare,
    )

    async def scenario(world: World) -> str:
        async with world.open(agents=[definition]) as system:
            thread = system.thread(definition, "t")
            answer = await thread.run("Go", run_id="r1")
            assert replay(thread, definition).digests_equal
            return answer.output

    assert len(crash_points(scenario).points) > 10
