"""`clew export` and `clew import`, also as `clew journal export` and `import`: histories, out and in."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import typer

from ...journal import (
    Journal,
    RecordedEvent,
    category_of,
    import_history,
    iter_history,
    save_history,
    write_history,
)
from .bar import bar_of_bytes, bar_of_events
from .exits import Refused
from .opening import (
    DEFAULT_JOURNAL,
    AsJson,
    ExistingJournal,
    JournalArgument,
    JournalPath,
    find_thread,
    open_journal,
)
from .render import counted, one_line, write_json

__all__ = ["export_history", "export_journal", "import_journal", "take_history"]

Out = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE|-", help="Where to; - is stdout. FILE.gz is compressed.")
]
In = Annotated[str, typer.Argument(metavar="FILE|-", help="A history, compressed or not; - is stdin.")]
Stream = Annotated[str | None, typer.Option(metavar="NAME", help="Only this stream, or the thread of this key.")]
Category = Annotated[str | None, typer.Option(metavar="CATEGORY", help="Only streams of this category.")]


def export_history(
    thread: Annotated[str | None, typer.Argument(metavar="THREAD", help="The thread's key.")] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every stream of the journal.")] = False,
    out: Out = "-",
    journal: JournalPath = DEFAULT_JOURNAL,
    as_json: AsJson = False,
) -> int:
    """Write a conversation, or all, as a history.

    A test can replay it, and another journal can import it.
    """
    if (thread is None) == (not everything):
        raise Refused("name one THREAD to export, or give --all")
    return _export(journal, out, stream=thread, as_json=as_json)


def export_journal(
    journal: JournalArgument = DEFAULT_JOURNAL,
    *,
    stream: Stream = None,
    category: Category = None,
    out: Out = "-",
    as_json: AsJson = False,
) -> int:
    """Write all of a journal, or a part, as a history.

    Another journal can import it, of any kind. Works while another process writes to the journal.
    """
    return _export(journal, out, stream=stream, category=category, as_json=as_json)


def take_history(file: In, *, journal: JournalPath = DEFAULT_JOURNAL, as_json: AsJson = False) -> int:
    """Append a history to a journal.

    What is there already is left alone, so an import can be repeated. Runs that are open in it go on when a system
    with their agents opens the journal.
    """
    return _import(journal, file, as_json=as_json)


def import_journal(
    journal: ExistingJournal,
    file: In,
    *,
    stream: Stream = None,
    category: Category = None,
    as_json: AsJson = False,
) -> int:
    """Append a history, or a part of one, to a journal.

    The journal is made when it is not there. What it has already is left alone, so an import can be repeated; the
    archive of a deleted stream brings it back.
    """
    return _import(journal, file, stream=stream, category=category, as_json=as_json)


def _export(journal: str, out: str, *, stream: str | None, category: str | None = None, as_json: bool) -> int:
    _check_part(stream, category)
    with open_journal(journal, readonly=True) as opened:
        if stream is not None:
            name = find_thread(opened, journal, stream)
            events, total = opened.read(name), opened.head(name).sequence
        else:
            events, total = opened.read_all(category=category), _count(opened, category)
        if category is not None and not total:
            raise Refused(f"{one_line(category)}: no stream of this category has events in {one_line(journal)}")
        count = _write(events, out, total)
    if as_json and out != "-":
        write_json({"file": out, "events": count})
    elif not as_json:
        sys.stderr.write(f"exported {counted(count, 'event')}{'' if out == '-' else f' to {one_line(out)}'}\n")
    return 0


def _count(journal: Journal, category: str | None) -> int:
    return sum(head.sequence for head in journal.streams(category) if not head.deleted)


def _write(events: Iterable[RecordedEvent], out: str, total: int) -> int:
    if out == "-" and sys.stdout.isatty():
        # A bar between lines on the same terminal would only be in the way.
        return write_history(events, sys.stdout.buffer)
    with bar_of_events("exporting", total) as progress:
        if out == "-":
            count = write_history(events, sys.stdout.buffer, progress=progress)
            sys.stdout.buffer.flush()
            return count
        path = Path(out)
        if not path.parent.is_dir():
            raise Refused(f"{one_line(str(path.parent))}: no such directory")
        if path.exists() and not path.is_file():
            # A device or a pipe is written to, and never replaced by a file.
            with path.open("wb") as file:
                return write_history(events, file, progress=progress)
        return save_history(events, path, progress=progress)


def _import(journal: str, file: str, *, stream: str | None = None, category: str | None = None, as_json: bool) -> int:
    _check_part(stream, category)
    if file != "-" and not Path(file).exists():
        raise Refused(f"{one_line(file)}: no such file")
    # Before the journal is opened, which may make one.
    with (
        _part(file, stream, category) as source,
        open_journal(journal, readonly=False) as opened,
        bar_of_bytes("importing", _size(source)) as progress,
    ):
        gained = import_history(opened, source, progress=progress)
    if as_json:
        write_json({"streams": gained})
        return 0
    for name, count in gained.items():
        sys.stdout.write(f"{one_line(name)}  {counted(count, 'event') if count else 'was there already'}\n")
    return 0


@contextmanager
def _part(file: str, stream: str | None, category: str | None) -> Generator[str | BinaryIO]:
    """Yield the history, or a temporary one with what is wanted of it."""
    source = sys.stdin.buffer if file == "-" else file
    if stream is None and category is None:
        yield source
        return
    names = {stream, f"thread/{stream}"}
    with tempfile.TemporaryFile() as part:
        wanted = (
            event for event in iter_history(source) if event.stream in names or category_of(event.stream) == category
        )
        if not write_history(wanted, cast("BinaryIO", part)):
            what = f"no stream {one_line(stream)}" if stream is not None else f"no stream of category {category}"
            raise Refused(f"{one_line(file)}: there is {what} in it")
        part.seek(0)
        yield cast("BinaryIO", part)


def _size(source: str | BinaryIO) -> int | None:
    """Return how many bytes of lines there are, where that is known."""
    if isinstance(source, str):
        return None if source.endswith(".gz") or not Path(source).is_file() else Path(source).stat().st_size
    if not source.seekable():
        return None
    here = source.tell()
    size_bytes = source.seek(0, 2) - here
    source.seek(here)
    return size_bytes


def _check_part(stream: str | None, category: str | None) -> None:
    if stream is not None and category is not None:
        raise Refused("give --stream or --category, not both")
