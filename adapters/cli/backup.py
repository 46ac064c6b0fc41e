"""`clew journal backup` and `clew journal restore`: a copy of a journal that is in use, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...journal.lmdb import restore as put_back
from .exits import ExitCode, Refused
from .opening import AsJson, ExistingJournal, directory_of, open_directory
from .render import console, counted, one_line, size_of, write_json
from .verify import show_problems

__all__ = ["backup", "restore"]

_SQLITE = "`sqlite3 FILE '.backup COPY'` copies one in SQLite while it is in use."


def backup(
    journal: ExistingJournal,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new directory for the copy.")],
    *,
    as_json: AsJson = False,
) -> int:
    """Copy a journal as it is now.

    Works while another process writes to it. The copy is complete, synced to disk and without free space, or not there.
    """
    path = directory_of(journal, _SQLITE)
    with open_directory(path, readonly=True) as opened:
        made = opened.backup(folder)
    size_bytes = sum(file.stat().st_size for file in made.iterdir())
    if as_json:
        write_json({"backup": str(made), "bytes": size_bytes})
        return 0
    console().print(f"backed up to {one_line(str(made))}: {size_of(size_bytes)}", soft_wrap=True)
    return 0


def restore(
    source: Annotated[str, typer.Argument(metavar="BACKUP", help="A directory that `backup` made.")],
    target: Annotated[Path, typer.Argument(metavar="PATH", help="Where the journal is to be; nothing may be there.")],
    *,
    as_json: AsJson = False,
) -> int:
    """Put a backup in place as a journal.

    The backup is verified first and stays as it is. Nothing is ever overwritten: move a damaged journal away.
    """
    path = directory_of(source, _SQLITE)
    with open_directory(path, readonly=True) as opened:
        report = opened.verify()
    if not report.clean:
        show_problems(console(stderr=True), report.problems, unlisted=report.unlisted)
        raise Refused(
            f"{one_line(source)}: this backup is damaged, and nothing was restored. Take an older one, or copy its "
            "directory and run `clew journal repair` on the copy",
            code=ExitCode.DAMAGED,
        )
    put_back(path, target)
    if as_json:
        write_json({"journal": str(target), "events": report.events, "streams": report.streams})
        return 0
    found = f"{counted(report.events, 'event')} in {counted(report.streams, 'stream')}"
    console().print(f"restored to {one_line(str(target))}: {found}", soft_wrap=True)
    return 0
