"""A conversation is one actor with a name: the same over sleep, restarts and new versions, and it wakes by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.actors import ActorSystem
from clew.actors.agent import AgentDefinition, define_agent, tool_step
from clew.actors.schedule import after, cron
from clew.actors.testing import final_turn, following_model, tool_call_turn
from clew.journal import MemoryJournal
from clew.journal.facts import RunFinished
from tests.actors.support import WAIT_S, until
from tests.actors.ticking import Ticker, facts, settled

T = "thread/t"


def counter(*, instructions: str) -> AgentDefinition[None, str]:
    """An agent that counts in its thread's state how often it was told to; `instructions` differ by its version."""

    def count() -> int:
        tool_step().update_state(lambda state: {"n": (state or {"n": 0})["n"] + 1})
        return tool_step().get_state()["n"]

    def look() -> str:
        return "looked"

    turns = [turn for n in range(3) for turn in (tool_call_turn(f"c{n}", "count", {}), final_turn("counted"))]
    tools = [count] if instructions == "old" else [count, look]
    return define_agent("counter", model=following_model(turns), instructions=instructions, tools=tools)


@pytest.mark.requirement("G-CORE-1")
@pytest.mark.parametrize("place", ["sqlite:///{}/data.db", "{}/data"])
def test_whoever_names_a_thread_reaches_the_same_one_over_sleep_restarts_and_new_versions(
    place: str, tmp_path: Path
) -> None:
    old, new = counter(instructions="old"), counter(instructions="new")
    with ActorSystem(place.format(tmp_path), agents=[old], idle_s=0.01) as system:
        for run in ("one", "two"):
            system.thread(old, "t", owner="ann").run("count", run_id=run).result(timeout_s=WAIT_S)
            until(lambda: system.live == 0)
        slept = system.thread(old, "t", owner="ann").state()
    with ActorSystem(place.format(tmp_path), agents=[new]) as system:
        thread, other = system.thread(new, "t", owner="ann"), system.thread(new, "u", owner="ann")
        for named in (thread, other):
            named.run("count", run_id="three").result(timeout_s=WAIT_S)
        states = [named.state() for named in (thread, other)]
        runs = [[run.run for run in named.view().runs] for named in (thread, other)]

    assert slept == {"n": 2}
    assert states == [{"n": 3}, {"n": 1}]
    assert runs == [["one", "two", "three"], ["three"]]


@pytest.mark.requirement("G-CORE-3")
def test_each_thread_wakes_by_its_own_schedules_though_nobody_asks_it_anything() -> None:
    ticker, journal = Ticker(), MemoryJournal()
    with ticker.open(journal) as system:
        system.thread(ticker.agent, "t").schedules.set("delay", after(90), "look").get(timeout=WAIT_S)
        system.thread(ticker.agent, "u").schedules.set("table", cron("*/5 * * * *"), "poll").get(timeout=WAIT_S)
        settled(system)
    with ticker.open(journal) as system:
        ticker.clock.advance(89)
        settled(system)
        before = list(ticker.prompts)
        ticker.clock.advance(1)
        settled(system, lambda: facts(journal, T, RunFinished))
        ticker.clock.advance(600)
        settled(system, lambda: facts(journal, "thread/u", RunFinished))

    assert before == []
    assert ticker.prompts[0] == "look"
    assert set(ticker.prompts[1:]) == {"poll"}
    assert len(facts(journal, T, RunFinished)) == 1
