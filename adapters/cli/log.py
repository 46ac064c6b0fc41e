"""`clew log`: the events of a stream, one a line."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Annotated, Final

import typer

from ...journal import Journal, RecordedEvent
from ...projections import Follow
from .about import about
from .facts import line_of
from .opening import DEFAULT_JOURNAL, AsJson, JournalPath, find_thread, open_journal
from .render import console, one_line, shorten, size_of, time_of, write_json

__all__ = ["log"]

_NARROW: Final = 100
_DIGEST_LENGTH: Final = 10


def log(
    thread: Annotated[str, typer.Argument(metavar="THREAD", help="The thread's key, or any stream's name.")],
    *,
    after: Annotated[int, typer.Option(metavar="N", min=0, help="Only events after this sequence.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Stay, and show events as they become durable.")] = False,
    journal: JournalPath = DEFAULT_JOURNAL,
    as_json: AsJson = False,
) -> int:
    """List the events of a conversation.

    Each line says the sequence, time, name, what it is about, size and the beginning of the digest; a narrow terminal
    has no room for the last two.
    """
    with open_journal(journal, readonly=True) as opened:
        stream = find_thread(opened, journal, thread)
        with closing(_events(opened, stream, after=after, follow=follow)) as events:
            if as_json:
                for event in events:
                    write_json(line_of(event))
                return 0
            out = console()
            width = out.width if out.is_terminal else None
            for event in events:
                out.print(_text(event, width), soft_wrap=True)
    return 0


def _events(journal: Journal, stream: str, *, after: int, follow: bool) -> Generator[RecordedEvent]:
    with Follow(journal, stream, after=after, live=follow) as events:
        yield from events


def _text(event: RecordedEvent, width: int | None) -> str:
    narrow = width is not None and width < _NARROW
    at = time_of(event.recorded_at, date=not narrow, ms=True)
    start = f"{event.sequence:>5}  {at}  {event.type.name:<18}  "
    end = "" if narrow else f"  {size_of(len(event.canonical)):>9}  {event.digest.hex()[:_DIGEST_LENGTH]}"
    words = one_line(about(event))
    if width is None:
        return f"{start}{words:<36}{end}"
    room = max(10, width - len(start) - len(end))
    return f"{start}{shorten(words, room):<{room}}{end}".rstrip()
