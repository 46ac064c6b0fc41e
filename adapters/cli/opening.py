"""Which journal a command works on, and which thread of it."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from ...journal import Journal, category_of
from ...journal.lmdb import LmdbJournal
from ...journal.sql import SqliteJournal
from .exits import ExitCode, Refused
from .render import one_line

__all__ = [
    "DEFAULT_JOURNAL",
    "AsJson",
    "ExistingJournal",
    "JournalArgument",
    "JournalPath",
    "check_there",
    "directory_of",
    "find_stream",
    "find_thread",
    "open_directory",
    "open_journal",
    "refusing",
    "thread_stream",
]

DEFAULT_JOURNAL: Final = "clew-data"

_SQLITE: Final = "sqlite:///"
_URL: Final = re.compile(r"(memory|sqlite|[A-Za-z][A-Za-z0-9+.-]*(?=://)):")
_WHAT: Final = "its directory, or sqlite:///FILE."

JournalPath = Annotated[
    str,
    typer.Option("--journal", metavar="PATH", envvar="CLEW_JOURNAL", help=f"The journal: {_WHAT}"),
]
"""The option `--journal`."""

JournalArgument = Annotated[
    str,
    typer.Argument(metavar="JOURNAL", envvar="CLEW_JOURNAL", help=f"The journal: {_WHAT}"),
]
"""The argument of a command that is about the journal itself."""

ExistingJournal = Annotated[str, typer.Argument(metavar="JOURNAL", help=f"The journal: {_WHAT}")]
"""The same where another argument follows, so that it cannot be left out."""

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
"""The option `--json`."""


def open_journal(journal: str, *, readonly: bool) -> LmdbJournal | SqliteJournal:
    """Open a journal; reading works while another process writes. One to write to is made when it is not there.

    Raises:
        Refused: there is none to read, or it cannot be opened.
        JournalLocked, ForeignJournal, CorruptRecord: as for `LmdbJournal` and `SqliteJournal`.
    """
    if readonly:
        check_there(journal)
    kind, path = _place(journal)
    with refusing(path):
        return kind(path, readonly=readonly)


def check_there(journal: str) -> Path:
    """Return where a journal is.

    Raises:
        Refused: there is nothing.
    """
    _, path = _place(journal)
    if not path.exists():
        raise Refused(
            f"{one_line(journal)}: there is no journal here. Name another, or begin one with `clew run`.",
            code=ExitCode.NOT_OPENED,
        )
    return path


def directory_of(journal: str, instead: str) -> Path:
    """Return where a journal is that must be one in a directory.

    Raises:
        Refused: it is in SQLite, for which the user gets to know what to do `instead`; or there is nothing.
    """
    kind, _ = _place(journal)
    if kind is SqliteJournal:
        raise Refused(f"{one_line(journal)}: this is for journals in a directory. {instead}")
    return check_there(journal)


def open_directory(path: Path, *, readonly: bool) -> LmdbJournal:
    """Open the journal in a directory; see `open_journal`."""
    with refusing(path):
        return LmdbJournal(path, readonly=readonly)


@contextmanager
def refusing(path: Path) -> Generator[None]:
    """Say that it is the journal which cannot be opened.

    Raises:
        Refused: the system refused.
    """
    try:
        yield
    except OSError as error:
        raise Refused(f"{path}: the journal cannot be opened: {error}.", code=ExitCode.NOT_OPENED) from error


def find_stream(journal: Journal, name: str) -> str | None:
    """Return the stream that a user means: a thread's key, or the whole name of any stream; None if there is none."""
    return next((stream for stream in (f"thread/{name}", name) if journal.head(stream).sequence), None)


def thread_stream(journal: Journal, key: str) -> str:
    """Return the stream of a thread that need not exist yet."""
    return find_stream(journal, key) or (key if category_of(key) == "thread" and "/" in key else f"thread/{key}")


def find_thread(journal: Journal, path: str, name: str) -> str:
    """Return the stream that a user means.

    Raises:
        Refused: there is none of this name.
    """
    stream = find_stream(journal, name)
    if stream is None:
        raise Refused(f"{one_line(name)}: no such thread in {path}. `clew threads` lists them.")
    return stream


def _place(journal: str) -> tuple[type[LmdbJournal | SqliteJournal], Path]:
    file = journal.removeprefix(_SQLITE)
    if journal.startswith(_SQLITE) and file and "?" not in file:
        return SqliteJournal, Path(file)
    if _URL.match(journal) or not journal:
        raise Refused(
            f"{one_line(journal)!r} is no journal: give its directory, or sqlite:///FILE "
            "with one more slash for a path from the root"
        )
    return LmdbJournal, Path(journal)
