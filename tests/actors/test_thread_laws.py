"""Laws that hold for every conversation, whatever happened in it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from clew.actors import fold
from clew.actors.state_codec import StateCodec
from clew.actors.thread import (
    AlarmFired,
    CancelRun,
    EndChild,
    RecoverRun,
    ResolveApproval,
    RunStatus,
    SendSignal,
    SettleStep,
    StartStep,
    ThreadCommand,
    ThreadState,
    thread_decider,
)
from clew.actors.thread.state import due
from clew.journal import Catalog
from clew.journal.facts import (
    NOTHING,
    THREAD_EVENTS,
    ApprovalNotified,
    ChildEnded,
    ChildStarted,
    MessageSent,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunRequested,
    StateSet,
    StepCompleted,
    ThreadOpened,
)
from tests.actors.conversations import NEW, after, commands, histories, taken
from tests.actors.story import raw

pytestmark = pytest.mark.property

ENDS = (RunFinished, RunFailed, RunCancelled)
LATE = 2**60

CATALOG = Catalog(*THREAD_EVENTS)
CODEC = StateCodec[ThreadState]("thread", ThreadState)
# To explain a failure takes minutes with commands of this size, and the history that is left says enough.
PHASES = [phase for phase in Phase if phase is not Phase.explain]
law = settings(max_examples=100, deadline=None, derandomize=True, phases=PHASES)


@law
@given(histories, commands)
def test_the_same_command_again_changes_nothing(history: list[ThreadCommand], command: ThreadCommand) -> None:
    # Each crash counts, so what says that there was one is known by its id alone.
    assume(not isinstance(command, RecoverRun))
    state, _ = after(history)

    once = fold(thread_decider, taken(state, command), state)

    again = taken(once, command)
    # An attempt that may run again, with the same approval and until the same time, may be begun again.
    assert again == () or (isinstance(command, StartStep) and not command.claimed)
    assert fold(thread_decider, again, once) == once


@law
@given(histories)
def test_a_history_replayed_gives_the_same_conversation(history: list[ThreadCommand]) -> None:
    state, events = after(history)

    stored = [CATALOG.encode(event)[1] for event in events]

    assert fold(thread_decider, stored, NEW) == state


@law
@given(histories)
def test_a_conversation_survives_its_snapshot_exactly(history: list[ThreadCommand]) -> None:
    state, _ = after(history)

    assert CODEC.decode(CODEC.encode(state)) == state


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
    keys = [effect.key for effect in thread_decider.effects(state)]
    driven = [key for key in keys if key.startswith("run:")]
    assert driven == [f"run:{name}" for name in still_open if state.runs[name].status is RunStatus.RUNNING]
    assert len(keys) == len(set(keys))


@law
@given(histories)
def test_a_step_completes_once_and_state_is_set_only_together_with_one(history: list[ThreadCommand]) -> None:
    _, events = after(history)

    completed = [(event.run, event.step) for event in events if isinstance(event, StepCompleted)]

    assert len(completed) == len(set(completed))
    for event, following in zip(events, [*events[1:], None], strict=True):
        if isinstance(event, StateSet) and event.step != "initial_state":
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


@law
@given(histories)
def test_nothing_happens_to_a_run_that_has_ended_but_that_somebody_is_told(history: list[ThreadCommand]) -> None:
    _, events = after(history)

    ended = set[str]()
    for event in events:
        assert isinstance(event, ApprovalNotified) or getattr(event, "run", None) not in ended
        if isinstance(event, ENDS):
            ended.add(event.run)


@law
@given(histories)
def test_what_happens_once_in_a_conversation_happens_once(history: list[ThreadCommand]) -> None:
    _, events = after(history)

    happened = Counter(
        (type(event).__name__, *(getattr(event, key, None) for key in ("run", "step", "id"))) for event in events
    )

    once = {
        *("RunQueued", "RunRequested", "RunStarted", "RunFinished", "RunFailed", "RunCancelled", "RunDeadlineSet"),
        *("ApprovalRequested", "ApprovalResolved", "ApprovalSettled", "ApprovalNotified"),
        *("SignalReceived", "SignalAwaited", "SignalTaken", "SignalTimedOut"),
        *("ChildStarted", "ChildEnded", "MessageSent", "MessageDelivered"),
    }
    assert {what: times for what, times in happened.items() if what[0] in once and times > 1} == {}
    signals = Counter(what[3] for what in happened if what[0] == "SignalTaken")
    assert set(signals.values()) <= {1}


@law
@given(histories)
def test_each_answer_comes_after_its_question_and_each_question_gets_one_at_the_most(
    history: list[ThreadCommand],
) -> None:
    _, events = after(history)

    asked = {"SignalAwaited": {"SignalTaken", "SignalTimedOut"}, "ChildStarted": {"ChildEnded"}}
    asked |= {"ApprovalRequested": {"ApprovalResolved"}, "ApprovalResolved": {"ApprovalSettled"}}
    asked |= {"ApprovalSettled": {"ApprovalNotified"}, "StepDoubted": {"StepSettled"}}
    for question, answers in asked.items():
        waiting = set[tuple[str, str]]()
        for event in events:
            name, key = type(event).__name__, (getattr(event, "run", ""), getattr(event, "step", ""))
            if name == question:
                waiting.add(key)
            elif name in answers:
                assert key in waiting
                waiting.discard(key)


@law
@given(histories)
def test_no_approval_of_a_run_that_has_ended_is_left_open(history: list[ThreadCommand]) -> None:
    state, _ = after(history)

    for asked in state.approvals.values():
        assert asked.decision is not None or asked.outcome is None
        if state.runs[asked.run].status.ended:
            assert (asked.decision is None, asked.outcome is None) == (False, False)


@law
@given(histories)
def test_only_an_approved_call_begins_with_an_approval_and_it_is_its_own(history: list[ThreadCommand]) -> None:
    state = NEW
    for command in history:
        events = taken(state, command)
        if isinstance(command, StartStep) and command.approval is not None and events:
            asked = state.approvals[f"{command.run}/{command.approval}"]
            assert (asked.decision, asked.call, asked.run) == ("approved", command.step, command.run)
        state = fold(thread_decider, events, state)


@law
@given(histories, st.integers(0, 80))
def test_an_alarm_does_something_exactly_when_something_is_due_and_leaves_nothing_due(
    history: list[ThreadCommand], at: int
) -> None:
    state, _ = after(history)
    first = due(state)

    events = thread_decider.decide(state, AlarmFired(at))

    assert bool(events) == (first is not None and first <= at)
    later = due(fold(thread_decider, events, state))
    assert later is None or later > at


@law
@given(histories)
def test_a_run_that_waits_behind_another_starts_in_its_turn_or_is_given_up(history: list[ThreadCommand]) -> None:
    state, _ = after(history)
    queued = [waiting.run for waiting in state.queue]
    assert not queued or state.open_run is not None

    started = list[str]()
    for end in range(10):
        if state.open_run is None:
            break
        at = min((waiting.expires_at for waiting in state.queue), default=0) - (end + 1) % 2
        cancelled = taken(state, CancelRun(state.open_run, state.owner, "", at))
        state = fold(thread_decider, cancelled, state)
        started += [] if state.open_run is None else [state.open_run]

    assert state.queue == ()
    assert started == [run for run in queued if run in started]
    assert all(state.runs[run].status is RunStatus.CANCELLED for run in queued)


@law
@given(histories)
def test_whatever_waits_too_long_behind_another_run_is_given_up(history: list[ThreadCommand]) -> None:
    state, _ = after(history)

    events = thread_decider.decide(state, AlarmFired(LATE))

    assert fold(thread_decider, events, state).queue == ()


@law
@given(histories)
def test_a_suspended_run_goes_on_once_it_gets_something_it_waits_for(history: list[ThreadCommand]) -> None:
    state = NEW
    for command in history:
        state = fold(thread_decider, taken(state, command), state)
        run = None if state.open_run is None else state.runs[state.open_run]
        if run is not None and run.status is RunStatus.SUSPENDED and not run.pausing:
            assert any(state.open_run not in _suspended(state, waker) for waker in _wakers(state))


def _wakers(state: ThreadState) -> list[ThreadCommand]:
    """Return what brings the open run all that it waits for."""
    name = state.open_run or ""
    wakers: list[ThreadCommand] = [SendSignal(f"new {name}", name, raw(1), state.owner, 0) for name in ("go", "stop")]
    for wait in state.runs[name].waits.values():
        wakers += [
            ResolveApproval(name, wait.step, "rejected", "ann", "", 0),
            EndChild(name, wait.step, "done", NOTHING, None, NOTHING, 0),
            SettleStep(name, wait.step, "retry", None, state.owner, 0),
        ]
        if wait.kind == "retry" and wait.due is not None and wait.step in state.runs[name].waiting:
            wakers.append(AlarmFired(wait.due))
    return wakers


def _suspended(state: ThreadState, waker: ThreadCommand) -> list[str]:
    later = fold(thread_decider, taken(state, waker), state)
    return [name for name, run in later.runs.items() if run.status is RunStatus.SUSPENDED]


@law
@given(histories)
def test_whoever_asked_for_a_run_is_told_of_its_end_once_and_a_child_ends_or_is_cancelled(
    history: list[ThreadCommand],
) -> None:
    state, events = after(history)
    sent = Counter(event.id for event in events if isinstance(event, MessageSent))
    over = {(event.run, event.step) for event in events if isinstance(event, ChildEnded)}

    for event in events:
        if isinstance(event, RunRequested):
            assert sent[f"{event.run}/end"] == (event.run in state.runs and state.runs[event.run].status.ended)
        if isinstance(event, ChildStarted):
            assert sent[f"{event.run}/{event.step}/start"] == 1
            if state.runs[event.run].status.ended and (event.run, event.step) not in over:
                assert sent[f"{event.run}/{event.step}/cancel"] == 1
