"""`clew threads`: the conversations of a journal, one a line."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from ...journal import Journal
from ...projections import ThreadView, project, thread_view
from .opening import DEFAULT_JOURNAL, AsJson, JournalPath, open_journal
from .render import Column, console, safe, time_of, write_json, write_table

__all__ = ["threads"]

_COLUMNS = (
    Column("THREAD", cut=3),
    Column("OWNER", cut=2),
    Column("TITLE", cut=1),
    Column("STATUS"),
    Column("RUNS", number=True),
    Column("STEPS", number=True),
    Column("TOKENS", number=True),
    Column("LAST"),
)


class _Row(msgspec.Struct, frozen=True):
    thread: str
    owner: str | None
    title: str | None
    status: str
    runs: int
    steps: int
    tokens: int
    sequence: int
    last_at: int


def threads(
    *,
    owner: Annotated[str | None, typer.Option(metavar="OWNER", help="Only the threads of this owner.")] = None,
    journal: JournalPath = DEFAULT_JOURNAL,
    as_json: AsJson = False,
) -> int:
    """List the conversations.

    Works while another process writes to the journal, as do all commands that only read.
    """
    with open_journal(journal, readonly=True) as opened:
        rows = [_row(opened, head.stream) for head in opened.streams("thread")]
    if owner is not None:
        rows = [row for row in rows if row.owner == owner]
    if as_json:
        write_json(rows)
        return 0
    write_table(console(), _COLUMNS, (_cells(row) for row in rows))
    return 0


def _row(journal: Journal, stream: str) -> _Row:
    view, last_at = ThreadView(), 0
    for event in journal.read(stream):
        view, last_at = project(thread_view, [event], view), event.recorded_at
    return _Row(
        thread=stream.partition("/")[2],
        owner=view.owner,
        title=view.title,
        status=view.status,
        runs=len(view.runs),
        steps=sum(run.steps for run in view.runs),
        tokens=view.usage.input_tokens + view.usage.output_tokens,
        sequence=view.sequence,
        last_at=last_at,
    )


def _cells(row: _Row) -> list[str]:
    return [
        safe(row.thread),
        safe(row.owner or "-"),
        safe(row.title or "-"),
        row.status,
        str(row.runs),
        str(row.steps),
        str(row.tokens),
        time_of(row.last_at)[:16],
    ]
