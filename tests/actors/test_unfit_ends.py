"""A run ends, whatever becomes of it: what is too large to be recorded is how it failed, now and on replay."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import TextOutput

from clew.actors import ActorSystem, ReplayDivergence, RunFailed
from clew.actors.agent import define_agent, replay, tool_step
from clew.actors.agent.ending import halt
from clew.actors.testing import final_turn, scripted_model, tool_call_turn
from clew.journal import EVENT_BYTES_MAX
from tests.actors.support import WAIT_S

LARGE = "x" * EVENT_BYTES_MAX


def test_an_answer_too_large_to_be_recorded_is_how_the_run_failed() -> None:
    def at_length(text: str) -> str:
        return text * EVENT_BYTES_MAX

    agent = define_agent("wordy", model=scripted_model([final_turn("x")]), output=TextOutput(at_length))

    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t")
        with pytest.raises(RunFailed, match="PayloadTooLarge"):
            thread.run("Go", run_id="r").result(timeout_s=WAIT_S)
        replayed = replay(thread, agent)

        assert thread.status("r") == "failed"
        assert replayed.digests_equal
        assert not system.failures


def returned() -> str:
    return LARGE


def set_as_state() -> str:
    tool_step().set_state(LARGE)
    return "set"


def signalled() -> str:
    tool_step().signal("t", "large", LARGE)
    return "sent"


async def asked() -> str:
    return (await tool_step().approve(LARGE)).decision


@pytest.mark.parametrize("made", [returned, set_as_state, signalled, asked])
def test_what_a_tool_made_too_large_to_be_recorded_is_how_it_failed_and_it_is_not_called_again(
    made: Callable[[], Any],
) -> None:
    calls: Counter[str] = Counter()

    async def work() -> str:
        calls["work"] += 1
        result = made()
        return await result if inspect.isawaitable(result) else result

    script = [tool_call_turn("c1", "work", {}), final_turn("done")]
    agent = define_agent("worker", model=scripted_model(script), tools=[work])
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t")
        with pytest.raises(RunFailed, match=r"PayloadTooLarge: tool:work:c1"):
            thread.run("Go", run_id="r").result(timeout_s=WAIT_S)

        assert replay(thread, agent).digests_equal
        assert not system.failures
    assert calls == {"work": 1}


def test_a_response_too_large_to_be_recorded_is_how_the_run_failed() -> None:
    agent = define_agent("wordy", model=scripted_model([final_turn(LARGE)]))

    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t")
        with pytest.raises(RunFailed, match=r"PayloadTooLarge: llm:turn:1"):
            thread.run("Go", run_id="r").result(timeout_s=WAIT_S)
        assert replay(thread, agent).digests_equal


def test_of_a_large_divergence_so_much_is_kept_that_it_can_be_recorded() -> None:
    found = ReplayDivergence(
        stream="thread/t", sequence=3, run="r", step="llm:turn:1", field="result", expected=LARGE, actual=LARGE
    )

    kept = halt(found, 1)

    assert 0 < len(kept.expected) + len(kept.actual) < EVENT_BYTES_MAX
