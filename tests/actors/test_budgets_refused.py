"""Budgets of threads and owners: who has spent all gets no further run, and nothing of it is recorded."""

from __future__ import annotations

import pickle
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from clew.actors import Activation, ActorSystem, BudgetExceeded, RunFailed, UnknownThread
from clew.actors.agent import (
    Budget,
)
from clew.actors.testing import VirtualClock, crash_points
from clew.actors.testing.world import World
from clew.actors.thread import Limits, Spent, ThreadState
from clew.journal import Journal, MemoryJournal
from clew.journal.lmdb import LmdbJournal
from clew.journal.snapshot import SnapshotPolicy
from clew.projections import Usage
from tests.actors.paid import calls, desk, paid_answer, refused
from tests.actors.story import complete, decide, finish, given, start
from tests.actors.support import WAIT_S, until
from tests.actors.ticking import at

T = "thread/t"


@pytest.fixture(params=["memory", "lmdb"])
def journal(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    opened: Journal = MemoryJournal() if request.param == "memory" else LmdbJournal(tmp_path / "journal")
    yield opened
    opened.close()


def test_a_thread_that_has_used_all_is_refused_before_anything_is_recorded(journal: Journal) -> None:
    agent = desk(Budget(thread_tokens=200))
    for _ in range(2):
        with ActorSystem(journal, agents=[agent]) as system:
            thread = system.thread(agent, "t", owner="ann")
            first = [thread.run("go", run_id=f"r{n}").result(timeout_s=WAIT_S) for n in range(2)]
            before = journal.head(T)
            error = refused(thread)

            assert (error.scope, error.name, error.what) == ("thread", T, "tokens")
            assert (error.limit, error.spent, error.per) == (200, 200, "all")
            assert str(error).startswith(
                f"{T}: 200 tokens are spent, of the 200 tokens that this thread may use. Raise"
            )
            assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301  (it is ours)
            # What was asked for before is answered as ever.
            assert thread.run("go", run_id="r1").result(timeout_s=WAIT_S) == first[1]
            assert journal.head(T) == before
            with pytest.raises(UnknownThread):
                system.thread(agent, "t", owner="eve").run("?").result(timeout_s=WAIT_S)
            assert system.thread(agent, "other" + str(system.clock()), owner="ann").run("go").result(timeout_s=WAIT_S)


@pytest.mark.parametrize(("limits", "spent"), [(Limits(50), 60), (Limits(usd=Decimal("0.5")), Decimal("0.5"))])
def test_what_only_the_end_of_a_run_tells_is_spent_too(limits: Limits, spent: Any) -> None:
    turn = {"usage": {"input_tokens": 40}}
    told = {"requests": 1, "input_tokens": 60, "cost": "0.5"}
    state = given(start(), complete(result=turn), finish(usage=told))

    with pytest.raises(BudgetExceeded) as caught:
        decide(state, msgspec.structs.replace(start("r2"), limits=limits))

    assert (caught.value.spent, state.spent.total.tokens) == (spent, 60)
    # Its first step was counted before, and is not counted twice.
    assert state.spent.total.requests == 1


def test_each_run_counts_by_itself_and_once() -> None:
    turn, told = {"usage": {"input_tokens": 40}}, {"requests": 1, "input_tokens": 60}
    commands = [[start(run), complete(run=run, result=turn), finish(run, usage=told)] for run in ("r1", "r2", "r3")]

    state = given(*(command for run in commands for command in run))

    assert (state.spent.run.tokens, state.spent.total.tokens, state.spent.total.requests) == (60, 180, 3)


def test_a_budget_in_money_is_exact() -> None:
    turns = [paid_answer(usd="0.1")] * 3 + [paid_answer(usd="0.0000000000000000001")] * 3
    agent = desk(Budget(thread_usd="0.3000000000000000001"), turns)
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t")
        for _ in range(4):
            thread.run("go").result(timeout_s=WAIT_S)
        error = refused(thread)

    assert (error.what, error.spent) == ("usd", Decimal("0.3000000000000000001"))
    assert "0.3000000000000000001 USD are spent" in str(error)


@pytest.mark.parametrize("scope", ["thread", "owner"])
@pytest.mark.parametrize(("per", "begins"), [("day", ["01-02", "01-03"]), ("month", ["02-01", "03-01"])])
def test_a_new_day_or_month_has_a_new_budget(scope: str, per: Any, begins: list[str]) -> None:
    limits: dict[str, Any] = {f"{scope}_tokens": 100, "per": per}
    clock = VirtualClock()
    agent = desk(Budget(**limits))
    with ActorSystem("memory:", agents=[agent], clock=clock) as system:
        thread = system.thread(agent, "t", owner="ann")
        for begin in begins:
            thread.run("go").result(timeout_s=WAIT_S)
            clock.now = at(f"2026-{begin}") - 1
            error = refused(thread)
            clock.advance(1)
            assert (error.scope, error.per, error.spent) == (scope, per, 100)
            assert f"of the 100 tokens that this {scope} may use in a {per} (UTC). " in str(error)
            assert str(error).endswith(f"or try again in the next {per}.")


def test_a_clock_that_was_set_back_gives_no_second_budget() -> None:
    clock = VirtualClock()
    agent = desk(Budget(thread_tokens=100, per="day"))
    with ActorSystem("memory:", agents=[agent], clock=clock) as system:
        thread = system.thread(agent, "t")
        thread.run("go").result(timeout_s=WAIT_S)
        clock.advance(-60)

        assert refused(thread).spent == 100


def test_an_owner_who_has_used_all_in_other_threads_is_refused(journal: Journal) -> None:
    agent, other = desk(Budget(owner_usd="0.03")), desk(None, name="other")
    with ActorSystem(journal, agents=[agent, other]) as system:
        system.thread(other, "a", owner="ann").run("go").result(timeout_s=WAIT_S)
        system.thread(agent, "b", owner="ann").run("go").result(timeout_s=WAIT_S)
        last = system.thread(agent, "c", owner="ann").run("go", run_id="r").result(timeout_s=WAIT_S)

    with ActorSystem(journal, agents=[agent, other]) as system:
        before = [(head.stream, head.sequence) for head in journal.streams()]
        for key in ("b", "new"):
            error = refused(system.thread(agent, key, owner="ann"))
            assert (error.scope, error.name, error.what, error.spent) == ("owner", "ann", "usd", Decimal("0.03"))
        assert system.thread(agent, "c", owner="ann").run("go", run_id="r").result(timeout_s=WAIT_S) == last
        assert [(head.stream, head.sequence) for head in journal.streams()] == before
        # Somebody else, an agent without a budget, and somebody else's thread are as they were.
        assert system.thread(agent, "d", owner="eve").run("go").result(timeout_s=WAIT_S).output == "done"
        assert system.thread(other, "a", owner="ann").run("go").result(timeout_s=WAIT_S).output == "done"
        with pytest.raises(UnknownThread):
            system.thread(agent, "d", owner="ann").run("?").result(timeout_s=WAIT_S)


def test_runs_without_an_owner_count_for_nobody() -> None:
    agent = desk(Budget(owner_tokens=100))
    with ActorSystem("memory:", agents=[agent]) as system:
        for _ in range(3):
            assert system.thread(agent, "nobody's").run("go").result(timeout_s=WAIT_S).output == "done"
        system.thread(agent, "ann's", owner="ann").run("go").result(timeout_s=WAIT_S)

        assert refused(system.thread(agent, "ann's", owner="ann")).spent == 100
        # The thread that is nobody's stays open to whoever knows its key, and what it uses is nobody's.
        assert system.thread(agent, "nobody's", owner="ann").run("go").result(timeout_s=WAIT_S).output == "done"
        assert [(row.owner, row.usage.tokens) for row in system.spending()] == [("ann", 100), (None, 400)]
        assert system.spending(owner=None) == system.spending()[1:]


@pytest.mark.crash
def test_dying_anywhere_lets_no_spent_thread_or_owner_through() -> None:
    agent = desk(Budget(thread_tokens=200, owner_usd="0.03"))

    async def scenario(here: World) -> Any:
        async with here.open(agents=[agent]) as system:
            ends = list[str]()
            for key, run in (("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("b", "2"), ("c", "1")):
                try:
                    ends.append((await system.thread(agent, key, owner="ann").run("go", run_id=run)).output)
                except (BudgetExceeded, RunFailed) as error:
                    # A run that was asked for in time is looked at when it begins again after a crash.
                    ends.append(type(error).__name__)
            return ends, str(system.spending())

    assert len(crash_points(scenario).points) > 20


def test_a_snapshot_of_a_version_that_counted_nothing_is_not_used(tmp_path: Any) -> None:
    agent = desk(Budget(thread_tokens=6000))
    with LmdbJournal(tmp_path / "journal") as journal:
        with ActorSystem(journal, agents=[agent]) as system:
            kind = system.kind_of(T)
            thread = system.thread(agent, "t")
            for _ in range(30):
                thread.run("go").result(timeout_s=WAIT_S)
            activation: Any = old_activation(kind, journal)
        for _ in range(2):
            with ActorSystem(journal, agents=[agent]) as system:
                thread = system.thread(agent, "t")
                state: ThreadState = thread.signal("x").get(timeout=WAIT_S)
                assert state.spent.total == thread.view().usage
        assert activation.state.spent.total == Usage()


def old_activation(kind: Any, journal: Journal) -> Any:
    """Take a snapshot as a version does that counts nothing, and look that it is used there."""

    def evolve(state: Any, event: Any) -> Any:
        return msgspec.structs.replace(kind.decider.evolve(state, event), spent=Spent())

    old = replace(kind, decider=replace(kind.decider, evolve=evolve), version=2, snapshot=SnapshotPolicy(every=10))
    awake: Any = Activation(old, "t", journal)
    commit = awake.snapshot(1, last=True)
    assert commit is not None
    commit.wait()
    assert old.snapshots.find(journal, T) is not None
    assert kind.snapshots.find(journal, T) is None
    return Activation(old, "t", journal)


def test_the_thread_counts_what_its_view_shows_over_snapshots(tmp_path: Any) -> None:
    agent = desk(Budget(thread_tokens=100_000), calls(2) * 100)
    with LmdbJournal(tmp_path / "journal") as journal:
        for _ in range(4):
            with ActorSystem(journal, agents=[agent], idle_s=0.01) as system:
                thread = system.thread(agent, "t")
                for _ in range(25):
                    thread.run("go").result(timeout_s=WAIT_S)
                state: ThreadState = thread.signal("x").get(timeout=WAIT_S)
                assert state.spent.total == thread.view().usage
                # It goes to sleep, and leaves a snapshot.
                until(lambda: system.live == 0)
                snapshots = system.kind_of(T).snapshots
                assert snapshots is not None
                until(lambda found=snapshots: found.find(journal, T) is not None)
