"""Laws that hold for every conversation, whatever happened in it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.actors import ActorError, fold
from clew.actors.thread import (
    CancelRun,
    CompleteStep,
    FailRun,
    FailStep,
    FinishRun,
    HaltRun,
    ResumeRun,
    RunStatus,
    StartRun,
    ThreadCommand,
    ThreadState,
    thread_decider,
)
from clew.journal import Catalog
from clew.journal.facts import NOTHING, THREAD_EVENTS, ErrorFact, StateSet, StepCompleted, ThreadEvent, ThreadOpened
from tests.actors.story import raw

pytestmark = pytest.mark.property

runs = st.sampled_from(["r1", "r2", "r3"])
owners = st.sampled_from([None, "ann", "bob"])
steps = st.sampled_from(["llm:turn:1", "llm:turn:2", "tool:add:c1", "tool:add:c1/llm:turn:1"])
times = st.integers(0, 2**60)
values = st.one_of(st.none(), st.integers(), st.text(max_size=5), st.lists(st.booleans(), max_size=2)).map(raw)
requests = st.dictionaries(st.sampled_from(["model", "messages"]), st.text("0123456789abcdef", max_size=4))
errors = st.builds(ErrorFact, st.sampled_from(["Boom", "OSError"]), st.text(max_size=5))
usages = st.sampled_from([NOTHING, raw({"requests": 1})])

commands: st.SearchStrategy[ThreadCommand] = st.one_of(
    st.builds(StartRun, runs, st.just("agent"), values, owners, st.none() | st.text(max_size=5), times),
    st.builds(CompleteStep, runs, steps, requests, values, times, values, usages, st.none() | values),
    st.builds(FailStep, runs, steps, requests, st.integers(1, 3), st.booleans(), errors, times, values),
    st.builds(FinishRun, runs, st.sampled_from(["final", "max_turns"]), values, usages, values, times),
    st.builds(FailRun, runs, errors, times),
    st.builds(CancelRun, runs, owners, st.text(max_size=5), times),
    st.builds(HaltRun, runs, steps, st.integers(1, 9), st.just("result"), st.text(), st.text(), times),
    st.builds(ResumeRun, runs, owners, times),
)
# Mostly about a run that is there, so that histories go somewhere.
histories = st.tuples(
    st.builds(StartRun, st.just("r1"), st.just("agent"), values, owners, st.none(), times),
    st.lists(commands, max_size=25),
).map(lambda parts: [parts[0], *parts[1]])

NEW = ThreadState(stream="thread/t")
CATALOG = Catalog(*THREAD_EVENTS)
law = settings(max_examples=100, deadline=None, derandomize=True)


def after(history: Sequence[ThreadCommand]) -> tuple[ThreadState, list[ThreadEvent]]:
    """Let the commands be handled, refusals included, as an actor would."""
    state, happened = NEW, list[ThreadEvent]()
    for command in history:
        events = taken(state, command)
        state = fold(thread_decider, events, state)
        happened += events
    return state, happened


def taken(state: ThreadState, command: ThreadCommand) -> Sequence[ThreadEvent]:
    try:
        return thread_decider.decide(state, command)
    except ActorError:
        return ()


@law
@given(histories, commands)
def test_the_same_command_again_changes_nothing(history: list[ThreadCommand], command: ThreadCommand) -> None:
    state, _ = after(history)

    once = fold(thread_decider, taken(state, command), state)

    assert taken(once, command) == ()


@law
@given(histories)
def test_a_history_replayed_gives_the_same_conversation(history: list[ThreadCommand]) -> None:
    state, events = after(history)

    stored = [CATALOG.encode(event)[1] for event in events]

    assert fold(thread_decider, stored, NEW) == state


@law
@given(histories)
def test_the_whole_history_sent_again_changes_no_run_that_has_ended(history: list[ThreadCommand]) -> None:
    state, _ = after(history)
    ended = {name: run for name, run in state.runs.items() if run.status.ended}

    again = state
    for command in history:
        again = fold(thread_decider, taken(again, command), again)

    assert {name: again.runs[name] for name in ended} == ended
    assert (again.owner, again.title) == (state.owner, state.title)


@law
@given(histories)
def test_at_most_one_run_is_open_and_only_a_running_one_is_driven(history: list[ThreadCommand]) -> None:
    state, _ = after(history)

    still_open = [name for name, run in state.runs.items() if not run.status.ended]

    assert still_open == ([] if state.open_run is None else [state.open_run])
    driven = [effect.key for effect in thread_decider.effects(state)]
    assert driven == [f"run:{name}" for name in still_open if state.runs[name].status is RunStatus.RUNNING]


@law
@given(histories)
def test_a_step_completes_once_and_state_is_set_only_together_with_one(history: list[ThreadCommand]) -> None:
    _, events = after(history)

    completed = [(event.run, event.step) for event in events if isinstance(event, StepCompleted)]

    assert len(completed) == len(set(completed))
    for event, following in zip(events, [*events[1:], None], strict=True):
        if isinstance(event, StateSet):
            assert isinstance(following, StepCompleted)
            assert (following.run, following.step) == (event.run, event.step)
    assert [isinstance(event, ThreadOpened) for event in events] == [True] + [False] * (len(events) - 1)


@law
@given(histories, commands)
def test_to_decide_and_to_evolve_leave_the_state_they_were_given_alone(
    history: list[ThreadCommand], command: ThreadCommand
) -> None:
    state, events = after(history)
    kept = repr(state)

    fold(thread_decider, taken(state, command), state)

    assert repr(state) == kept
    assert fold(thread_decider, events, NEW) == state
