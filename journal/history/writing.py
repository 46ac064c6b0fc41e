"""Events out of a journal, as a history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from gzip import GzipFile
from typing import BinaryIO, Final, TypeAlias, cast

from ..event import RecordedEvent
from .lines import header, line_of

__all__ = ["PROGRESS_EVENTS", "Progress", "compressed", "write_history"]

Progress: TypeAlias = Callable[[int, int], None]
"""Told `(events, bytes)` so far, the bytes without compression: every thousand events, and at the end."""

PROGRESS_EVENTS: Final = 1000


def write_history(
    events: Iterable[RecordedEvent],
    out: BinaryIO,
    *,
    compress: bool | None = None,
    progress: Progress | None = None,
) -> int:
    """Write `events` as a history, one at a time; return how many there were. Events of one stream are in order.

    `journal.read(stream)` is one stream, `journal.read_all(category=...)` a category, `journal.read_all()` all of it.
    It is compressed with gzip when the file's name ends in `.gz`, or as `compress` says; equal events are equal
    bytes either way. The file is neither flushed nor closed; `save_history` does all of that.
    """
    zipped = compressed(getattr(out, "name", "")) if compress is None else compress
    # Neither a time nor a name in the file: the same events are the same bytes.
    file = GzipFile(filename="", mode="wb", compresslevel=6, fileobj=out, mtime=0) if zipped else nullcontext(out)
    with file as opened:
        return _write(events, cast("BinaryIO", opened), progress)


def compressed(name: object) -> bool:
    """Whether a file of this name is to be compressed."""
    return isinstance(name, str) and name.endswith(".gz")


def _write(events: Iterable[RecordedEvent], out: BinaryIO, progress: Progress | None) -> int:
    count, size_bytes = 0, out.write(header())
    for count, event in enumerate(events, 1):
        size_bytes += out.write(line_of(event))
        if progress is not None and count % PROGRESS_EVENTS == 0:
            progress(count, size_bytes)
    if progress is not None:
        progress(count, size_bytes)
    return count
