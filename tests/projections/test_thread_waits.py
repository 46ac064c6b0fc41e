"""A conversation at a glance, while its runs wait: for their turn, for people, for time, for other threads."""

from __future__ import annotations

import msgspec
import pytest

from clew.actors.outbox import Acknowledge
from clew.actors.thread import AlarmFired, CancelRun, NoteNotified, RecoverRun, ThreadCommand
from clew.actors.thread.state import RunStatus
from clew.projections import RunView, ThreadView, WaitView, project, thread_view, view_of
from tests.actors.story import Story, cancel, fail, finish, given, halt, resume, start
from tests.projections.asking import (
    ASKED,
    DELEGATED,
    DOUBTED,
    EVERYTHING,
    EXPIRES,
    PAUSED,
    RETRIED,
    SIGNALLED,
    ask,
    await_signal,
    begin_run,
    called,
    cancel_all,
    decide,
    end_child,
    queue,
    seen,
    settle,
    signal,
    start_child,
    wait_for,
)
from tests.projections.conversations import tool


def run_of(view: ThreadView, name: str = "r1") -> RunView:
    run = view.run(name)
    assert run is not None
    return run


def statuses(view: ThreadView) -> dict[str, str]:
    return {run.run: run.status for run in view.runs}


@pytest.mark.requirement("L-RUN-11")
@pytest.mark.parametrize(
    ("waits", "status", "waiting"),
    [
        (ASKED, "awaiting_input", ["approval:a"]),
        (DOUBTED, "awaiting_input", ["tool:add:a"]),
        (SIGNALLED, "awaiting_input", ["signal:s"]),
        (DELEGATED, "waiting", ["tool:ask:k"]),
        (RETRIED, "waiting", ["tool:add:a"]),
        (PAUSED, "paused", ["pause"]),
        ([ask(), start_child(), wait_for("tool:ask:k", "approval:a")], "awaiting_input", ["tool:ask:k", "approval:a"]),
    ],
)
def test_a_suspended_run_says_what_kind_of_thing_it_waits_for(
    waits: list[ThreadCommand], status: str, waiting: list[str]
) -> None:
    view = seen(*waits)

    assert (view.status, run_of(view).status, run_of(view).waiting) == (status, status, waiting)


def test_a_run_that_asks_and_goes_on_beside_it_is_running() -> None:
    view = seen(ask(), await_signal(), start_child())

    assert (view.status, run_of(view).waiting) == ("running", [])
    assert run_of(view).waits == {
        "approval:a": WaitView("approval", "add", 3, EXPIRES),
        "signal:s": WaitView("signal", "paid", 3, 90),
        "tool:ask:k": WaitView("child", "thread/child", 3, 80),
    }


@pytest.mark.parametrize(
    ("waits", "settled"),
    [
        (ASKED, [decide()]),
        (ASKED, [decide(decision="rejected")]),
        (ASKED, [AlarmFired(EXPIRES)]),
        (DOUBTED, [settle("retry")]),
        (DOUBTED, [settle("result")]),
        (DOUBTED, [settle("fail")]),
        (SIGNALLED, [signal()]),
        (SIGNALLED, [AlarmFired(90)]),
        (DELEGATED, [end_child()]),
        (DELEGATED, [AlarmFired(80)]),
        (RETRIED, [AlarmFired(70), tool("a", 1)]),
        (PAUSED, [resume(owner="ann")]),
    ],
)
def test_a_run_that_got_what_it_waited_for_is_running_and_waits_for_nothing(
    waits: list[ThreadCommand], settled: list[ThreadCommand]
) -> None:
    view = seen(*waits, *settled)

    assert view.status == "running"
    assert (run_of(view).waiting, run_of(view).waits, run_of(view).pausing) == ([], {}, None)


def test_one_of_several_decisions_lets_the_run_go_on_and_the_others_stay_pending() -> None:
    story = Story(begin_run(), called("a", "b"), ask("a"), ask("b"), wait_for("approval:a", "approval:b"), decide("b"))

    between = view_of(story.events)
    again = view_of(story.tell(wait_for("approval:a")).events)

    assert (between.status, again.status, run_of(again).waiting) == ("running", "awaiting_input", ["approval:a"])
    assert [asked.id for asked in again.pending] == ["r1/approval:a"]


