"""Killed anywhere in a script: what is recorded of it never runs again, and what was cut off runs with the same key."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pydantic_ai import Tool

from clew.actors.agent import code_tool, define_agent, replay, tool_options, tool_step
from clew.actors.testing import World, crash_points, final_turn, following_model
from clew.journal import MemoryJournal, RecordedEvent
from clew.journal.facts import ApprovalRequested, RunSuspended, StepCompleted, StepFailed
from tests.actors.payments import waiting
from tests.actors.robot import journal_with
from tests.actors.scripts import Shop, T, ref, script, step, told
from tests.actors.support import WAIT_S, until
from tests.actors.ticking import facts

STEPS = (
    step("u", "find", name="bob"),
    step("p", "pay", cents=ref("u", "orders.1.cents"), to=ref("u", "name")),
    step("n", "note", text=ref("p", "paid")),
    step("m", "note", text="more"),
)

PREFIX = "tool:run_script:c1/"


@pytest.mark.crash
@pytest.mark.requirement("L-CODE-1", "L-CODE-5")
def test_a_crash_anywhere_makes_each_call_once_asks_once_and_ends_in_the_same_answer() -> None:
    async def life(world: World) -> Any:
        def find(name: str) -> dict[str, Any]:
            world.effect(tool_step().idempotency_key)
            return {"name": name, "cents": 70}

        async def pay(cents: int, to: str) -> dict[str, Any]:
            world.effect(tool_step().idempotency_key)
            return {"paid": cents, "to": to}

        async def note(text: Any) -> int:
            world.effect(tool_step().idempotency_key)
            tool_step().update_state(lambda state: [*(state or []), text])
            return len(str(text))

        steps = (
            step("u", "find", name="bob"),
            step("p", "pay", cents=ref("u", "cents"), to=ref("u", "name")),
            step("n", "note", text=ref("p")),
            step("m", "note", text=ref("n")),
        )
        gated = Tool(pay, metadata=tool_options(needs_approval=True))
        agent = define_agent(
            "shop",
            model=following_model([script(*steps), final_turn("ok")]),
            tools=[code_tool([Tool(find, sequential=True), gated, note])],
        )
        async with world.open(agents=[agent]) as system:
            thread = system.thread(agent, "t", owner="ann")
            run = thread.run("go", run_id="r")
            await world.until(lambda: facts(world.journal, T, ApprovalRequested))
            await thread.approve(f"r/{PREFIX}approval:p", arguments={"cents": 7, "to": "eve"})
            await run
            return [thread.state(), told(thread), len(facts(world.journal, T, ApprovalRequested))]

    found = crash_points(life)

    assert len(found.points) > 40
    # After each of the four calls, before it is recorded, a crash makes it again: with the same key.
    assert found.redelivered >= 4


def lived(shop: Shop) -> list[RecordedEvent]:
    """A whole life of a script, with an approval, without a crash."""
    journal = MemoryJournal()
    with shop.open(journal) as system:
        thread = shop.thread(system)
        thread.run("go", run_id="r").started(timeout_s=WAIT_S)
        [asked] = waiting(thread)
        thread.approve(asked.id).get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)
    return list(journal.read_all())


@pytest.mark.crash
def test_what_is_recorded_never_runs_again_wherever_the_history_ends() -> None:
    gated = {"needs_approval": True}
    full = lived(Shop(*STEPS, pay=gated))
    cuts = [n for n in range(2, len(full) + 1) if n == len(full) or full[n].cause != full[n - 1].cause]
    for cut in cuts:
        shop, journal = Shop(*STEPS, pay=gated), journal_with(full[:cut])
        recorded = {fact.step for fact in facts(journal, T, StepCompleted)}
        with shop.open(journal) as system:
            thread = shop.thread(system)
            thread.run("go", run_id="r").started(timeout_s=WAIT_S)
            until(lambda at=journal: facts(at, T, ApprovalRequested))
            thread.approve(f"r/{PREFIX}approval:p").get(timeout=WAIT_S)
            thread.attach("r").result(timeout_s=WAIT_S)
            assert replay(thread, shop.agent).digests_equal
            assert told(thread)["final"] == "more"
            assert thread.state() == {"notes": [70, "more"]}
            steps = Counter(fact.step for fact in facts(journal, T, StepCompleted))
        done = {f"{PREFIX}tool:{call}" for call in ("find:u", "pay:p", "note:n", "note:m")}
        assert {key.removeprefix("thread/t/r/") for key, _ in shop.done} == done - recorded
        assert len(shop.done) == len(done - recorded)
        assert set(steps.values()) == {1}
    assert len(cuts) > 10


@pytest.mark.crash
def test_after_a_failure_was_recorded_the_script_stops_there_also_in_another_process() -> None:
    steps = (step("u", "find", name="bob"), step("f", "fail", how="never"), step("n", "note", text=1))
    shop, journal = Shop(*steps), MemoryJournal()
    with shop.open(journal) as system:
        shop.thread(system).run("go", run_id="r").result(timeout_s=WAIT_S)
    full = list(journal.read_all())
    end = next(n for n, event in enumerate(full) if b'"final":true' in event.canonical)
    again, cut = Shop(*steps), journal_with(full[: end + 1])
    with again.open(cut) as system:
        thread = again.thread(system)
        thread.attach("r").result(timeout_s=WAIT_S)
        answer, failed = told(thread), facts(cut, T, StepFailed)
        assert replay(thread, again.agent).digests_equal

    # The last word of a process that died is not taken for granted: the call is tried once more, and nothing else is.
    assert again.calls == [["fail", "never"]]
    assert (answer["status"], answer["not_run"]) == ("stopped", ["n"])
    assert [fact.attempt for fact in failed] == [1, 2, 3]


@pytest.mark.crash
@pytest.mark.parametrize("outcome", ["result", "retry", "error"])
def test_a_call_that_may_run_once_is_in_doubt_after_a_crash_until_somebody_settles_it(outcome: str) -> None:
    once = {"at_most_once": True}
    shop, journal = Shop(*STEPS, pay=once), MemoryJournal()
    with shop.open(journal) as system:
        shop.thread(system).run("go", run_id="r").result(timeout_s=WAIT_S)
    full = list(journal.read_all())
    claimed = next(n for n, event in enumerate(full) if event.type.name == "step.started")
    again, cut = Shop(*STEPS, pay=once), journal_with(full[: claimed + 1])
    with again.open(cut) as system:
        thread = again.thread(system)
        until(lambda: thread.view().known_run("r").in_doubt)
        [doubted] = thread.view().known_run("r").in_doubt
        before = again.calls
        said: dict[str, Any] = {
            "result": {"result": {"paid": 70, "by": "hand"}},
            "retry": {"retry": True},
            "error": {"error": "the bank said no"},
        }[outcome]
        thread.settle("r", doubted, **said).get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)
        answer = told(thread)
        assert replay(thread, again.agent).digests_equal

    assert doubted == f"{PREFIX}tool:pay:p"
    assert before == []
    assert [name for name, _ in again.calls] == {
        "result": ["note", "note"],
        "retry": ["pay", "note", "note"],
        "error": [],
    }[outcome]
    if outcome == "error":
        assert answer["steps"][1]["error"] == {"code": "failed", "message": "StepFailed: the bank said no"}
    else:
        assert answer["final"] == "more"


def test_a_call_that_is_tried_again_later_waits_with_nothing_of_the_run_in_memory() -> None:
    shop = Shop(step("u", "find", name="bob"), step("f", "later", n=1), step("n", "note", text=ref("f")))
    with shop.open(idle_s=0.01) as system:
        thread = shop.thread(system)
        thread.run("go", run_id="r").started(timeout_s=WAIT_S)
        until(lambda: facts(system.journal, T, RunSuspended))
        before = shop.calls
        shop.clock.advance(61)
        thread.attach("r").result(timeout_s=WAIT_S)
        assert replay(thread, shop.agent).digests_equal

    assert before == [["find", "bob"], ["later", 1]]
    assert shop.calls[2:] == [["later", 1], ["note", "at last"]]


def test_a_pause_takes_effect_before_the_next_call() -> None:
    shop = Shop(*STEPS)
    with shop.open() as system:
        thread = shop.thread(system)
        shop.before = lambda name: thread.pause("r").get(timeout=WAIT_S) if name == "find" else None
        thread.run("go", run_id="r").started(timeout_s=WAIT_S)
        until(lambda: thread.status("r") == "paused")
        before = shop.calls
        thread.resume("r").get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)

    assert before == [["find", "bob"]]
    assert [name for name, _ in shop.calls] == ["find", "pay", "note", "note"]


def test_a_cancelled_run_makes_no_further_call() -> None:
    shop = Shop(*STEPS, pay={"needs_approval": True})
    with shop.open() as system:
        thread = shop.thread(system)
        thread.run("go", run_id="r").started(timeout_s=WAIT_S)
        waiting(thread)
        thread.cancel("r").get(timeout=WAIT_S)
        until(lambda: thread.status("r") == "cancelled")
        left = thread.approvals()

    assert (shop.calls, left) == ([["find", "bob"]], [])
