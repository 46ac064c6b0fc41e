"""What was used over all threads: each request once, by owner, agent and model, in days and months."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.journal import Catalog, Journal, MemoryJournal, RecordedEvent
from clew.journal.facts import (
    NOTHING,
    THREAD_EVENTS,
    ChildEnded,
    RunCancelled,
    RunFinished,
    RunStarted,
    StepCompleted,
    ThreadOpened,
)
from clew.projections import (
    ByModel,
    DurableProjection,
    LiveRows,
    ProjectionRunner,
    Usage,
    fold_rows,
    rebuild,
    spending,
    spending_rows,
)
from clew.projections.batch import fold_event
from clew.projections.spending import spent_by_owner
from tests.actors.story import raw
from tests.projections.tables import Crash, CrashingJournal

CATALOG = Catalog(*THREAD_EVENTS)
DAY = 86_400 * 10**9


def put(journal: Journal, thread: str, *events: Any) -> None:
    new = [CATALOG.encode(event)[0] for event in events]
    journal.append(f"thread/{thread}", new, expected=journal.head(f"thread/{thread}").sequence).wait()


def turn(
    n: int = 1, *, run: str = "r", cost: str | None = "0.1", model: str = "m", within: str = "", at: int = 1
) -> Any:
    usage = {"input_tokens": 10, "output_tokens": 1} | ({} if cost is None else {"cost": cost})
    return StepCompleted(
        run, f"{within}llm:turn:{n}", {}, raw({"usage": usage, "model_name": model}), at, NOTHING, NOTHING
    )


def tool(id_: str = "c1", *, run: str = "r", usage: object = None, at: int = 1) -> Any:
    return StepCompleted(run, f"tool:ask:{id_}", {}, raw("ok"), at, NOTHING, raw(usage))


def end(*, run: str = "r", at: int = 1, **usage: Any) -> Any:
    return RunFinished(run, "final", raw("bye"), raw(usage), NOTHING, at)


def begin(owner: str | None = "ann", *, run: str = "r", agent: str = "desk", at: int = 1) -> list[Any]:
    return [ThreadOpened(owner, None, at), RunStarted(run, agent, raw("hi"), at)]


def sums(journal: Journal) -> dict[tuple[str | None, str], Usage]:
    return {(row.owner, row.agent): row.usage for row in spending_rows(journal)}


@pytest.mark.requirement("L-LOOP-15")
def test_what_was_used_is_there_by_owner_agent_and_model(journal: Journal) -> None:
    put(journal, "1", *begin(), turn(), turn(2, model="n", cost=None), RunCancelled("r", None, "x", 2))
    put(journal, "2", *begin(), turn(), RunStarted("s", "clerk", raw("?"), 1))
    put(journal, "3", *begin("eve"), turn())
    put(journal, "4", *begin(None), turn())

    rows = spending_rows(journal)

    assert [(row.owner, row.agent, row.runs) for row in rows] == [
        ("ann", "clerk", 1),
        ("ann", "desk", 2),
        ("eve", "desk", 1),
        (None, "desk", 1),
    ]
    assert rows[1].usage == Usage(3, 0, 30, 3, Decimal("0.2"), 1)
    assert rows[1].models == {
        "m": ByModel(2, Usage(2, 0, 20, 2, Decimal("0.2"), 0)),
        "n": ByModel(1, Usage(1, 0, 10, 1, None, 1)),
    }
    assert rows[0].models == {}


def test_the_run_of_another_thread_counts_there_and_not_with_the_tool_that_asked(journal: Journal) -> None:
    child = {"requests": 1, "input_tokens": 10, "output_tokens": 1, "cost": "0.1"}
    ended = ChildEnded("r", "tool:ask:c1/child", "done", raw("x"), None, raw(child), 1)
    put(journal, "top", *begin(), turn(), ended, tool(usage=child), turn(2))
    put(journal, "top", end(requests=3, tool_calls=1, input_tokens=30, output_tokens=3, cost="0.3"))
    put(journal, "child", *begin(agent="clerk"), turn(), end(requests=1, input_tokens=10, output_tokens=1, cost="0.1"))

    assert sums(journal) == {
        ("ann", "clerk"): Usage(1, 0, 10, 1, Decimal("0.1"), 0),
        ("ann", "desk"): Usage(2, 1, 20, 2, Decimal("0.2"), 0),
    }
    assert spent_by_owner(journal, "ann", per="all", at=1).requests == 3


def test_turns_of_sub_agents_count_once_for_their_model_also_where_the_tool_fails(journal: Journal) -> None:
    within = {"requests": 2, "input_tokens": 20, "output_tokens": 2, "cost": "0.3"}
    recorded = turn(cost="0.1", model="inner", within="tool:ask:c1/")
    put(journal, "1", *begin(), recorded, tool(usage=within))
    put(journal, "2", *begin("eve"), recorded, RunCancelled("r", None, "x", 2))

    ann, eve = spending_rows(journal)

    assert ann.usage == Usage(2, 1, 20, 2, Decimal("0.3"), 0)
    assert {name: part.usage.cost_usd for name, part in ann.models.items()} == {
        "inner": Decimal("0.1"),
        "": Decimal("0.2"),
    }
    assert eve.usage == Usage(1, 0, 10, 1, Decimal("0.1"), 0)


def test_what_only_the_end_of_a_run_tells_counts_for_its_last_model(journal: Journal) -> None:
    put(journal, "1", *begin(), turn(cost=None), tool(), end(requests=1, tool_calls=1, input_tokens=15, cost="0.5"))

    [row] = spending_rows(journal)

    assert row.usage == Usage(1, 1, 15, 1, Decimal("0.5"), 1)
    assert row.models["m"] == ByModel(1, Usage(1, 0, 15, 1, Decimal("0.5"), 1))


def test_names_that_look_alike_are_kept_apart(journal: Journal) -> None:
    names = ["a", 'a"', 'a","b', "a,", "b", "null", "ä" * 200, "ä" * 200 + "x", "[", "\\"]
    for number, name in enumerate(names):
        put(journal, str(number), *begin(name), *(turn(n) for n in range(number + 1)))

    for number, name in enumerate(names):
        for per in ("all", "day", "month"):
            assert spent_by_owner(journal, name, per=per, at=1).requests == number + 1
    assert {row.owner: row.usage.requests for row in spending_rows(journal)} == {
        name: number + 1 for number, name in enumerate(names)
    }


def test_days_and_months_are_counted_by_the_recorded_times(journal: Journal) -> None:
    put(journal, "1", *begin(), turn(), turn(2, at=DAY - 1), turn(3, at=DAY), turn(4, at=31 * DAY), turn(5, at=2))

    def spent(per: Any, at: int) -> int:
        return spent_by_owner(journal, "ann", per=per, at=at).requests

    assert [spent("day", at) for at in (0, DAY - 1, DAY, 31 * DAY, 32 * DAY)] == [3, 3, 1, 1, 0]
    assert [spent("month", at) for at in (0, 30 * DAY, 31 * DAY, 60 * DAY)] == [4, 4, 1, 0]
    assert spent("all", 99 * DAY) == 5


def story(journal: Journal, choices: list[int]) -> None:
    """Append what these choices say to three threads of two owners."""
    for number, choice in enumerate(choices):
        name, owner = str(choice % 3), ("ann", "ann", None)[choice % 3]
        if not journal.head(f"thread/{name}").sequence:
            put(journal, name, *begin(owner))
        steps: list[Any] = [
            [turn(number, at=number * DAY // 5)],
            [turn(number, within=f"tool:ask:{number}/")],
            [tool(str(number - 1), usage={"requests": 2, "input_tokens": 12, "cost": "0.7"})],
            [end(requests=number, input_tokens=10 * number, cost="1"), RunStarted("r", "clerk", raw("?"), number)],
            [ChildEnded("r", f"tool:ask:{number}/child", "done", raw(1), None, raw({"requests": 1}), number)],
            [RunCancelled("r", None, "x", number), RunStarted("r", "desk", raw("?"), number)],
        ]
        put(journal, name, *steps[choice // 3])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 17), max_size=40), st.integers(1, 7), st.data())
def test_each_event_counts_once_wherever_a_process_dies(choices: list[int], batch: int, data: st.DataObject) -> None:
    journal = CrashingJournal()
    story(journal, choices)
    journal.crash_at, journal.durable_first = data.draw(st.integers(1, 30)), data.draw(st.booleans())

    for _ in range(2):
        with suppress(Crash):
            DurableProjection(journal, spending, batch_events_max=batch).catch_up()
    live = dict(LiveRows(journal, spending).scan())

    whole = MemoryJournal()
    story(whole, choices)
    assert live == dict(fold_rows(whole, spending).scan())
    total = sum((row.usage.requests for row in spending_rows(whole)), 0)
    owned = spent_by_owner(journal, "ann", per="all", at=0).requests
    assert owned == total - sum(row.usage.requests for row in spending_rows(whole) if row.owner is None)


def test_a_stream_that_comes_back_from_its_archive_counts_already(journal: Journal) -> None:
    story(journal, [number % 18 for number in range(0, 180, 7)])
    rows = fold_rows(journal, spending)
    before = dict(rows.scan())

    for recorded in journal.read_all():
        assert fold_event(spending, rows, recorded)

    assert dict(rows.scan()) == before


def test_a_rebuild_makes_the_same_rows(journal: Journal) -> None:
    story(journal, [number % 18 for number in range(0, 180, 7)])
    durable = DurableProjection(journal, spending, batch_events_max=3)
    durable.catch_up()
    before = dict(LiveRows(journal, spending).scan())

    report = rebuild(durable)

    assert (report.outcome, report.digest) == ("switched", report.live_digest)
    assert dict(LiveRows(journal, spending).scan()) == before != {}


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_look_counts_all_that_is_durable_however_far_the_runner_has_come(journal: Journal, kept: int) -> None:
    put(journal, "1", *begin(), turn())
    durable = DurableProjection(journal, spending, batch_events_max=1)
    for _ in range(kept):
        durable.advance()

    put(journal, "1", turn(2), turn(3))

    assert spent_by_owner(journal, "ann", per="all", at=1).requests == 3
    assert spent_by_owner(journal, "ann", per="day", at=1).requests == 3


def test_a_look_beside_a_runner_misses_nothing_and_counts_nothing_twice(journal: Journal) -> None:
    put(journal, "1", *begin())
    with ProjectionRunner(journal, [spending], batch_events_max=2):
        for number in range(1, 60):
            put(journal, "1", turn(number))
            assert spent_by_owner(journal, "ann", per="all", at=1).requests == number


class Overtaken(MemoryJournal):
    """A journal of which a runner folds an event whenever somebody else has read one."""

    runner: DurableProjection[Any, Any] | None = None

    def read_all(self, **where: Any) -> Iterator[RecordedEvent]:
        runner, self.runner = self.runner, None
        for event in super().read_all(**where):
            yield event
            if runner is not None:
                runner.advance()
        self.runner = runner


@pytest.mark.parametrize("events", [5, 60])
def test_a_look_begins_anew_where_a_runner_was_faster_and_at_last_without_its_rows(events: int) -> None:
    journal = Overtaken()
    put(journal, "1", *begin(), *(turn(n) for n in range(events)))
    runner = DurableProjection(journal, spending, batch_events_max=1)
    # Now it has a place of its own, and nothing is folded yet.
    runner.advance()
    journal.runner = runner

    assert spent_by_owner(journal, "ann", per="all", at=1).requests == events