@pytest.mark.parametrize("end", [cancel(owner="ann"), fail(), finish()])
@pytest.mark.parametrize("waits", [ASKED, DOUBTED, SIGNALLED, DELEGATED, RETRIED, PAUSED])
def test_a_run_that_ended_waits_for_nothing(waits: list[ThreadCommand], end: ThreadCommand) -> None:
    # Only a run that is driven can end by itself.
    driven = waits if isinstance(end, CancelRun) else waits[:-1]

    view = seen(*driven, end)

    run = run_of(view)
    assert (run.ended_at, run.waiting, run.waits, run.pausing) == (9, [], {}, None)
    assert [asked.decision for asked in view.approvals] == (["cancelled"] if waits is ASKED else [])
    assert view.open_run is None


def test_a_run_never_seems_to_go_on_when_it_is_cancelled_while_it_waits() -> None:
    story = Story(begin_run(), called("a"), *ASKED, cancel(owner="ann"))

    assert [view_of(story.events[:cut]).status for cut in range(-3, 0)] == ["awaiting_input"] * 3
    assert view_of(story.events).status == "cancelled"


def test_queued_runs_stand_behind_the_open_one_in_their_order() -> None:
    view = seen(queue("r2", at=4), queue("r3", at=5))

    assert statuses(view) == {"r1": "running", "r2": "queued", "r3": "queued"}
    assert [(run.run, run.queued_at, run.queued_until, run.started_at) for run in view.queued] == [
        ("r2", 4, 504, None),
        ("r3", 5, 505, None),
    ]
    assert view.status == "running"
    assert view.open_run is run_of(view)


def test_a_queued_run_begins_when_the_thread_is_free_and_says_since_when_it_waited() -> None:
    view = seen(queue("r2"), queue("r3"), finish())

    assert statuses(view) == {"r1": "done", "r2": "running", "r3": "queued"}
    assert (run_of(view, "r2").queued_at, run_of(view, "r2").started_at) == (4, 9)
    assert view.open_run is run_of(view, "r2")


@pytest.mark.requirement("L-RUN-11")
@pytest.mark.parametrize("gone", [[cancel("r3", owner="ann")], [AlarmFired(505)]])
def test_a_run_that_was_never_begun_hides_no_other(gone: list[ThreadCommand]) -> None:
    story = Story(begin_run(), called("a"), queue("r2", queue_for=600), queue("r3", at=5), *ASKED)

    waiting = view_of(story.tell(*gone).events)
    later = view_of(story.tell(decide(), finish(), finish("r2")).events)

    assert (waiting.status, later.status) == ("awaiting_input", "done")
    assert statuses(later) == {"r1": "done", "r3": "cancelled", "r2": "done"}
    assert (run_of(later, "r3").started_at, run_of(later, "r3").queued_at) == (None, 5)


def test_a_run_that_replaces_another_stands_before_those_that_are_queued() -> None:
    replacing = msgspec.structs.replace(start("r3", owner="ann"), concurrent="replace")

    view = seen(queue("r2"), replacing)

    assert statuses(view) == {"r1": "cancelled", "r3": "running", "r2": "queued"}
    assert view.open_run is run_of(view, "r3")


def test_cancelling_a_thread_cancels_its_queue() -> None:
    view = seen(queue("r2"), cancel_all())

    assert statuses(view) == {"r1": "cancelled", "r2": "cancelled"}
    assert (view.status, view.queued, view.open_run) == ("cancelled", [], None)


def test_steps_in_doubt_are_named_until_somebody_settles_them() -> None:
    assert run_of(seen(*DOUBTED)).in_doubt == ["tool:add:a"]
    assert run_of(seen(*DOUBTED, settle("retry"))).in_doubt == []


