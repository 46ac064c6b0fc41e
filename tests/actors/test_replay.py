"""Replay calls nothing, decides everything again, and says exactly where it would decide otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from pydantic import BaseModel
from pydantic_ai import Agent

from clew.actors import ActorSystem, ReplayDivergence, RunFailed, UnknownKind
from clew.actors.agent import AgentDefinition, define_agent, replay, tool_step
from clew.actors.testing import VirtualClock, final_turn, following_model, tool_call_turn
from clew.journal import MemoryJournal, RecordedEvent, read_history, write_history
from clew.journal.facts import RunFinished, StepCompleted
from clew.projections import conversation
from tests.actors.robot import Robot, history_of, journal_with
from tests.actors.support import WAIT_S, until

HISTORIES = Path(__file__).parent.parent / "histories"

FULL = history_of(Robot(), "one", "two")


def edited(events: list[RecordedEvent], change: Callable[[Any], Any]) -> list[RecordedEvent]:
    """The same history, recorded with another fact in it."""
    journal = MemoryJournal()
    for event in events:
        fact = conversation.catalog.decode(event)
        new, _ = conversation.catalog.encode(change(fact) or fact, cause=event.cause)
        journal.append(event.stream, [new], expected=event.sequence - 1)
    return list(journal.read_all())


@pytest.mark.replay
@pytest.mark.requirement("L-REPLAY-2")
def test_replay_calls_no_model_and_no_tool_and_ends_in_the_same_digest() -> None:
    robot = Robot()

    replayed = replay(FULL, robot.agent)

    assert robot.calls == {}
    assert [run.ended for run in replayed.runs] == ["done", "done"]
    assert replayed.output == "the sums are [2, 4, 6]"
    assert replayed.digests == {"thread/t": (FULL[-1].digest.hex(), FULL[-1].digest.hex())}


@pytest.mark.replay
def test_replay_works_inside_a_running_loop_too() -> None:
    async def inside() -> bool:
        await asyncio.sleep(0)
        return replay(FULL, Robot().agent).digests_equal

    assert asyncio.run(inside())


@pytest.mark.replay
@pytest.mark.parametrize("cut", range(2, len(FULL)))
def test_a_history_that_stops_anywhere_replays_to_where_it_stops(cut: int) -> None:
    robot = Robot()

    replayed = replay(FULL[:cut], robot.agent)

    assert robot.calls == {}
    assert replayed.digests_equal


@pytest.mark.replay
def test_an_edited_result_of_a_tool_is_found_at_the_next_turn() -> None:
    def change(fact: Any) -> Any:
        if isinstance(fact, StepCompleted) and fact.step == "tool:add:c0":
            return msgspec.structs.replace(fact, result=msgspec.Raw(b'{"result":7,"kind":"tool_return"}'))
        return None

    with pytest.raises(ReplayDivergence) as found:
        replay(edited(FULL, change), Robot().agent)

    assert (found.value.step, found.value.field) == ("llm:turn:3", "request.messages")
    assert found.value.stream == "thread/t"
    assert found.value.expected != found.value.actual
    assert "recorded" in str(found.value)


@pytest.mark.replay
def test_an_edited_answer_is_found_at_the_end() -> None:
    def change(fact: Any) -> Any:
        if isinstance(fact, RunFinished):
            return msgspec.structs.replace(fact, output=msgspec.Raw(b'"something else"'))
        return None

    with pytest.raises(ReplayDivergence) as found:
        replay(edited(FULL, change), Robot().agent)

    assert (found.value.step, found.value.field) == ("end", "output")
    assert found.value.expected == '"something else"'


class Tag(BaseModel, frozen=True):
    """A member of a set that has another order in another process: `turned` stands for one."""

    name: str
    turned: ClassVar[bool] = False

    def __hash__(self) -> int:
        return 7 - int(self.name) if Tag.turned else int(self.name)


@pytest.mark.replay
def test_a_set_among_the_arguments_of_a_tool_is_the_same_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[list[str]] = []

    def tag(tags: set[Tag]) -> str:
        orders.append([tag.name for tag in tags])
        return "tagged"

    call = {"tags": [{"name": str(number)} for number in range(5)]}
    agent = define_agent(
        "tagger", model=following_model([tool_call_turn("c1", "tag", call), final_turn("done")]), tools=[tag]
    )
    with ActorSystem("memory:", agents=[agent]) as system:
        system.thread(agent, "t").run("tag").result(timeout_s=10)
        monkeypatch.setattr(Tag, "turned", True)
        replayed = replay(system.thread(agent, "t"), agent)
        system.thread(agent, "u").run("tag").result(timeout_s=10)

    assert orders == [["0", "1", "2", "3", "4"], ["4", "3", "2", "1", "0"]]
    assert replayed.digests_equal


@pytest.mark.replay
def test_a_step_nobody_asks_for_any_more_is_found() -> None:
    journal = journal_with(FULL[:-1][:8])
    extra = StepCompleted(
        "one", "tool:gone:g1", {}, msgspec.Raw(b'{"result":1,"kind":"tool_return"}'), at=FULL[0].recorded_at
    )
    journal.append("thread/t", [conversation.catalog.encode(extra)[0]], expected=8)
    facts = [conversation.catalog.decode(event) for event in FULL]
    end = next(fact for fact in facts if isinstance(fact, RunFinished))
    last = facts[8 : facts.index(end) + 1]
    journal.append("thread/t", [conversation.catalog.encode(fact)[0] for fact in last], expected=9)

    with pytest.raises(ReplayDivergence, match="tool:gone:g1"):
        replay(list(journal.read_all()), Robot().agent)


@pytest.mark.replay
def test_an_agent_with_another_prompt_diverges_in_its_first_turn() -> None:
    robot = Robot()
    robot.agent.instructions(lambda: "Multiply.")

    with pytest.raises(ReplayDivergence) as found:
        replay(FULL, robot.agent)

    assert (found.value.run, found.value.step, found.value.sequence) == ("one", "llm:turn:1", 3)
    assert robot.calls == {}


@pytest.mark.replay
def test_a_run_of_an_agent_that_was_not_given_is_an_error() -> None:
    with pytest.raises(UnknownKind, match="robot"):
        replay(FULL, Agent("test", name="other"))


@pytest.mark.replay
def test_replay_ends_with_the_very_messages_timestamps_included() -> None:
    seen: list[Any] = []

    def keeping() -> Robot:
        robot = Robot()

        @robot.agent.output_validator
        def keep(ctx: Any, output: str) -> str:
            seen.append(list(ctx.messages))
            return output

        return robot

    events = history_of(keeping(), "one")
    replay(events, keeping().agent)

    assert len(seen) == 2
    assert seen[0] == seen[1]


@pytest.mark.replay
@pytest.mark.requirement("L-REPLAY-1")
@pytest.mark.parametrize("path", sorted(HISTORIES.glob("robot-*.jsonl")), ids=lambda path: path.stem)
def test_every_history_we_ever_recorded_still_replays(path: Path) -> None:
    robot = Robot()

    replayed = replay(path, robot.agent)

    assert robot.calls == {}
    assert replayed.digests_equal
    assert replayed.output == "the sums are [2, 4, 6]"


@pytest.mark.replay
@pytest.mark.scenario("SER-13")
@pytest.mark.parametrize("path", sorted(HISTORIES.glob("robot-*.jsonl")), ids=lambda path: path.stem)
def test_every_history_we_ever_recorded_can_be_continued(path: Path) -> None:
    robot = Robot()
    journal = journal_with(read_history(path))

    with ActorSystem(journal, agents=[robot.agent]) as system:
        answer = system.thread(robot.agent, "t", owner="ann").run("three").result(timeout_s=10)

    assert answer.output == "the sums are [2, 4, 6]"


@pytest.mark.replay
def test_a_history_in_a_file_replays_like_the_thread_it_came_from(tmp_path: Path) -> None:
    with (tmp_path / "t.jsonl").open("wb") as out:
        write_history(FULL, out)

    assert replay(tmp_path / "t.jsonl", AgentDefinition(agent=Robot().agent)).digests_equal


@pytest.mark.replay
def test_a_run_that_its_deadline_ended_replays_to_where_it_stood() -> None:
    clock = VirtualClock()

    async def wait() -> str:
        return str(await tool_step().wait_for_signal("never"))

    model = following_model([tool_call_turn("c1", "wait", {}), final_turn("done")])
    agent = define_agent("late", model=model, tools=[wait], run_timeout_s=60)
    with ActorSystem("memory:", agents=[agent], clock=clock) as system:
        thread = system.thread(agent, "t")
        run = thread.run("Go", run_id="r")
        run.started(timeout_s=WAIT_S)
        until(lambda: thread.status("r") == "awaiting_input")
        clock.advance(61)
        with pytest.raises(RunFailed, match="RunTimedOut"):
            run.result(timeout_s=WAIT_S)
        replayed = replay(thread, agent)

    assert replayed.digests_equal
    assert [run.ended for run in replayed.runs] == ["failed"]
