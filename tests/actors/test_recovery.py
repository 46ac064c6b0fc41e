"""After a crash at any point, a run goes on and ends as it would have, without repeating what was recorded."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import pairwise

import pytest

from clew.actors import ActorSystem, Failure, RunFailed
from clew.actors.agent import replay
from clew.journal import JournalFull, MemoryJournal, RecordedEvent
from clew.journal.facts import StepCompleted, StepFailed
from clew.projections import conversation
from tests.actors.robot import Robot, history_of, journal_with
from tests.actors.support import until


def steps_in(events: list[RecordedEvent]) -> Counter[str]:
    decoded = [conversation.catalog.decode(event) for event in events]
    return Counter(f"{e.run}/{e.step}" for e in decoded if isinstance(e, StepCompleted))


FULL = history_of(Robot(), "one", "two")


@pytest.mark.crash
@pytest.mark.requirement("L-REPLAY-2", "L-CONC-5", "L-REPLAY-5")
@pytest.mark.scenario("MSG-01", "RPL-12")
@pytest.mark.parametrize("cut", range(2, len(FULL)))
def test_a_crash_after_any_append_repeats_no_recorded_step(cut: int) -> None:
    robot = Robot()
    journal = journal_with(FULL[:cut])
    recorded = steps_in(FULL[:cut])
    interrupted = [run for run in ("one", "two") if _open(FULL[:cut], run)]

    with ActorSystem(journal, agents=[robot.agent]) as system:
        thread = system.thread(robot.agent, "t", owner="ann")
        for run in interrupted:
            thread.attach(run).result(timeout_s=10)
        answer = thread.run("three", run_id="three").result(timeout_s=10)
        events = list(journal.read("thread/t"))
        replayed = replay(thread, robot.agent)

    assert answer.output == "the sums are [2, 4, 6]"
    assert max(steps_in(events).values()) == 1
    assert [e.canonical for e in events[:cut]] == [e.canonical for e in FULL[:cut]]
    assert sum(robot.calls.values()) == sum((steps_in(events) - recorded).values())
    assert replayed.digests_equal
    assert all(b.sequence == a.sequence + 1 for a, b in pairwise(events))


def _open(events: list[RecordedEvent], run: str) -> bool:
    names = [(e.type.name, getattr(conversation.catalog.decode(e), "run", "")) for e in events]
    return ("run.started", run) in names and ("run.finished", run) not in names


@pytest.mark.crash
@pytest.mark.scenario("RPL-04")
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_any_order_of_completion_replays_and_resumes(order: str) -> None:
    swapped = list(FULL[:5])
    first = [conversation.catalog.decode(event) for event in FULL[3:5]]
    journal = journal_with(FULL[:3])
    facts = first if order == "ab" else first[::-1]
    journal.append("thread/t", [conversation.catalog.encode(fact)[0] for fact in facts], expected=3)
    robot = Robot()

    with ActorSystem(journal, agents=[robot.agent]) as system:
        thread = system.thread(robot.agent, "t", owner="ann")
        answer = thread.attach("one").result(timeout_s=10)
        replayed = replay(thread, robot.agent)

    assert len(swapped) == 5
    assert answer.output == "the sums are [2, 4, 6]"
    assert robot.calls == {"turn 2 of 0": 1, "add 3": 1, "turn 3 of 0": 1}
    assert replayed.digests_equal


@pytest.mark.crash
@pytest.mark.scenario("RPL-09")
def test_attempts_are_counted_over_a_crash_between_them() -> None:
    robot = Robot()
    robot.failing = {"add 1"}
    events = history_of(robot, "one")
    failed = next(i for i, e in enumerate(events) if isinstance(conversation.catalog.decode(e), StepFailed))

    again = Robot()
    again.failing = {"add 1"}
    with ActorSystem(journal_with(events[: failed + 1]), agents=[again.agent]) as system:
        run = system.thread(again.agent, "t", owner="ann").attach("one")
        with pytest.raises(Exception, match="OSError"):
            run.result(timeout_s=10)

    assert again.calls["add 1"] == 1, "one attempt of two was left"


@pytest.mark.crash
def test_a_failure_that_was_recorded_last_is_tried_again() -> None:
    robot = Robot()
    robot.failing = {"add 3"}
    events = history_of(robot, "one")
    failed = next(i for i, e in enumerate(events) if isinstance(conversation.catalog.decode(e), StepFailed))

    fine = Robot()
    with ActorSystem(journal_with(events[: failed + 1]), agents=[fine.agent]) as system:
        answer = system.thread(fine.agent, "t", owner="ann").attach("one").result(timeout_s=10)

    assert answer.output == "the sums are [2, 4, 6]"


@pytest.mark.crash
def test_a_failure_recorded_last_that_repeats_itself_is_recorded_again() -> None:
    robot = Robot()
    robot.broken = {"add 1"}
    events = history_of(robot, "one")
    final = max(i for i, e in enumerate(events) if isinstance(conversation.catalog.decode(e), StepFailed))

    again = Robot()
    again.broken = {"add 1"}
    with ActorSystem(journal_with(events[: final + 1]), agents=[again.agent]) as system:
        thread = system.thread(again.agent, "t", owner="ann")
        with pytest.raises(RunFailed, match="OSError"):
            thread.attach("one").result(timeout_s=10)
        facts = [conversation.catalog.decode(event) for event in thread.events()]
        replayed = replay(thread, again.agent)

    assert again.calls["add 1"] == 1
    assert [fact.attempt for fact in facts if isinstance(fact, StepFailed)] == [1, 2, 3]
    assert replayed.digests_equal


def test_a_run_goes_on_by_itself_when_there_is_room_again() -> None:
    robot, journal = Robot(), MemoryJournal(hold=True)
    with ActorSystem(journal, agents=[robot.agent]) as system:
        run = system.thread(robot.agent, "t", owner="ann").run("one")
        disk = threading.Thread(target=_a_disk_that_is_full_twice, args=(journal, system))
        disk.start()
        answer = run.result(timeout_s=20)
        events = list(journal.read("thread/t"))
        replayed = replay(events, robot.agent)
        system.failures.append(DONE)
        disk.join()

    assert answer.output == "the sums are [2, 4, 6]"
    assert max(steps_in(events).values()) == 1
    assert replayed.digests_equal


DONE = Failure("", "done", RuntimeError())


def _a_disk_that_is_full_twice(journal: MemoryJournal, system: ActorSystem) -> None:
    full = JournalFull(path="memory", reason="no space left on device")
    until(lambda: (journal.flush(), journal.head("thread/t").sequence)[1])
    for times in (1, 2):
        until(lambda times=times: (journal.fail(full), len(system.failures) >= times)[1])
        journal.flush()
    until(lambda: (journal.flush(), DONE in system.failures)[1])


@pytest.mark.scenario("CON-13")
def test_runs_started_while_the_system_opens_run_once() -> None:
    robot = Robot()
    with ActorSystem("memory:", agents=[robot.agent]) as system:
        runs = [system.thread(robot.agent, f"t{n}").run("go", run_id="r") for n in range(20)]
        system.recover()
        answers = [run.result(timeout_s=30).output for run in runs]

    assert set(answers) == {"the sums are [2, 4, 6]"}
    assert robot.calls["add 3"] == 20


@pytest.mark.requirement("L-RUN-1")
def test_a_run_asked_for_twice_is_one_run() -> None:
    robot = Robot()
    with ActorSystem("memory:", agents=[robot.agent]) as system:
        thread = system.thread(robot.agent, "t")
        runs = [thread.run("go", run_id="mail-77") for _ in range(5)]
        answers = {run.result(timeout_s=10).output for run in runs}

    assert len(answers) == 1
    assert robot.calls["turn 1 of 0"] == 1
