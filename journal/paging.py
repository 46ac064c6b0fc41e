"""Pages of typed events, for journals that read one recorded event at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from .codec import Catalog
from .errors import JournalError
from .event import RecordedEvent
from .journal import Page

__all__ = ["pages_of"]

_EVENTS_MAX: Final = 256


def pages_of(events: Iterator[RecordedEvent], catalog: Catalog) -> Iterator[Page]:
    """Yield the events of one stream as typed pages; see `Journal.pages`.

    Raises:
        UnknownEvent: an event is not in the catalog; those before it have been yielded.
        StreamDeleted, CorruptRecord: reading them did.
    """
    while True:
        first, causes, typed = 0, list[str](), list[msgspec.Struct]()
        error: JournalError | None = None
        try:
            for recorded in events:
                first = first or recorded.sequence
                typed.append(catalog.decode(recorded))
                causes.append(recorded.cause)
                if len(typed) == _EVENTS_MAX:
                    break
        except JournalError as stopped:
            error = stopped
        if typed:
            yield Page(first, causes, typed)
        if error is not None:
            raise error
        if len(typed) < _EVENTS_MAX:
            return
