"""`clew verify` and `clew journal verify`: read everything again and say what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from ...journal.lmdb import Report
from .exits import ExitCode
from .opening import DEFAULT_JOURNAL, AsJson, JournalArgument, JournalPath, open_journal
from .render import console, counted, safe, size_of, write_json

__all__ = ["show_problems", "verify", "verify_journal"]


def verify(*, journal: JournalPath = DEFAULT_JOURNAL, as_json: AsJson = False) -> int:
    """Check every checksum and digest of a journal.

    Lists what is wrong, and then exits with 4.
    """
    return _verify(journal, as_json=as_json)


def verify_journal(journal: JournalArgument = DEFAULT_JOURNAL, *, as_json: AsJson = False) -> int:
    """Check every checksum and digest of a journal.

    Lists what is wrong, and then exits with 4. Works while another process writes to the journal.
    """
    return _verify(journal, as_json=as_json)


def show_problems(out: Console, problems: Sequence[str], *, unlisted: int = 0) -> None:
    """List what is wrong."""
    for problem in problems:
        out.print(safe(problem), style="red", soft_wrap=True)
    if unlisted:
        out.print(f"and {unlisted} more", style="red")


def _verify(journal: str, *, as_json: bool) -> int:
    with open_journal(journal, readonly=True) as opened:
        report = opened.verify()
        size_bytes = opened.stats().bytes_on_disk
    if as_json:
        write_json(
            {
                "clean": report.clean,
                "events": report.events,
                "streams": report.streams,
                "chunks": report.chunks,
                "bytes": size_bytes,
                "problems": report.problems,
                "unlisted": report.unlisted,
            }
        )
    else:
        _show(report, size_bytes)
    return ExitCode.OK if report.clean else ExitCode.DAMAGED


def _show(report: Report, size_bytes: int) -> None:
    out = console()
    show_problems(out, report.problems, unlisted=report.unlisted)
    found = "nothing is wrong" if report.clean else counted(len(report.problems) + report.unlisted, "problem")
    size = f"{counted(report.events, 'event')} in {counted(report.streams, 'stream')}, {size_of(size_bytes)}"
    out.print(f"{found}: {size}" if report.clean else f"{found} in {size}")
