"""What was used over all conversations: by owner and agent, by model, and by owner in each day and month.

Each request counts once, in the thread that made it: the run of another thread that a tool asked for counts in that
one, though its use is told to the run that asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from ..journal import Catalog, Journal, RecordedEvent
from ..journal.facts import (
    ChildEnded,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunStarted,
    StepCompleted,
    ThreadOpened,
)
from .batch import fold_event
from .buffer import RowBuffer, RowCodec
from .checkpoint import read_builds, read_checkpoint
from .rows import RowProjection, Rows
from .usage import Period, Usage, model_of, period_of, told_usage, used_by, used_within
from .view import fold_rows

__all__ = ["ByModel", "Spending", "SpendingRow", "spending", "spending_rows", "spent_by_owner"]

_TRIES: Final = 10

_Event = ThreadOpened | RunStarted | StepCompleted | ChildEnded | RunFinished | RunFailed | RunCancelled


class ByModel(msgspec.Struct):
    """What a model was used for: in how many runs, and how much."""

    runs: int = 0
    usage: Usage = msgspec.field(default_factory=Usage)


class Spending(msgspec.Struct, frozen=True):
    """What an agent used for an owner (None: for threads without one), in how many runs, and by which models.

    A run counts for each model that it asked. Under the model with no name are the calls of tools, and what was used
    within them by agents whose turns are no steps of their own.
    """

    owner: str | None
    agent: str
    runs: int
    usage: Usage
    models: dict[str, ByModel]


class Going(msgspec.Struct):
    """A run that has not ended: the models it asked, what is counted of it, and what its tools will tell again.

    That is by the steps of the tools: the turns of sub-agents and the runs of others within them.
    """

    agent: str
    models: list[str] = []
    counted: Usage = msgspec.field(default_factory=Usage)
    within: dict[str, Usage] = {}


class SpendingRow(msgspec.Struct, omit_defaults=True):
    """A row: of a thread, what is counted of its open runs; of an owner and agent, or an owner and period, the sums."""

    owner: str | None = None
    agent: str = ""
    runs: int = 0
    usage: Usage = msgspec.field(default_factory=Usage)
    models: dict[str, ByModel] = {}
    sequence: int = 0
    going: dict[str, Going] = {}


def _apply(rows: Rows[SpendingRow], event: _Event, recorded: RecordedEvent) -> None:
    key = _key("thread", recorded.stream)
    thread = rows.get(key) or SpendingRow()
    if recorded.sequence <= thread.sequence:
        # It came back from an archive, and counts already.
        return
    thread.sequence = recorded.sequence
    match event:
        case ThreadOpened():
            thread.owner = event.owner
        case RunStarted():
            thread.going[event.run] = Going(event.agent)
            _add(rows, thread.owner, event.agent, event.at, runs=1)
        case StepCompleted() if (run := thread.going.get(event.run)) is not None:
            _step(rows, thread.owner, run, event)
        case ChildEnded() if (run := thread.going.get(event.run)) is not None:
            _note_within(run, event.step, told_usage(event.usage))
        case RunFinished() if (run := thread.going.pop(event.run, None)) is not None:
            # The loop's own count knows of requests that no step was recorded for.
            more = told_usage(event.usage).beyond(run.counted)
            _count(rows, thread.owner, run, event.at, more, next(filter(None, reversed(run.models)), ""))
        case RunFailed() | RunCancelled():
            thread.going.pop(event.run, None)
        case _:
            pass
    rows.set(key, thread)


def _step(rows: Rows[SpendingRow], owner: str | None, run: Going, event: StepCompleted) -> None:
    """Count what a step used, as far as it does not count already."""
    within = used_within(event)
    if within is not None:
        _note_within(run, event.step, within)
        _count(rows, owner, run, event.at, within, model_of(event))
        return
    used = used_by(event)
    if used is None:
        return
    run.counted.add(used)
    if event.step.startswith("tool:"):
        _count(rows, owner, run, event.at, used.beyond(run.within.pop(event.step, Usage())), "")
    else:
        _count(rows, owner, run, event.at, used, model_of(event))


def _note_within(run: Going, step: str, used: Usage) -> None:
    """Note what was used within a tool and counts where it was: the tool tells it again."""
    tool = step.partition("/")[0]
    run.within[tool] = run.within.get(tool, Usage()).plus(used)


def _count(rows: Rows[SpendingRow], owner: str | None, run: Going, at: int, used: Usage, model: str) -> None:
    """Count what a model used for a run."""
    if used == Usage():
        return
    part = ByModel(int(model not in run.models), used)
    # The last one is the one that was asked last.
    run.models = [*(name for name in run.models if name != model), model]
    _add(rows, owner, run.agent, at, part, model)


def _add(
    rows: Rows[SpendingRow],
    owner: str | None,
    agent: str,
    at: int,
    part: ByModel | None = None,
    model: str = "",
    *,
    runs: int = 0,
) -> None:
    """Add it to the rows of the owner and the agent."""
    row = rows.get(key := _key("by", owner, agent)) or SpendingRow(owner, agent)
    row.runs += runs
    if part is not None:
        row.usage.add(part.usage)
        known = row.models.setdefault(model, ByModel())
        known.runs += part.runs
        known.usage.add(part.usage)
    rows.set(key, row)
    if owner is None or part is None:
        return
    for per in _PERIODS:
        row = rows.get(key := _key(per, owner, period_of(at, per))) or SpendingRow(owner)
        row.usage.add(part.usage)
        rows.set(key, row)


_PERIODS: Final[tuple[Period, ...]] = ("day", "month")


def _key(kind: str, *parts: str | None) -> str:
    """Return the key of a row. JSON tells apart what is in the names, and no name from one that is longer."""
    return kind + msgspec.json.encode(parts).decode()


spending: RowProjection[SpendingRow, _Event] = RowProjection(
    name="spending",
    version=1,
    catalog=Catalog(ThreadOpened, RunStarted, StepCompleted, ChildEnded, RunFinished, RunFailed, RunCancelled),
    row=SpendingRow,
    apply=_apply,
    category="thread",
)
"""Tokens, costs and runs by owner and agent, and by owner in each day and month of UTC."""


def spending_rows(journal: Journal) -> list[Spending]:
    """Return what was used up to now, by owner and agent; a runner's rows are gone on from where there are any.

    Raises:
        ProjectionFailed, CorruptRecord: as for `fold_rows`.
    """
    rows = fold_rows(journal, spending).scan("by")
    return [Spending(row.owner, row.agent, row.runs, row.usage, row.models) for _, row in rows]


def spent_by_owner(journal: Journal, owner: str, *, per: Period, at: int) -> Usage:
    """Return what all threads of an owner used in the period that a time in nanoseconds is in, up to now.

    Everything that is durable counts, however far a runner has come. Writes nothing and waits for nobody; it costs what
    the runner has not folded yet.

    Raises:
        ProjectionFailed, CorruptRecord: as for `fold_rows`.
    """
    for _ in range(_TRIES):
        build = read_builds(journal.cells, spending.name)[0].of(spending.version)
        before = read_checkpoint(journal.cells, spending.name, build) if build else None
        if build is None or before is None:
            break
        codec = RowCodec(spending.row, prefix=build.rows(spending.name), projection=spending.name)
        rows = RowBuffer(journal.cells, codec)
        for recorded in journal.read_all(after=before[0].position, category=spending.category):
            fold_event(spending, rows, recorded)
        used = _used_in(rows, owner, per, at)
        # A runner may have written a batch while this was folded; then it is of no one moment.
        if read_checkpoint(journal.cells, spending.name, build) == before:
            return used
    return _used_in(fold_rows(journal, spending), owner, per, at)


def _used_in(rows: RowBuffer[SpendingRow], owner: str, per: Period, at: int) -> Usage:
    if per != "all":
        row = rows.get(_key(per, owner, period_of(at, per)))
        return Usage() if row is None else row.usage
    used = Usage()
    for row in _of_owner(rows, owner):
        used.add(row.usage)
    return used


def _of_owner(rows: RowBuffer[SpendingRow], owner: str) -> Iterator[SpendingRow]:
    prefix = _key("by", owner).removesuffix("]") + ","
    return (row for _, row in rows.scan(prefix))
