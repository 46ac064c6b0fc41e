"""After a crash at any point, a run goes on and ends as it would have, without repeating what was recorded."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from pydantic_ai import Agent, ModelResponse, TextPart, Tool
from pydantic_ai.messages import ToolReturnPart

from clew.actors import ActorSystem, Failure, RunCancelled, RunConflict, RunFailed, RunHalted
from clew.actors.agent import AgentDefinition, replay, tool_options
from clew.actors.testing import agent_harness, final_turn, invalid_for_provider, tool_call_turn, tool_calls_turn
from clew.journal import JournalFull, MemoryJournal, RecordedEvent
from clew.journal.facts import StepCompleted, StepFailed
from clew.projections import Follow, conversation
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


class Changed(Robot):
    """The same agent after a deploy that changed what it says."""

    def __init__(self, change: Callable[[Agent[None, str]], None]) -> None:
        super().__init__()
        change(self.agent)


def _other_instructions(agent: Agent[None, str]) -> None:
    agent.instructions(lambda: "Multiply.")


def _another_tool(agent: Agent[None, str]) -> None:
    agent.tool_plain(lambda: "x", name="new_tool")  # pyright: ignore[reportCallIssue, reportArgumentType]


@pytest.mark.crash
@pytest.mark.scenario("RPL-04", "RPL-06")
@pytest.mark.parametrize(
    ("change", "field"), [(_other_instructions, "request.messages"), (_another_tool, "request.tools")]
)
def test_a_run_whose_code_changed_is_halted_once_and_nothing_is_lost(
    change: Callable[[Agent[None, str]], None], field: str
) -> None:
    journal, changed = journal_with(FULL[:5]), Changed(change)

    with ActorSystem(journal, agents=[changed.agent]) as system:
        thread = system.thread(changed.agent, "t", owner="ann")
        with pytest.raises(RunHalted, match=field):
            thread.attach("one").result(timeout_s=10)
        halted = thread.status("one")
        with pytest.raises(RunConflict, match="halted"):
            thread.run("two").result(timeout_s=10)

    assert halted == "halted"
    assert changed.calls == {}
    assert [e.type.name for e in journal.read("thread/t", after=5)] == ["run.halted"]


@pytest.mark.crash
def test_a_halted_run_goes_on_with_the_code_that_recorded_it() -> None:
    journal, changed, same = journal_with(FULL[:5]), Changed(_another_tool), Robot()
    with ActorSystem(journal, agents=[changed.agent]) as system, pytest.raises(RunHalted):
        system.thread(changed.agent, "t", owner="ann").attach("one").result(timeout_s=10)

    with ActorSystem(journal, agents=[same.agent]) as system:
        thread = system.thread(same.agent, "t", owner="ann")
        thread.resume("one").get(timeout=10)
        answer = thread.attach("one").result(timeout_s=10)
        replayed = replay(thread, same.agent)

    assert answer.output == "the sums are [2, 4, 6]"
    assert replayed.digests_equal


@pytest.mark.crash
def test_a_run_of_an_agent_that_is_not_there_waits_for_it() -> None:
    journal, other, robot = journal_with(FULL[:5]), Agent("test", name="other"), Robot()

    with ActorSystem(journal, agents=[other]) as system:
        system.thread(other, "elsewhere").run("hi").result(timeout_s=10)
        reported = [failure for failure in system.failures if failure.stream == "thread/t"]
    with ActorSystem(journal, agents=[robot.agent]) as system:
        answer = system.thread(robot.agent, "t", owner="ann").attach("one").result(timeout_s=10)

    assert "robot" in str(reported[0].error)
    assert answer.output == "the sums are [2, 4, 6]"


@pytest.mark.requirement("L-RUN-3", "L-RUN-4", "L-RUN-11")
def test_a_cancelled_run_leaves_a_conversation_a_provider_accepts() -> None:
    agent = Agent("test", name="waiter")
    entered: list[str] = []

    @agent.tool_plain
    async def wait_for_ever() -> str:
        entered.append("waiting")
        await asyncio.Event().wait()
        return "never"

    @agent.tool_plain
    async def quick() -> str:
        return "quick"

    script = [tool_calls_turn(("q", "quick", {}), ("w", "wait_for_ever", {})), final_turn("fine")]
    with agent_harness(agent, script) as harness:
        thread = harness.conversation()
        run = thread.run("Wait.", run_id="r1")
        run.started(timeout_s=10)
        _until_step(harness.journal, "tool:quick:q")
        running = thread.status("r1")
        thread.cancel("r1", reason="enough").get(timeout=10)
        with pytest.raises(RunCancelled, match="enough"):
            run.result(timeout_s=10)
        harness.run("Are you there?")
        statuses = [one.status for one in harness.thread().runs]

    assert (running, statuses) == ("running", ["cancelled", "done"])
    sent = harness.script.requests[-1]
    assert invalid_for_provider(sent) == []
    results = [part for part in sent[2].parts if isinstance(part, ToolReturnPart)]
    assert [(part.content if part.outcome == "success" else part.outcome) for part in results] == [
        "quick",
        "interrupted",
    ]


def _until_step(journal: Any, step: str) -> None:
    with Follow(journal, "thread/test") as events:
        for event in events:
            fact = conversation.catalog.decode(event)
            if isinstance(fact, StepCompleted) and fact.step == step:
                return


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


@pytest.mark.scenario("MSG-07", "MSG-13")
def test_calls_with_the_same_or_no_id_each_run_once_and_get_their_own_result() -> None:
    agent = Agent("test", name="reader")
    read: list[str] = []

    @agent.tool_plain
    def fetch(name: str) -> str:
        read.append(name)
        return name.upper()

    calls = tool_calls_turn(*[(i, "fetch", {"name": n}) for n, i in (("a", "x"), ("b", "x"), ("c", ""), ("d", "x/y"))])
    script = [calls, tool_call_turn("x", "fetch", {"name": "e"}), final_turn("done"), final_turn("more")]
    with agent_harness(agent, script) as harness:
        harness.run("Read.")
        replayed = replay(harness.conversation(), harness.definition)
        harness.run("More.")

    sent = harness.script.requests[-1]
    contents = [p.content for m in sent for p in m.parts if isinstance(p, ToolReturnPart)]
    assert sorted(read) == ["a", "b", "c", "d", "e"]
    assert contents == ["A", "B", "C", "D", "E"]
    assert invalid_for_provider(sent) == []
    assert replayed.digests_equal


@pytest.mark.scenario("MSG-09")
@pytest.mark.parametrize("parts", [[], [TextPart("")], [TextPart("  \n")]], ids=["nothing", "empty", "blank"])
def test_an_empty_turn_does_not_kill_the_thread(parts: list[Any]) -> None:
    agent = Agent("test", name="silent")
    script = [ModelResponse(list(parts)), final_turn("something"), final_turn("and more")]

    with agent_harness(agent, script) as harness:
        first = harness.conversation().run("Say something.")
        try:
            first.result(timeout_s=10)
        except Exception:  # noqa: BLE001  (whether the run may end so is not the question)
            harness.script.requests.append([])
        harness.run("And now?")

    assert invalid_for_provider(harness.script.requests[-1]) == []
    assert harness.thread().status == "done"


@pytest.mark.scenario("MSG-11")
def test_a_call_with_unparsable_arguments_is_not_executed_and_sent_as_json_later() -> None:
    agent = Agent("test", name="cut")
    calls: list[str] = []

    @agent.tool_plain
    def write(path: str = "", content: str = "") -> str:
        calls.append(path)
        return "written"

    script = [tool_call_turn("c1", "write", '{"path": "/a", "content": "abc'), final_turn("ok"), final_turn("on")]
    with agent_harness(agent, script) as harness:
        harness.run("Write.")
        replayed = replay(harness.conversation(), harness.definition)
        harness.restart()
        harness.run("Go on.")

    assert calls == []
    assert all(invalid_for_provider(request) == [] for request in harness.script.requests)
    assert replayed.digests_equal


@pytest.mark.scenario("MSG-12", "SEC-10")
def test_unknown_tools_are_answered_and_old_ones_stay_readable() -> None:
    agent = Agent("test", name="renamed")
    agent.tool_plain(lambda: "x", name="known")  # pyright: ignore[reportCallIssue, reportArgumentType]
    nopes = tool_calls_turn(*[(f"n{i}", "nope", None) for i in range(5)])

    with agent_harness(agent, [nopes, final_turn("ok"), final_turn("on")]) as harness:
        harness.run("Go.")
        harness.run("On.")

    sent = harness.script.requests[-1]
    results = [p for m in sent for p in m.parts if isinstance(p, ToolReturnPart)]
    assert len(results) == 5
    assert all("nope" in str(p.content) and "known" in str(p.content) for p in results)
    assert invalid_for_provider(sent) == []


def test_a_definition_may_be_replaced_between_runs() -> None:
    robot = Robot()
    journal = journal_with(FULL)
    other = AgentDefinition(agent=Agent("test", name="robot", instructions="Be brief."))

    with ActorSystem(journal, agents=[other]) as system:
        answer = system.thread(other, "t", owner="ann").run("three").result(timeout_s=10)

    assert answer.output
    assert robot.calls == {}


@pytest.mark.scenario("CON-06")
@pytest.mark.parametrize("sequential", [True, False])
def test_a_tool_that_swallows_its_cancellation_does_not_keep_the_run_alive(*, sequential: bool) -> None:
    agent = Agent("test", name="stubborn")
    entered, left = threading.Event(), threading.Event()

    @agent.tool_plain(sequential=sequential)
    async def stubborn() -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            left.set()
        return "swallowed"

    with agent_harness(
        agent, [tool_call_turn("c1", "stubborn", {}), final_turn("on"), final_turn("too far")]
    ) as harness:
        thread = harness.conversation()
        run = thread.run("Go", run_id="r1")
        entered.wait(10)
        thread.cancel("r1").get(timeout=10)
        with pytest.raises(RunCancelled):
            run.result(timeout_s=10)
        left.wait(10)
        after = harness.run("Are you there?")

    # Only the second run asked again: had the first one gone on, it would have taken the turn "on".
    assert harness.script.calls == 2
    assert after.output == "on"
    assert invalid_for_provider(harness.script.requests[-1]) == []


@pytest.mark.scenario("CON-04")
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize(
    "error", [asyncio.CancelledError, TimeoutError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError]
)
def test_whatever_a_tool_raises_leaves_an_outcome_and_a_usable_thread(
    error: type[BaseException], *, is_async: bool
) -> None:
    async def hostile_async() -> str:
        raise error("as it likes")

    def hostile_sync() -> str:
        raise error("as it likes")

    tool = hostile_async if is_async else hostile_sync
    agent = Agent("test", name="hostile", tools=[Tool(tool, name="hostile", metadata=tool_options(attempts=1))])
    with agent_harness(agent, [tool_call_turn("c1", "hostile", {}), final_turn("fine")]) as harness:
        with pytest.raises(RunFailed, match=error.__name__):
            harness.run("Go")
        harness.restart()
        after = harness.run("Are you there?")

    assert after.output == "fine"
    assert invalid_for_provider(harness.script.requests[-1]) == []