def test_a_deadline_is_shown_and_its_passing_fails_the_run() -> None:
    story = Story(begin_run(timeout=2000), called("a"), *ASKED)
    before = view_of(story.events)

    after = view_of(story.tell(AlarmFired(2001)).events)

    assert run_of(before).deadline == 2001
    assert (after.status, after.approvals[0].decision) == ("failed", "expired")
    assert str(run_of(after).error).startswith("RunTimedOut: ")


def test_recoveries_are_counted_from_the_last_recorded_step_until_the_run_is_parked() -> None:
    recover = [RecoverRun("r1", 2, 5), RecoverRun("r1", 2, 6)]

    assert run_of(seen(*recover)).recoveries == 2
    assert run_of(seen(*recover, tool("a", 1))).recoveries == 0
    parked = run_of(seen(*recover, RecoverRun("r1", 2, 7)))
    assert (parked.status, parked.recoveries) == ("parked", 3)
    assert "ended 3 times" in str(parked.error)
    resumed = run_of(seen(*recover, RecoverRun("r1", 2, 7), resume(owner="ann")))
    assert (resumed.status, resumed.recoveries, resumed.error) == ("running", 0, None)


def test_a_run_says_why_it_was_asked_to_pause_before_it_stops() -> None:
    view = seen(PAUSED[0])

    assert (view.status, run_of(view).pausing) == ("running", "hold on")


def test_a_run_that_is_paused_while_it_waits_goes_on_when_it_got_everything_and_is_resumed() -> None:
    story = Story(begin_run(), called("a", "b"), ask("a"), ask("b"), wait_for("approval:a", "approval:b"), PAUSED[0])
    seen_so_far = [view_of(story.events).status]
    later = (decide("a"), decide("b"), resume(owner="ann"))
    seen_so_far += [view_of(story.tell(command).events).status for command in later]

    assert seen_so_far == ["awaiting_input", "awaiting_input", "paused", "running"]
    assert run_of(view_of(story.events)).pausing is None


def test_a_notice_about_an_ended_run_does_not_change_how_the_thread_is_doing() -> None:
    asked = msgspec.structs.replace(ask(), notify=True)

    view = seen(asked, cancel(owner="ann"), start("r2", owner="ann"), halt("r2"), NoteNotified("r1", "approval:a", 12))

    assert (view.status, statuses(view)) == ("halted", {"r1": "cancelled", "r2": "halted"})


def test_what_other_threads_say_shows_nowhere_but_in_the_sequence() -> None:
    story = Story(begin_run(), called("a"), start_child())
    before = view_of(story.events)
    sent = story.events[-1]
    id_ = msgspec.json.decode(bytes(sent.data))["id"]

    after = view_of(story.tell(Acknowledge(id_, None, 9)).events)

    assert after == msgspec.structs.replace(before, sequence=before.sequence + 1)


def test_a_view_of_everything_can_be_kept_and_gone_on_with() -> None:
    events = Story(*EVERYTHING).events
    whole = view_of(events)

    for cut in range(len(events) + 1):
        kept = msgspec.json.decode(msgspec.json.encode(view_of(events[:cut])), type=ThreadView)
        assert project(thread_view, events[cut:], kept) == whole


def test_the_view_and_the_thread_itself_agree_after_every_command() -> None:
    for cut in range(1, len(EVERYTHING) + 1):
        thread, view = given(*EVERYTHING[:cut]), view_of(Story(*EVERYTHING[:cut]).events)
        open_run = view.open_run
        assert (open_run.run if open_run else None) == thread.open_run
        assert [run.run for run in view.queued] == [queued.run for queued in thread.queue]
        for name, known in thread.runs.items():
            run = run_of(view, name)
            suspended = known.status is RunStatus.SUSPENDED
            assert run.suspended if suspended else run.status == known.status.value
            unsettled = {wait.step for wait in known.waits.values() if not wait.settled}
            assert set(run.waits) == (set[str]() if known.status.ended else unsettled)
        pending = {key for key, asked in thread.approvals.items() if asked.decision is None}
        assert {asked.id for asked in view.pending} == pending
