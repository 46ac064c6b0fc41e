"""`clew journal archive`: conversations that have been at rest, out of the journal and into files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ...journal import Head, Journal
from ...journal.archive import ArchiveReport, RetentionPolicy
from ...journal.archive import archive as archive_streams
from .duration import duration_of
from .opening import DEFAULT_JOURNAL, AsJson, JournalArgument, check_there, open_journal
from .render import console, counted, one_line, safe, write_json

__all__ = ["archive"]


def archive(
    journal: JournalArgument = DEFAULT_JOURNAL,
    *,
    category: Annotated[str, typer.Option(metavar="CATEGORY", help="Which streams; conversations are `thread`.")],
    idle_for: Annotated[str, typer.Option(metavar="TIME", help="Without an event for so long, such as 36h or 90d.")],
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the files go; made when it is not there.")],
    keep_last: Annotated[int, typer.Option(metavar="N", min=0, help="But not the N that were in use last.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which they would be.")] = False,
    as_json: AsJson = False,
) -> int:
    """Move streams that have been at rest into files.

    Each gets a file of its own, which is read back before its events are deleted from the journal. Streams with open
    work stay. `clew import FILE` brings one back; `clew journal compact` then gives their space back.
    """
    policy = RetentionPolicy(category=category, idle_for=duration_of(idle_for), keep_last=keep_last)
    check_there(journal)
    with open_journal(journal, readonly=dry_run) as opened:
        if dry_run:
            _show_chosen(policy.choose(opened, now=time.time_ns()), as_json=as_json)
        else:
            _show(_archive(opened, policy, to), to, as_json=as_json)
    return 0


def _archive(journal: Journal, policy: RetentionPolicy, to: Path) -> ArchiveReport:
    return archive_streams(journal, policy, to, now=time.time_ns())


def _show_chosen(heads: list[Head], *, as_json: bool) -> None:
    if as_json:
        write_json({"would_archive": {head.stream: head.sequence for head in heads}})
        return
    out = console()
    for head in heads:
        out.print(f"{safe(head.stream)}  {counted(head.sequence, 'event')}", soft_wrap=True)
    events = sum(head.sequence for head in heads)
    out.print(f"would archive {counted(len(heads), 'stream')} with {counted(events, 'event')}")


def _show(report: ArchiveReport, to: Path, *, as_json: bool) -> None:
    if as_json:
        write_json(report)
        return
    out = console()
    for stream, reason in report.left.items():
        out.print(f"{safe(stream)}  left alone: {safe(reason)}", soft_wrap=True)
    events = sum(one.sequence for one in report.archived)
    done = f"archived {counted(len(report.archived), 'stream')} with {counted(events, 'event')}"
    out.print(f"{done} to {one_line(str(to))}", soft_wrap=True)
