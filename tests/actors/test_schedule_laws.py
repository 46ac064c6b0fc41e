"""Laws that hold for all schedules, whatever was asked of them and however the clock went."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.actors import ActorError
from clew.actors.schedule import (
    CancelSchedule,
    PauseSchedule,
    ResumeSchedule,
    SetSchedule,
    after,
    at,
    cron,
    every,
    fire,
)
from clew.actors.schedule.commands import Missed, Overlap
from clew.actors.schedule.state import due
from clew.actors.schedule.ticks import next_tick, passed_ticks
from clew.actors.schedule.times import SECOND_NS
from clew.journal.facts.schedule import ScheduleFired, ScheduleSkipped
from tests.actors.agenda import START, Agenda, ScheduleCommand, decided, folded
from tests.actors.story import raw

pytestmark = pytest.mark.property

names = st.sampled_from(["a", "b", "c"])
overlaps: st.SearchStrategy[Overlap] = st.sampled_from(["skip", "queue", "replace"])
policies: st.SearchStrategy[Missed] = st.sampled_from(["coalesce", "all", "none"])
specs = st.one_of(
    st.integers(-100, 5000).map(lambda s: at(START + s * SECOND_NS)),
    st.sampled_from([0, 0.5, 10, 300]).map(after),
    st.sampled_from([0.25, 10, 60, 3600]).map(every),
    st.integers(-90, 90).map(lambda s: every(60, start=START + s * SECOND_NS)),
    st.sampled_from(["* * * * *", "*/7 9-17 * * *", "0 * * * MON", "15,45 1 * * *"]).map(
        lambda text: cron(text, tz="America/New_York")
    ),
)
actions = st.sampled_from([raw(1), raw(2)])


class Fire(msgspec.Struct, frozen=True):
    """Time for what is due."""

    busy: bool
    at: int


Step = ScheduleCommand | Fire

wishes: st.SearchStrategy[Step] = st.one_of(
    st.builds(SetSchedule, names, specs, actions, st.just(START), overlaps, policies, st.integers(1, 5)),
    st.builds(PauseSchedule, names, st.just(START)),
    st.builds(ResumeSchedule, names, st.just(START)),
    st.builds(CancelSchedule, names, st.just("enough"), st.just(START)),
)
# Mostly forwards, by seconds or by days; now and then the clock is set back, or stands still.
seconds = st.sampled_from([0, 1, 5, 10, 60, 61, 600, 3600, 90_000, -1, -10, -600, -90_000])
fires: st.SearchStrategy[Step] = st.builds(Fire, st.booleans(), st.just(START))


def in_time(parts: list[tuple[int, Step]]) -> list[Step]:
    times = accumulate((passed for passed, _ in parts), initial=START // SECOND_NS)
    return [replace(step, at=at * SECOND_NS) for (_, step), at in zip(parts, times, strict=False)]


stories = st.lists(st.tuples(seconds, wishes | fires | fires), min_size=3, max_size=25).map(in_time)
law = settings(max_examples=150, deadline=None, derandomize=True)


def played(story: Sequence[Step], *, restarts: frozenset[int] = frozenset()) -> Agenda:
    """Play a story, refusals included, and look after each step that the same again changes nothing."""
    agenda = Agenda()
    for place, command in enumerate(story):
        if place in restarts:
            agenda.restart()
        if isinstance(command, Fire):
            agenda.take(fire(agenda.schedules, command.at, command.busy))
            assert (due(agenda.schedules) or command.at + 1) > command.at
            assert fire(agenda.schedules, command.at, command.busy) == []
        else:
            try:
                agenda.take(decided(agenda.schedules, command))
            except ActorError:
                continue
            assert decided(agenda.schedules, command) == ()
    return agenda


@law
@given(stories)
def test_no_tick_of_a_name_fires_twice_or_is_skipped_and_fires(story: list[Step]) -> None:
    agenda = played(story)

    ticks = [(e.name, e.due) for e in agenda.events if isinstance(e, ScheduleFired | ScheduleSkipped)]

    assert len(ticks) == len(set(ticks))
    for name in "abc":
        dues = [due for known, due in ticks if known == name]
        assert dues == sorted(dues)


@law
@given(stories)
def test_what_happens_next_lies_behind_what_happened(story: list[Step]) -> None:
    agenda = played(story)

    for event in agenda.events:
        if isinstance(event, ScheduleFired | ScheduleSkipped) and event.next_due is not None:
            assert event.next_due > event.due
    for schedule in agenda.schedules.active.values():
        assert schedule.last_due is None or schedule.next_due > schedule.last_due


@law
@given(stories)
def test_the_events_folded_anew_give_the_same_schedules(story: list[Step]) -> None:
    agenda = played(story)

    assert folded(agenda.events) == agenda.schedules


@law
@given(stories, st.frozensets(st.integers(0, 24)))
def test_restarts_change_nothing(story: list[Step], places: frozenset[int]) -> None:
    assert played(story, restarts=places).events == played(story).events


@law
@given(stories, names)
def test_to_decide_and_to_evolve_leave_the_state_they_were_given_alone(story: list[Step], name: str) -> None:
    agenda = played(story)
    given_state, kept = agenda.schedules, repr(agenda.schedules)

    agenda.now += 10**15
    agenda.fire()
    agenda.set(name, every(3))
    agenda.cancel(name)

    assert repr(given_state) == kept


@law
@given(
    st.integers(1, 50),
    st.integers(0, 20),
    st.integers(0, 400),
    st.integers(1, 12),
)
def test_the_arithmetic_of_intervals_is_that_of_a_walk(interval: int, tick: int, later: int, keep: int) -> None:
    at = tick + later
    spec = every(interval / 1000)
    step = interval * 1_000_000

    walk = [tick]
    while walk[-1] + step <= at:
        walk.append(walk[-1] + step)

    assert passed_ticks(spec, tick, at=at, keep=keep) == (walk[-keep:], len(walk[:-keep]))
    assert next_tick(spec, tick, after=at) == walk[-1] + step


@law
@given(stories)
def test_each_tick_of_an_interval_is_accounted_for_once(story: list[Step]) -> None:
    times = [step for step in story if isinstance(step, Fire)]
    for missed in ("coalesce", "all", "none"):
        agenda = Agenda()
        agenda.set("t", every(7), missed=missed, missed_max=3)
        for command in times:
            agenda.take(fire(agenda.schedules, command.at, command.busy))

        fired = [event.missed + 1 for event in agenda.events if isinstance(event, ScheduleFired)]
        skipped = [event.count for event in agenda.events if isinstance(event, ScheduleSkipped)]

        newest = max((command.at for command in times), default=START)
        assert sum(fired) + sum(skipped) == max(0, newest - START) // (7 * SECOND_NS)
