"""What a conversation decides: given what happened, a command becomes these facts, or is refused."""

from __future__ import annotations

import pytest

from clew.actors import CommandRejected, Effect, RunConflict, RunEnded, UnknownRun
from clew.actors.thread import DriveRun, RunStatus, ThreadCommand
from clew.actors.thread.state import effects
from clew.journal.facts import (
    RunCancelled,
    RunFailed,
    RunFinished,
    RunHalted,
    RunResumed,
    RunStarted,
    StateSet,
    StepCompleted,
    StepFailed,
    ThreadOpened,
)
from tests.actors.story import (
    BOOM,
    cancel,
    complete,
    decide,
    evolved,
    fail,
    fail_step,
    finish,
    given,
    halt,
    raw,
    resume,
    start,
)

ENDS = [finish(), fail(), cancel()]


@pytest.mark.requirement("L-RUN-10")
def test_the_first_run_opens_the_thread_with_owner_and_title() -> None:
    events = decide(given(), start(owner="ann", title="Parcels", prompt="where?", at=5))

    assert events == (ThreadOpened("ann", "Parcels", 5), RunStarted("r1", "agent", raw("where?"), 5))


@pytest.mark.requirement("L-RUN-10")
def test_a_later_run_changes_neither_title_nor_opening_time() -> None:
    thread = given(start(title="first"), finish())

    later = evolved(thread, decide(thread, start("r2", title="second")))

    assert decide(thread, start("r2", title="second", at=8)) == (RunStarted("r2", "agent", raw("hello"), 8),)
    assert later.title == "first"


@pytest.mark.requirement("L-CONC-1", "L-CONC-2")
@pytest.mark.parametrize("before", [[start()], [start(), complete()], [start(), halt()]])
def test_one_run_owns_a_thread_and_a_second_is_a_conflict(before: list[ThreadCommand]) -> None:
    with pytest.raises(RunConflict, match="thread/t: run r1 is") as conflict:
        decide(given(*before), start("r2"))

    assert (conflict.value.run, conflict.value.status) == (
        "r1",
        "halted" if len(before) > 1 and before[1] == halt() else "running",
    )


@pytest.mark.requirement("L-CONC-1")
@pytest.mark.parametrize("end", ENDS)
def test_a_thread_is_free_again_once_its_run_has_ended(end: ThreadCommand) -> None:
    thread = given(start(), end, start("r2"))

    assert (thread.open_run, thread.runs["r2"].status) == ("r2", RunStatus.RUNNING)


@pytest.mark.parametrize("then", [[], [complete()], [halt()], [finish()], [fail()], [cancel()]])
def test_a_run_that_is_started_again_under_its_id_is_the_same_run(then: list[ThreadCommand]) -> None:
    assert decide(given(start(), *then), start(prompt="another")) == ()


def test_a_run_that_ended_can_be_started_again_under_its_id_while_another_one_is_open() -> None:
    assert decide(given(start(), finish(), start("r2")), start()) == ()


@pytest.mark.parametrize("bad", ["", "a/b", "a\n", "\x00", "x" * 129, "\ud800", "\u200b"])
def test_a_run_id_outside_the_grammar_is_refused(bad: str) -> None:
    with pytest.raises(CommandRejected, match="is not a run id"):
        decide(given(), start(bad))


@pytest.mark.parametrize("good", ["x", "x" * 128, "run 1", "é", "..", "a:b#c", "🎈"])
def test_a_run_id_is_any_printable_text_without_a_slash(good: str) -> None:
    assert given(start(good)).open_run == good


def test_a_completed_step_is_recorded_with_all_it_brings() -> None:
    events = decide(given(start()), complete(result={"a": 1}, tail=[], usage={"requests": 1}, at=7))

    assert events == (StepCompleted("r1", "llm:turn:1", {}, raw({"a": 1}), 7, raw([]), raw({"requests": 1})),)


@pytest.mark.requirement("L-STATE-6")
def test_a_step_and_the_state_it_set_are_one_append() -> None:
    thread = given(start())

    events = decide(thread, complete("tool:add:c1", state={"n": 1}))

    assert [type(event) for event in events] == [StateSet, StepCompleted]
    assert events[0] == StateSet("r1", "tool:add:c1", raw({"n": 1}))
    assert evolved(thread, events).state == raw({"n": 1})


