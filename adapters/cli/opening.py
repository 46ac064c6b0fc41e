"""Which journal a command works on, and which thread of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...journal import Journal, category_of
from ...journal.lmdb import LmdbJournal
from .exits import ExitCode, Refused
from .render import one_line

__all__ = ["DEFAULT_JOURNAL", "AsJson", "JournalPath", "find_stream", "find_thread", "open_journal", "thread_stream"]

DEFAULT_JOURNAL = Path("clew-data")

JournalPath = Annotated[
    Path,
    typer.Option("--journal", metavar="PATH", envvar="CLEW_JOURNAL", help="The directory of the journal."),
]
"""The option `--journal`."""

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
"""The option `--json`."""


def open_journal(path: Path, *, readonly: bool) -> LmdbJournal:
    """Open the journal at `path`; reading works while another process writes.

    Raises:
        Refused: there is none to read, or it cannot be opened.
        JournalLocked, ForeignJournal, CorruptRecord: as for `LmdbJournal`.
    """
    if readonly and not path.exists():
        raise Refused(
            f"{path}: there is no journal here. Give --journal PATH, or begin one with `clew run`.",
            code=ExitCode.NOT_OPENED,
        )
    try:
        return LmdbJournal(path, readonly=readonly)
    except OSError as error:
        raise Refused(f"{path}: the journal cannot be opened: {error}.", code=ExitCode.NOT_OPENED) from error


def find_stream(journal: Journal, name: str) -> str | None:
    """Return the stream that a user means: a thread's key, or the whole name of any stream; None if there is none."""
    return next((stream for stream in (f"thread/{name}", name) if journal.head(stream).sequence), None)


def thread_stream(journal: Journal, key: str) -> str:
    """Return the stream of a thread that need not exist yet."""
    return find_stream(journal, key) or (key if category_of(key) == "thread" and "/" in key else f"thread/{key}")


def find_thread(journal: Journal, path: Path, name: str) -> str:
    """Return the stream that a user means.

    Raises:
        Refused: there is none of this name.
    """
    stream = find_stream(journal, name)
    if stream is None:
        raise Refused(f"{one_line(name)}: no such thread in {path}. `clew threads` lists them.")
    return stream
