"""The list of threads: one row for each conversation, folded from the whole journal."""

from __future__ import annotations

import msgspec

from ..journal import RecordedEvent
from ..journal.facts import RunStarted, ThreadEvent
from .rows import RowProjection, Rows
from .threads import RunView, ThreadView, Usage, thread_view

__all__ = ["ThreadRow", "thread_list"]


class ThreadRow(msgspec.Struct):
    """A conversation in a list; `status` is that of its last run, and `last_at` the time of its last known event."""

    stream: str = ""
    owner: str | None = None
    title: str | None = None
    status: str = "new"
    opened_at: int = 0
    sequence: int = 0
    last_at: int = 0
    runs: int = 0
    steps: int = 0
    usage: Usage = msgspec.field(default_factory=Usage)
    last_run: RunView | None = None


def _apply(rows: Rows[ThreadRow], event: ThreadEvent, recorded: RecordedEvent) -> None:
    row = rows.get(recorded.stream) or ThreadRow()
    if recorded.sequence <= row.sequence:
        # It came back from an archive, and counts already.
        return
    rows.set(recorded.stream, _after(row, event, recorded))


def _after(row: ThreadRow, event: ThreadEvent, recorded: RecordedEvent) -> ThreadRow:
    """Let the view of one thread count the event, with its last run only: no event comes for an earlier one."""
    view = ThreadView(
        stream=row.stream,
        owner=row.owner,
        title=row.title,
        status=row.status,
        opened_at=row.opened_at,
        usage=row.usage,
        runs=[row.last_run] if row.last_run else [],
    )
    steps = row.steps - (row.last_run.steps if row.last_run else 0)
    view = thread_view.apply(view, event, recorded)
    last_run = view.runs[-1] if view.runs else None
    if isinstance(event, RunStarted) and row.last_run is not None:
        steps += row.last_run.steps
    return ThreadRow(
        stream=view.stream,
        owner=view.owner,
        title=view.title,
        status=view.status,
        opened_at=view.opened_at,
        sequence=view.sequence,
        last_at=recorded.recorded_at,
        runs=row.runs + isinstance(event, RunStarted),
        steps=steps + (last_run.steps if last_run else 0),
        usage=view.usage,
        last_run=last_run,
    )


thread_list: RowProjection[ThreadRow, ThreadEvent] = RowProjection(
    name="threads",
    version=1,
    catalog=thread_view.catalog,
    row=ThreadRow,
    apply=_apply,
    category="thread",
)
"""Owner, title, status and usage of every thread, by its stream."""
