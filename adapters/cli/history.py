"""`clew export` and `clew import`: conversations as JSON Lines, out and in."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from ...journal import RecordedEvent, import_history, write_history
from .exits import Refused
from .opening import DEFAULT_JOURNAL, AsJson, JournalPath, find_thread, open_journal
from .render import counted, one_line, write_json

__all__ = ["export_history", "take_history"]


def export_history(
    thread: Annotated[str | None, typer.Argument(metavar="THREAD", help="The thread's key.")] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every stream of the journal.")] = False,
    out: Annotated[str, typer.Option("--output", "-o", metavar="FILE|-", help="Where to; - is stdout.")] = "-",
    journal: JournalPath = DEFAULT_JOURNAL,
    as_json: AsJson = False,
) -> int:
    """Write a conversation, or all, as a history.

    A test can replay it, and another journal can import it.
    """
    if (thread is None) == (not everything):
        raise Refused("name one THREAD to export, or give --all")
    with open_journal(journal, readonly=True) as opened:
        events = opened.read_all() if thread is None else opened.read(find_thread(opened, journal, thread))
        count = _write(events, out)
    if as_json and out != "-":
        write_json({"file": out, "events": count})
    elif not as_json:
        sys.stderr.write(f"exported {counted(count, 'event')}{'' if out == '-' else f' to {one_line(out)}'}\n")
    return 0


def take_history(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A history; - is stdin.")],
    *,
    journal: JournalPath = DEFAULT_JOURNAL,
    as_json: AsJson = False,
) -> int:
    """Append a history to a journal.

    What is there already is left alone, so an import can be repeated. Runs that are open in it go on when a system
    with their agents opens the journal.
    """
    if file != "-" and not Path(file).is_file():
        raise Refused(f"{one_line(file)}: no such file")
    with open_journal(journal, readonly=False) as opened:
        gained = import_history(opened, sys.stdin.buffer if file == "-" else file)
    if as_json:
        write_json({"streams": gained})
        return 0
    for stream, count in gained.items():
        sys.stdout.write(f"{one_line(stream)}  {counted(count, 'event') if count else 'was there already'}\n")
    return 0


def _write(events: Iterable[RecordedEvent], out: str) -> int:
    if out == "-":
        count = write_history(events, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return count
    # Beside the file and then in its place, so that a half-written history never bears its name.
    target = Path(out)
    number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    draft = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            count = write_history(events, file)
            file.flush()
            os.fsync(number)
        draft.chmod(0o644)
        draft.replace(target)
    except BaseException:
        draft.unlink()
        raise
    return count
