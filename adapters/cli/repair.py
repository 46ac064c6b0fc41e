"""`clew journal repair`: what can be read of a damaged journal, as a sound one."""

from __future__ import annotations

from ...journal.lmdb import Repair
from ...journal.lmdb import repair as repair_directory
from .exits import ExitCode
from .opening import DEFAULT_JOURNAL, AsJson, JournalArgument, directory_of, refusing
from .render import console, counted, one_line, write_json
from .verify import show_problems

__all__ = ["repair"]

_SQLITE = "Restore a backup, or let `sqlite3 FILE .recover` write what it can read into a new file."


def repair(journal: JournalArgument = DEFAULT_JOURNAL, *, as_json: AsJson = False) -> int:
    """Write a damaged journal anew from what can be read of it.

    The file as it was is kept beside it, and what could not be read is listed with its bytes; then the command exits
    with 4. A sound journal is left alone. No other process may have the journal open. Prefer a backup if there is one.
    """
    path = directory_of(journal, _SQLITE)
    with refusing(path):
        done = repair_directory(path)
    if as_json:
        original = None if done.original is None else str(done.original)
        write_json({**done._asdict(), "original": original})
    else:
        _show(done)
    return ExitCode.DAMAGED if done.quarantined else ExitCode.OK


def _show(done: Repair) -> None:
    out = console()
    found = f"{counted(done.events, 'event')} in {counted(done.streams, 'stream')}"
    if done.original is None:
        out.print(f"nothing is wrong and nothing was done: {found}")
        return
    show_problems(out, done.quarantined)
    out.print(f"written anew: {found}")
    kept = one_line(str(done.original))
    if done.quarantined:
        out.print(
            f"could not be read: {counted(len(done.quarantined), 'piece')}, kept in {kept}/quarantine.jsonl",
            soft_wrap=True,
        )
    out.print(f"the file as it was: {kept}", soft_wrap=True)
