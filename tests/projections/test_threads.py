"""A conversation at a glance: who owns it, which runs there were, how they went and what they used."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from clew.actors.thread import ThreadCommand
from clew.journal.facts import NOTHING
from clew.projections import Usage, thread_view, view_of
from tests.actors.story import Story, cancel, complete, fail, fail_step, finish, halt, raw, resume, start

USED = {"requests": 2, "tool_calls": 1, "input_tokens": 30, "output_tokens": 4, "cost": 0.1, "details": {"x": 1}}


def test_a_thread_without_events_is_new() -> None:
    view = view_of([])

    assert (view.status, view.sequence, view.runs, view.owner) == ("new", 0, [], None)


@pytest.mark.requirement("L-RUN-10")
def test_owner_title_and_opening_time_are_those_of_the_first_run() -> None:
    view = view_of(Story(start(owner="ann", title="Parcels", at=5), finish(), start("r2", owner="ann", at=8)).events)

    assert (view.stream, view.owner, view.title, view.opened_at) == ("thread/t", "ann", "Parcels", 5)
    assert [(run.run, run.agent, run.started_at) for run in view.runs] == [("r1", "agent", 5), ("r2", "agent", 8)]


@pytest.mark.requirement("L-RUN-4")
@pytest.mark.parametrize(
    ("then", "status", "ended_at", "stopped", "error"),
    [
        ([], "running", None, None, None),
        ([complete(), fail_step("tool:a:1")], "running", None, None, None),
        ([finish()], "done", 9, "final", None),
        ([finish(stopped="max_turns")], "done", 9, "max_turns", None),
        ([fail()], "failed", 9, None, "Boom: it broke"),
        ([cancel()], "cancelled", 9, None, "enough"),
        ([halt()], "halted", None, None, "step llm:turn:1: result differs from what was recorded"),
        ([halt(), resume()], "running", None, None, None),
        ([halt(), resume(), finish()], "done", 9, "final", None),
        ([halt(), cancel()], "cancelled", 9, None, "enough"),
    ],
)
def test_the_status_of_a_run_says_where_it_is(
    then: list[ThreadCommand], status: str, ended_at: int | None, stopped: str | None, error: str | None
) -> None:
    view = view_of(Story(start(), *then).events)

    run = view.run("r1")
    assert run is not None
    assert (run.status, run.ended_at, run.stopped, run.error) == (status, ended_at, stopped, error)
    assert view.status == status


def test_the_status_of_a_thread_is_that_of_its_last_run() -> None:
    story = Story(start(), fail())
    later = (start("r2"), complete(run="r2", state={"n": 1}), finish("r2"), start("r3"), cancel("r3"))

    statuses = [view_of(story.events).status, *(view_of(story.tell(command).events).status for command in later)]

    assert statuses == ["failed", "running", "running", "done", "running", "cancelled"]
    assert [run.status for run in view_of(story.events).runs] == ["failed", "done", "cancelled"]


def test_the_steps_of_a_run_are_counted_and_those_of_sub_agents_are_not() -> None:
    view = view_of(
        Story(
            start(),
            complete("llm:turn:1"),
            complete("tool:ask:a/llm:turn:1"),
            fail_step("tool:ask:a"),
            complete("tool:ask:a", state=[1]),
        ).events
    )

    assert [run.steps for run in view.runs] == [2]


@pytest.mark.requirement("L-LOOP-15")
def test_usage_adds_up_over_the_runs() -> None:
    story = Story(start(), finish(usage=USED), start("r2"), fail("r2"), start("r3"), finish("r3", usage=USED))

    view = view_of(story.events)

    assert [run.usage.input_tokens for run in view.runs] == [30, 0, 30]
    assert view.usage == Usage(requests=4, tool_calls=2, input_tokens=60, output_tokens=8, cost_usd=Decimal("0.2"))


def test_a_run_that_ended_without_usage_used_nothing() -> None:
    command = msgspec.structs.replace(finish(), usage=NOTHING)

    assert view_of(Story(start(), command).events).usage == Usage()


@pytest.mark.requirement("L-STATE-3", "L-STATE-7")
def test_synced_state_is_the_last_that_was_set_whole() -> None:
    story = Story(start())
    states = [view_of(story.events).state]
    for number, state in enumerate(({"a": 1, "b": 2}, {"a": 3})):
        states.append(view_of(story.tell(complete(f"tool:t:{number}", state=state)).events).state)

    assert states == [NOTHING, raw({"a": 1, "b": 2}), raw({"a": 3})]


def test_a_run_that_is_not_there_is_none() -> None:
    assert view_of(Story(start()).events).run("r9") is None


def test_a_view_can_be_kept_and_gone_on_with() -> None:
    from clew.projections import project

    story = Story(
        start(owner="ann"),
        complete(state={"n": 1}),
        halt(),
        resume(owner="ann"),
        finish(usage=USED),
        start("r2", owner="ann"),
    )

    for cut in range(len(story.events) + 1):
        kept = msgspec.json.decode(msgspec.json.encode(view_of(story.events[:cut])), type=type(view_of([])))
        assert project(thread_view, story.events[cut:], kept) == view_of(story.events)


def test_the_view_says_how_far_it_has_read() -> None:
    story = Story(start(), complete(), finish())

    assert [view_of(story.events[:cut]).sequence for cut in range(5)] == [0, 1, 2, 3, 4]
