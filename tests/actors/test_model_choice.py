"""Models in order, where the next one takes over for one that fails."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pydantic_ai import Tool
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.test import TestModel

from clew.actors import ActorSystem, RunFailed
from clew.actors.agent import TurnChange, define_agent, replay, tool_options
from clew.actors.testing import Script, final_turn, scripted_model, tool_call_turn
from clew.journal import MemoryJournal
from tests.actors.support import WAIT_S, until

FAILS = ModelHTTPError(503, "first", {"reason": "busy"})

CALLS: Counter[str] = Counter()


def look() -> str:
    CALLS["look"] += 1
    return "seen"


@pytest.mark.parametrize("as_factory", [False, True])
def test_where_the_first_model_fails_the_second_answers_and_replay_calls_neither(*, as_factory: bool) -> None:
    first, second = Script([FAILS, final_turn("first")]), Script([tool_call_turn("c1", "look", {})])
    models = [scripted_model(first, name="first"), scripted_model(second, name="second")]
    CALLS.clear()

    definition = define_agent("looker", model=(lambda env: models) if as_factory else models, tools=[look])
    with ActorSystem(MemoryJournal(), agents=[definition]) as system:
        thread = system.thread(definition, "test")
        answer = thread.run("Go").result(timeout_s=WAIT_S)
        replayed = replay(thread, definition)

    assert (answer.output, CALLS["look"]) == ("first", 1)
    assert (first.calls, second.calls) == (2, 1)
    assert replayed.digests_equal
    assert replayed.runs[0].steps == ("llm:turn:1", "tool:look:c1", "llm:turn:2")


def test_where_all_fail_the_run_fails_and_says_with_what() -> None:
    models = [scripted_model([FAILS], name=name) for name in ("first", "second")]
    definition = define_agent("looker", model=models)

    with ActorSystem("memory:", agents=[definition]) as system:
        thread = system.thread(definition, "test")
        with pytest.raises(RunFailed, match="All models from FallbackModel failed"):
            thread.run("Go").result(timeout_s=WAIT_S)
        assert replay(thread, definition).digests_equal


def test_models_by_name_may_be_several_in_order_too() -> None:
    cheap = [scripted_model([FAILS], name="first"), scripted_model([final_turn("second")], name="second")]

    def cheaper(start: Any) -> TurnChange:
        return TurnChange(model="cheap")

    definition = define_agent("looker", model="test", models={"cheap": cheap}, prepare_step=cheaper)
    with ActorSystem("memory:", agents=[definition]) as system:
        assert system.thread(definition, "test").run("Go").result(timeout_s=WAIT_S).output == "second"


def test_one_model_in_a_list_is_that_model() -> None:
    model = TestModel()

    assert define_agent("looker", model=[model]).agent.model is model
    several = define_agent("looker", model=["test", model]).agent.model
    assert isinstance(several, FallbackModel)
    assert [type(one) for one in several.models] == [TestModel, TestModel]


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ([], "the list of its models is empty"),
        (["test", "nobody:none"], "model 'nobody:none' cannot be used"),
        (["test", 1], "a model is a model or the name of one, not 1"),
        (1, "a model is a model, the name of one, or a list of them, not 1"),
    ],
)
def test_what_is_no_model_is_refused_where_it_is_declared(model: Any, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"agent 'looker'.*{text}"):
        define_agent("looker", model=model)


def test_a_recorded_fallback_is_not_asked_for_again_after_a_restart() -> None:
    journal, told = MemoryJournal(), tool_options(needs_approval=True)
    turns = [tool_call_turn("c1", "look", {}), final_turn("done")]
    lives = [(Script([FAILS]), Script(turns[:1])), (Script([FAILS]), Script(turns[1:]))]
    CALLS.clear()

    for life, (first, second) in enumerate(lives):
        models = [scripted_model(first, name="first"), scripted_model(second, name="second")]
        definition = define_agent("looker", model=models, tools=[Tool(look, metadata=told)])
        with ActorSystem(journal, agents=[definition]) as system:
            thread = system.thread(definition, "test")
            if life == 0:
                thread.run("Go", run_id="r").started(timeout_s=WAIT_S)
                until(lambda: len(thread.approvals()) == 1)  # noqa: B023  (asked at once)
                continue
            thread.approve(thread.approvals()[0].id).get(timeout=WAIT_S)
            assert thread.attach("r").result(timeout_s=WAIT_S).output == "done"
            assert replay(thread, definition).digests_equal

    assert [(first.calls, second.calls) for first, second in lives] == [(1, 1), (1, 1)]
    assert CALLS["look"] == 1
