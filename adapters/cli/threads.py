"""`clew threads`: the conversations of a journal, one a line."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from ...journal import Head, Journal, StreamDeleted
from ...projections import ThreadRow, fold_rows, thread_list
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
        # A runner may have kept the list; what it has not folded yet is folded here, in one pass.
        kept = dict(fold_rows(opened, thread_list).scan())
        heads = [head for head in opened.streams("thread") if not head.deleted]
        rows = [_row(opened, head, kept.get(head.stream, ThreadRow())) for head in heads]
    if owner is not None:
        rows = [row for row in rows if row.owner == owner]
    if as_json:
        write_json(rows)
        return 0
    write_table(console(), _COLUMNS, (_cells(row) for row in rows))
    return 0


def _row(journal: Journal, head: Head, row: ThreadRow) -> _Row:
    return _Row(
        thread=head.stream.partition("/")[2],
        owner=row.owner,
        title=row.title,
        status=row.status,
        runs=row.runs,
        steps=row.steps,
        tokens=row.usage.input_tokens + row.usage.output_tokens,
        sequence=row.sequence,
        last_at=row.last_at if head.sequence == row.sequence else _last_at(journal, head),
    )


def _last_at(journal: Journal, head: Head) -> int:
    """Return when a stream ended whose last events are not known to this version."""
    try:
        return max(event.recorded_at for event in journal.read(head.stream, after=head.sequence - 1))
    except StreamDeleted:
        return 0


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
