"""The list of threads: one row for each conversation, folded from the whole journal."""

from __future__ import annotations

import msgspec

from ..journal import RecordedEvent
from ..journal.facts import ThreadEvent
from .conversation_view import ThreadView
from .rows import RowProjection, Rows
from .runs import RunView
from .threads import thread_view
from .usage import Usage

__all__ = ["ThreadRow", "thread_list"]


class ThreadRow(msgspec.Struct, omit_defaults=True):
    """A conversation in a list; `status` is that of its open run, else that of the last run that was begun.

    `last_run` is that run, `queued` are those that wait behind it, and `runs` counts all there ever were. `last_at` is
    the time of the last known event.
    """

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
    queued: list[RunView] = []


def _apply(rows: Rows[ThreadRow], event: ThreadEvent, recorded: RecordedEvent) -> None:
    row = rows.get(recorded.stream) or ThreadRow()
    if recorded.sequence <= row.sequence:
        # It came back from an archive, and counts already.
        return
    rows.set(recorded.stream, _after(row, event, recorded))


def _after(row: ThreadRow, event: ThreadEvent, recorded: RecordedEvent) -> ThreadRow:
    """Let the view of one thread count the event, with those of its runs that anything can still happen to."""
    view = ThreadView(
        stream=row.stream,
        owner=row.owner,
        title=row.title,
        status=row.status,
        opened_at=row.opened_at,
        usage=row.usage,
        runs=[row.last_run, *row.queued] if row.last_run else [],
    )
    runs, steps = len(view.runs), row.last_run.steps if row.last_run else 0
    view = thread_view.apply(view, event, recorded)
    begun = [run for run in view.runs if run.started_at is not None]
    return ThreadRow(
        stream=view.stream,
        owner=view.owner,
        title=view.title,
        status=view.status,
        opened_at=view.opened_at,
        sequence=view.sequence,
        last_at=recorded.recorded_at,
        runs=row.runs + len(view.runs) - runs,
        steps=row.steps + sum(run.steps for run in begun) - steps,
        usage=view.usage,
        last_run=begun[-1] if begun else None,
        queued=view.queued,
    )


thread_list: RowProjection[ThreadRow, ThreadEvent] = RowProjection(
    name="threads",
    version=3,
    catalog=thread_view.catalog,
    row=ThreadRow,
    apply=_apply,
    category="thread",
)
"""Owner, title, status and usage of every thread, by its stream."""
