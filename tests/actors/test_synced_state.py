"""The synced state of a thread: seeded once, set by tools with their results, seen by its owner, led up when read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel
from pydantic_ai import Tool
from pydantic_ai.messages import ModelResponse

from clew.actors import ActorSystem, InvalidState, RunFailed, UnknownThread
from clew.actors.agent import AgentDefinition, StateChange, Thread, define_agent, replay, tool_options, tool_step
from clew.actors.testing import final_turn, following_model, tool_call_turn, tool_calls_turn
from clew.journal import Journal, MemoryJournal, NotRepresentable
from tests.actors.robot import journal_with
from tests.actors.support import WAIT_S

T = "thread/t"


class Plan(BaseModel):
    """What the state of the tests is, for pydantic."""

    n: int
    notes: list[str] = []


class PlanStruct(msgspec.Struct):
    """The same for msgspec."""

    n: int
    notes: list[str] = []


PLAN_SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def setter(*values: Any) -> Callable[[], str]:
    """A tool that sets the state to one value after the other."""
    left = list(values)

    def put() -> str:
        tool_step().set_state(left.pop(0))
        return "put"

    return put


# Without a docstring, which would be part of what the model is told of the tool.
def counter() -> str:
    tool_step().update_state(_counted)
    return "counted"


def _counted(state: dict[str, int] | None) -> dict[str, int]:
    before = state or {}
    return {**before, "n": before.get("n", 0) + 1}


def calls(name: str, count: int = 1) -> list[ModelResponse]:
    """A script that calls a tool so often, one call a turn."""
    return [*(tool_call_turn(f"c{number}", name, {}) for number in range(count)), final_turn("done")]


def agent_of(
    tool: Callable[..., Any] = counter, turns: list[ModelResponse] | None = None, *, attempts: int = 1, **options: Any
) -> AgentDefinition[None, str]:
    tools = [Tool(tool, name="act", metadata=tool_options(attempts=attempts))]
    return define_agent("planner", model=following_model(turns or calls("act")), tools=tools, **options)


def thread_of(system: ActorSystem, agent: AgentDefinition[Any, str], owner: str | None = "ann") -> Thread[str]:
    return system.thread(agent, "t", owner=owner)


def run_in(journal: Journal, agent: AgentDefinition[None, str], run: str = "r") -> Any:
    """Have the agent run once in a journal, and return the state then."""
    with ActorSystem(journal, agents=[agent]) as system:
        thread = thread_of(system, agent)
        thread.run("Go.", run_id=run).result(timeout_s=WAIT_S)
        return thread.state_json()


def names(journal: Journal) -> list[str]:
    return [event.type.name for event in journal.read(T)]


@pytest.mark.requirement("L-STATE-1")
def test_a_new_thread_begins_with_the_initial_state_and_nothing_seeds_it_again() -> None:
    journal = MemoryJournal()
    answers = [final_turn("one"), final_turn("two"), final_turn("three")]

    states = [
        run_in(journal, agent_of(turns=answers, initial_state={"n": seed}), run)
        for seed, run in ((1, "r1"), (2, "r2"), (3, "r3"))
    ]
    agent = agent_of(turns=answers, initial_state={"n": 4})
    with ActorSystem(journal, agents=[agent]) as system:
        replayed = replay(thread_of(system, agent), agent)
        states.append(thread_of(system, agent).state())

    assert states == [{"n": 1}] * 4
    assert names(journal).count("state.set") == 1
    assert replayed.digests_equal


@pytest.mark.requirement("L-STATE-11")
def test_a_thread_that_has_no_state_and_whose_tools_set_none_has_no_event_of_one() -> None:
    journal, agent = MemoryJournal(), agent_of(lambda: "nothing")

    assert run_in(journal, agent) is None
    assert "state.set" not in names(journal)


@pytest.mark.requirement("L-STATE-3")
def test_to_set_the_state_is_to_replace_all_of_it() -> None:
    agent = agent_of(setter({"a": 1, "b": 2}, {"b": 3}), calls("act", 2))

    assert run_in(MemoryJournal(), agent) == {"b": 3}


def test_tools_that_run_beside_each_other_lose_none_of_each_others_changes() -> None:
    together = asyncio.Barrier(5)

    async def count() -> str:
        assert tool_step().get_state() == {"n": 10}
        counted = counter()
        await together.wait()
        return counted

    turns = [tool_calls_turn(*((f"c{number}", "act", None) for number in range(5))), final_turn("done")]

    assert run_in(MemoryJournal(), agent_of(count, turns, initial_state={"n": 10})) == {"n": 15}


@pytest.mark.requirement("L-STATE-5", "L-STATE-6")
def test_a_step_that_fails_in_the_middle_leaves_no_state_behind_and_counts_once() -> None:
    """We promise more than is asked: the step runs again against the state as it was."""
    seen: list[Any] = []

    def count() -> str:
        seen.append(tool_step().get_state())
        counter()
        if len(seen) < 3:
            raise OSError("not now")
        return "counted"

    journal = MemoryJournal()

    assert run_in(journal, agent_of(count, attempts=3)) == {"n": 1}
    assert seen == [None, None, None]
    assert names(journal).count("state.set") == 1


@pytest.mark.crash
@pytest.mark.requirement("L-STATE-6", "G-STATE-1")
def test_a_crash_anywhere_leaves_each_change_made_once_and_what_was_in_memory_gone() -> None:
    turns, begun = calls("act", 3), list[int]()

    def count() -> str:
        begun.append(tool_step().get_state()["n"])
        return counter()

    journal, agent = MemoryJournal(), agent_of(count, turns, initial_state={"n": 0})
    final = run_in(journal, agent)
    history = list(journal.read(T))

    # What one command decided is appended as one, and never in part.
    cuts = [cut for cut in range(3, len(history)) if history[cut].cause != history[cut - 1].cause]
    for cut in cuts:
        begun.clear()
        again = journal_with(history[:cut])
        done = names(again).count("state.set") - 1
        with ActorSystem(again, agents=[agent]) as system:
            thread = thread_of(system, agent)
            thread.attach("r").result(timeout_s=WAIT_S)
            assert thread.state() == final == {"n": 3}
            assert replay(thread, agent).digests_equal
        # The tools whose results were lost ran again from their beginning, on the state that was recorded.
        assert begun == list(range(done, 3))
    assert len(cuts) > 6


@pytest.mark.requirement("L-STATE-4")
def test_a_value_that_would_come_out_otherwise_the_next_time_is_the_recorded_one_for_ever() -> None:
    journal = MemoryJournal()

    def draw() -> str:
        tool_step().set_state({"drawn": random.random()})
        return "drawn"

    agent = agent_of(draw)
    drawn = run_in(journal, agent)
    with ActorSystem(journal, agents=[agent]) as system:
        thread = thread_of(system, agent)
        assert replay(thread, agent).digests_equal
        assert thread.state() == drawn


@pytest.mark.parametrize("type_", [Plan, PlanStruct, PLAN_SCHEMA])
def test_a_state_of_another_type_is_refused_with_its_path_and_the_run_fails(type_: Any) -> None:
    agent = agent_of(setter({"n": "three"}), initial_state={"n": 1}, state_type=type_)

    with ActorSystem(MemoryJournal(), agents=[agent]) as system:
        thread = thread_of(system, agent)
        with pytest.raises(RunFailed, match=r"InvalidState.*\$\.n"):
            thread.run("Go.").result(timeout_s=WAIT_S)
        assert thread.state_json() == {"n": 1}


def test_a_change_that_makes_a_state_of_another_type_fails_its_step() -> None:
    def spoil() -> str:
        tool_step().update_state(lambda state: {**state, "n": None})
        return "spoiled"

    agent = agent_of(spoil, initial_state={"n": 1}, state_type=Plan)

    with pytest.raises(RunFailed, match=r"InvalidState.*\$\.n"):
        run_in(MemoryJournal(), agent)


def test_a_tool_that_is_tried_again_may_set_a_state_that_fits() -> None:
    agent = agent_of(setter({"n": "three"}, {"n": 3}), attempts=2, state_type=Plan)

    assert run_in(MemoryJournal(), agent) == {"n": 3}


@pytest.mark.parametrize(
    ("options", "error", "what"),
    [
        ({"initial_state": {"n": "one"}, "state_type": Plan}, InvalidState, r"initial_state.*\$\.n"),
        ({"state_type": {"type": "no such"}}, TypeError, "no JSON schema"),
        ({"state_defaults": [1]}, TypeError, "state_defaults"),
        ({"state_defaults": {"at": object()}}, NotRepresentable, r"state_defaults.*at"),
        ({"state_upcast": 1}, TypeError, "state_upcast"),
    ],
)
def test_a_mistake_in_what_is_said_of_the_state_shows_where_it_is_made(
    options: dict[str, Any], error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        agent_of(**options)


@pytest.mark.requirement("L-STATE-10")
@pytest.mark.parametrize(("model", "plan"), [(Plan, Plan(n=2, notes=["a"])), (PlanStruct, PlanStruct(2, ["a"]))])
def test_the_state_is_read_and_watched_as_the_model_that_is_asked_for(model: type[Any], plan: Any) -> None:
    journal, agent = MemoryJournal(), agent_of(setter({"n": 2, "notes": ["a"]}), initial_state={"n": 1})
    run_in(journal, agent)

    with ActorSystem(journal, agents=[agent]) as system:
        thread = thread_of(system, agent)
        assert thread.state(model) == plan
        assert [change.value for change in islice(thread.watch_state(model, after=0), 2)] == [model(n=1), plan]
        with pytest.raises(InvalidState, match=r"\$"):
            thread.state(list[int])


@pytest.mark.requirement("L-STATE-8")
def test_nobody_but_the_owner_of_a_thread_sees_its_state() -> None:
    journal, agent = MemoryJournal(), agent_of(initial_state={"secret": 1})
    run_in(journal, agent)

    with ActorSystem(journal, agents=[agent]) as system:
        for stranger in (thread_of(system, agent, "bob"), thread_of(system, agent, None)):
            with pytest.raises(UnknownThread):
                stranger.state()
            with pytest.raises(UnknownThread):
                stranger.watch_state()


@pytest.mark.requirement("L-STATE-9")
async def test_a_watcher_gets_what_the_state_is_and_then_only_what_changes_it() -> None:
    first: dict[str, Any] = {"a": 1, "b": [1]}
    values: list[Any] = [first, {"b": [1], "a": 1}, {"a": 2}, {"a": 2}, first]
    agent = agent_of(setter(*values), calls("act", 5), initial_state=first)

    async with ActorSystem(MemoryJournal(), agents=[agent]) as system:
        thread = thread_of(system, agent)
        run = thread.run("Go.")
        await asyncio.to_thread(run.started)
        seen: list[StateChange[Any]] = []
        async with asyncio.timeout(WAIT_S), thread.watch_state(after=0) as changes:
            async for change in changes:
                seen.append(change)
                if len(seen) == 3:
                    break
        await run
        rest = [list(islice(thread.watch_state(after=change.sequence), 1)) for change in seen[:2]]
        present = next(iter(thread.watch_state()))

    assert [change.value for change in seen] == [first, {"a": 2}, first]
    assert rest == [[seen[1]], [seen[2]]]
    assert present == seen[2]
    assert all(change.at for change in seen)


async def test_a_watcher_that_left_goes_on_behind_the_last_change_it_saw() -> None:
    agent = agent_of(setter(1, 1, 2), calls("act", 3))

    async with ActorSystem(MemoryJournal(), agents=[agent]) as system:
        thread = thread_of(system, agent)
        await thread.run("Go.")
        changes = thread.watch_state(after=0)
        seen: list[int] = []
        async with asyncio.timeout(WAIT_S):
            for _ in range(2):
                async for change in changes:
                    seen.append(change.value)
                    break

    assert seen == [1, 2]


def upcast(state: dict[str, Any]) -> dict[str, Any]:
    """Lead a state up: what was called `n` is called `count`."""
    return {"count" if key == "n" else key: value for key, value in state.items()}


EVOLVED: dict[str, Any] = {"state_defaults": {"tags": [], "count": 0}, "state_upcast": upcast}


@pytest.mark.requirement("G-STATE-4")
def test_a_thread_of_an_earlier_version_is_read_in_the_present_shape_and_stays_as_it_was() -> None:
    journal = MemoryJournal()
    run_in(journal, agent_of(initial_state={"n": 1}))
    before = [event.canonical for event in journal.read(T)]
    seen: list[Any] = []

    def tag() -> str:
        seen.append(tool_step().get_state())
        tool_step().update_state(lambda state: {**state, "tags": [*state["tags"], "new"]})
        seen.append(tool_step().get_state())
        return "tagged"

    turns = [*calls("act"), tool_call_turn("d1", "act", {}), final_turn("done")]
    agent = agent_of(tag, turns, initial_state={"count": 99}, **EVOLVED)
    with ActorSystem(journal, agents=[agent]) as system:
        thread = thread_of(system, agent)
        looked = thread.state()
        watched = [change.value for change in islice(thread.watch_state(after=0), 2)]
        assert [event.canonical for event in journal.read(T)] == before
        thread.run("Tag.", run_id="r2").result(timeout_s=WAIT_S)
        after = thread.state()
        assert replay(thread, agent).digests_equal

    assert looked == {"tags": [], "count": 2}
    assert watched == [{"tags": [], "count": 1}, looked]
    assert seen == [looked, {"tags": ["new"], "count": 2}]
    assert after == seen[1]
    assert [event.canonical for event in journal.read(T)][: len(before)] == before


@pytest.mark.requirement("G-STATE-4")
def test_a_thread_from_before_there_was_a_state_is_read_as_the_defaults() -> None:
    journal = MemoryJournal()
    run_in(journal, agent_of(lambda: "nothing"))
    agent = agent_of(initial_state={"count": 99}, **EVOLVED)

    with ActorSystem(journal, agents=[agent]) as system:
        thread = thread_of(system, agent)
        shown: dict[str, Any] = {"tags": [], "count": 0}
        assert thread.state() == shown
        assert next(iter(thread.watch_state())) == StateChange(0, 0, shown)

    assert "state.set" not in names(journal)


def test_defaults_are_laid_under_an_object_and_nothing_else() -> None:
    agent = agent_of(setter([1, 2]), state_defaults={"n": 1})

    assert run_in(MemoryJournal(), agent) == [1, 2]