@pytest.mark.requirement("L-STATE-6", "L-REPLAY-4")
def test_a_completed_step_counts_once_whatever_comes_after_it() -> None:
    thread = given(start(), complete("tool:add:c1", state={"n": 1}))

    assert decide(thread, complete("tool:add:c1", result="other", state={"n": 2})) == ()
    assert decide(thread, fail_step("tool:add:c1", attempt=2)) == ()


def test_each_failed_attempt_is_recorded_once() -> None:
    thread = given(start(), fail_step(attempt=1), fail_step(attempt=2))

    assert decide(thread, fail_step(attempt=1)) == ()
    assert decide(thread, fail_step(attempt=2)) == ()
    assert decide(thread, fail_step(attempt=3, final=True)) == (StepFailed("r1", "llm:turn:1", {}, 3, True, BOOM, 2),)


@pytest.mark.parametrize("final", [False, True])
def test_a_step_that_failed_may_still_complete(final: bool) -> None:
    thread = given(start(), fail_step("tool:pay:c1", final=final))

    events = decide(thread, complete("tool:pay:c1"))

    assert [type(event) for event in events] == [StepCompleted]


@pytest.mark.parametrize(
    ("command", "event", "status"),
    [
        (
            finish(usage={"requests": 2}),
            RunFinished("r1", "final", raw("bye"), raw({"requests": 2}), raw(None), 9),
            "done",
        ),
        (fail(), RunFailed("r1", BOOM, 9), "failed"),
        (cancel(), RunCancelled("r1", None, "enough", 9), "cancelled"),
        (halt(), RunHalted("r1", "llm:turn:1", 3, "result", "one", "two", 9), "halted"),
    ],
)
def test_a_run_ends_as_it_is_told(command: ThreadCommand, event: object, status: str) -> None:
    thread = given(start())

    events = decide(thread, command)

    assert events == (event,)
    assert evolved(thread, events).runs["r1"].status.value == status


LATE = [complete(), complete(state={"n": 1}), fail_step(), finish(), fail(), halt()]


@pytest.mark.parametrize("end", [*ENDS, halt()])
@pytest.mark.parametrize("late", LATE)
def test_what_arrives_after_the_end_is_refused(end: ThreadCommand, late: ThreadCommand) -> None:
    thread = given(start(), end)

    with pytest.raises(RunEnded, match="came too late and was not recorded") as ended:
        decide(thread, late)

    assert (ended.value.run, ended.value.status) == ("r1", thread.runs["r1"].status.value)


@pytest.mark.parametrize("end", ENDS)
def test_cancelling_what_has_ended_changes_nothing(end: ThreadCommand) -> None:
    assert decide(given(start(), end), cancel()) == ()


def test_a_halted_run_goes_on_when_it_is_resumed() -> None:
    thread = given(start(), complete(), halt())

    resumed = evolved(thread, decide(thread, resume()))

    assert decide(thread, resume()) == (RunResumed("r1", 10),)
    assert [type(event) for event in decide(resumed, complete("llm:turn:2"))] == [StepCompleted]
    assert decide(resumed, complete()) == ()


def test_a_halted_run_can_be_cancelled() -> None:
    assert given(start(), halt(), cancel()).runs["r1"].status is RunStatus.CANCELLED


def test_resuming_a_run_that_runs_changes_nothing_and_one_that_ended_is_refused() -> None:
    assert decide(given(start()), resume()) == ()
    for end in ENDS:
        with pytest.raises(RunEnded, match="resuming it came too late"):
            decide(given(start(), end), resume())


@pytest.mark.parametrize("command", [cancel("r9"), resume("r9"), complete(run="r9"), fail_step(run="r9"), finish("r9")])
def test_a_run_that_is_not_there_is_refused_by_name(command: ThreadCommand) -> None:
    with pytest.raises(UnknownRun, match="there is no run 'r9'"):
        decide(given(start()), command)


def test_the_open_work_of_a_thread_is_to_drive_its_running_run() -> None:
    drive = (Effect("run:r1", DriveRun("r1", "agent")),)

    assert effects(given()) == ()
    assert effects(given(start())) == effects(given(start(), complete())) == drive
    assert effects(given(start(), halt())) == ()
    assert effects(given(start(), halt(), resume())) == drive
    assert [effects(given(start(), end)) for end in ENDS] == [(), (), ()]
