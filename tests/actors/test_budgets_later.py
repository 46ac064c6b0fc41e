"""Runs that were not asked for here: they waited, or a schedule or another agent asked. They fail once all is spent."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from clew.actors import ActorSystem, RunFailed
from clew.actors.agent import (
    Budget,
    StepFinished,
    Thread,
    agent_as_tool,
    replay,
    tool_step,
)
from clew.actors.schedule import every
from clew.actors.testing import VirtualClock
from clew.journal.facts import RunFailed as RunFailedFact
from tests.actors.paid import desk, paid_answer, paid_call, replays
from tests.actors.support import WAIT_S, until
from tests.actors.ticking import facts, settled

T = "thread/t"


@pytest.mark.parametrize("budget", [Budget(thread_tokens=200), Budget(owner_tokens=200)])
def test_a_run_that_waited_until_all_was_spent_fails_in_place_of_being_driven(budget: Budget) -> None:
    asked: list[str] = []

    def note(step: StepFinished) -> None:
        asked.append(f"{step.run} {step.step}")

    async def hold() -> str:
        return str(await tool_step().wait_for_signal("go"))

    turns = [paid_call("c1", "hold"), paid_answer("one"), paid_answer("two")]
    agent = desk(budget, turns, tools=[hold], on_concurrent_run="queue", on_step_finish=note)
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        first = thread.run("hold", run_id="r1")
        first.started(timeout_s=WAIT_S)
        second = thread.run("then", run_id="r2")
        second.started(timeout_s=WAIT_S)
        thread.signal("go").get(timeout=WAIT_S)
        assert first.result(timeout_s=WAIT_S).output == "one"

        with pytest.raises(RunFailed, match=r"BudgetExceeded: .* 200 tokens are spent"):
            second.result(timeout_s=WAIT_S)

        assert not [step for step in asked if step.startswith("r2")]
        view = thread.view()
        assert (view.status, view.usage.requests) == ("failed", 2)
        assert [run.ended for run in replay(thread, agent).runs] == ["done", "failed"]
        replays(thread, agent)


class Told:
    """A boss whose tool asks an agent for a run; `child` are its turns."""

    def __init__(self, child: list[Any], budget: Budget | None = None, boss: Budget | None = None) -> None:
        async def hold() -> str:
            return str(await tool_step().wait_for_signal("go"))

        def fail() -> str:
            raise OSError("never")

        self.child = desk(budget, child, name="clerk", tools=[hold, fail])
        self.boss = desk(
            boss,
            [paid_call("b1", "ask_clerk", {"prompt": "?"}), paid_answer("told")],
            name="boss",
            tools=[agent_as_tool(self.child, timeout_s=60)],
        )

    def open(self, journal: Any = "memory:", **options: Any) -> ActorSystem:
        return ActorSystem(journal, agents=[self.boss, self.child], **options)


@pytest.mark.requirement("L-LOOP-15")
@pytest.mark.parametrize("how", ["done", "failed", "cancelled"])
def test_what_another_agent_used_counts_in_the_run_that_asked_however_it_ended(how: str) -> None:
    name = {"done": "hold", "failed": "fail", "cancelled": "hold"}[how]
    told = Told([paid_call("x", name, tokens=70, usd="0.07"), paid_answer(tokens=30, usd="0.03")])
    with told.open() as system:
        thread = system.thread(told.boss, "t", owner="ann")
        run = thread.run("go", run_id="r")
        if how != "failed":
            child = child_of(system, told, thread)
            if how == "done":
                child.signal("go").get(timeout=WAIT_S)
            else:
                child.cancel("run").get(timeout=WAIT_S)
        answer = run.result(timeout_s=WAIT_S)

        spent = Decimal("0.1") if how == "done" else Decimal("0.07")
        assert answer.usage.cost_usd == Decimal("0.02") + spent
        assert thread.view().usage == answer.usage
        assert answer.usage.requests == (4 if how == "done" else 3)
        replays(thread, told.boss, told.child)
        # And once in all.
        assert sum((row.usage.cost_usd or Decimal(0) for row in system.spending()), Decimal(0)) == answer.usage.cost_usd
        assert [(row.agent, row.usage.cost_usd) for row in system.spending(owner="ann")] == [
            ("boss", Decimal("0.02")),
            ("clerk", spent),
        ]


def child_of(system: ActorSystem, told: Told, thread: Thread[Any]) -> Thread[Any]:
    """The thread of the run that was asked for, once it waits."""

    def waiting() -> list[Thread[Any]]:
        streams = [head.stream for head in system.journal.streams("thread") if head.stream != thread.stream]
        found = [system.thread(told.child, stream.partition("/")[2], owner="ann") for stream in streams]
        return [one for one in found if (run := one.view().open_run) is not None and run.suspended]

    until(waiting)
    return waiting()[0]


def test_a_run_that_another_agent_asks_for_fails_where_the_owner_has_spent_all() -> None:
    told = Told([paid_answer()], Budget(owner_tokens=100))
    with told.open() as system:
        thread = system.thread(told.boss, "t", owner="ann")
        answer = thread.run("go").result(timeout_s=WAIT_S)

        said = [
            part.content for message in thread.messages() for part in message.parts if part.part_kind == "tool-return"
        ]
        assert answer.output == "told"
        assert "BudgetExceeded: ann: 100 tokens are spent" in str(said)
        assert answer.usage.requests == 2
        replays(thread, told.boss)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("scope", ["thread", "owner"])
def test_ticks_of_a_schedule_are_recorded_failures_once_all_is_spent(own: bool, scope: str) -> None:
    limits: dict[str, Any] = {f"{scope}_tokens": 200}
    clock, agent = VirtualClock(), desk(Budget(**limits))
    with ActorSystem("memory:", agents=[agent], clock=clock, idle_s=0.01) as system:
        if own:
            thread = system.thread(agent, "t", owner="ann")
            thread.schedules.set("tick", every(30), "poll").get(timeout=WAIT_S)
        else:
            system.schedules(agent).set("tick", every(30), "poll", thread="t", owner="ann").get(timeout=WAIT_S)
        for _ in range(4):
            clock.advance(30)
            settled(system)

        view = system.thread(agent, "t", owner="ann").view()
        assert [run.status for run in view.runs] == ["done", "done", "failed", "failed"]
        assert [fact.error.type for fact in facts(system.journal, T, RunFailedFact)] == ["BudgetExceeded"] * 2
        assert not system.failures
