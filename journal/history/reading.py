"""Histories in: from a file or an open one, compressed or not."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from gzip import GzipFile
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias, cast

from ..event import RecordedEvent
from .lines import Lines

__all__ = ["HistorySource", "OpenHistory", "iter_history", "opened", "read_history"]

HistorySource: TypeAlias = str | Path | BinaryIO
"""The path of a history, or an open one."""

_GZIP: Final = b"\x1f\x8b"


def iter_history(source: HistorySource) -> Iterator[RecordedEvent]:
    """Yield the events of a history one at a time; each stream's digests are checked. Positions count the lines.

    The file is opened when the first event is asked for, and closed behind the last one.

    Raises:
        InvalidHistory: not a history, of a newer version, or a line that does not continue its stream; the events
            before it have been yielded.
        OSError: the file cannot be read.
    """
    with opened(source) as history:
        yield from history.lines()


def read_history(source: HistorySource) -> list[RecordedEvent]:
    """Read a whole history into memory; see `iter_history`.

    Raises:
        InvalidHistory, OSError: as for `iter_history`.
    """
    return list(iter_history(source))


class OpenHistory:
    """A history that can be read several times from its beginning."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._start = file.tell()

    def lines(self) -> Lines:
        """Return its lines, from the first one on. One reading ends where the next begins."""
        self._file.seek(self._start)
        magic = self._file.read(len(_GZIP))
        self._file.seek(self._start)
        file = cast("BinaryIO", GzipFile(fileobj=self._file, mode="rb")) if magic == _GZIP else self._file
        return Lines(file, self._name)


@contextmanager
def opened(source: HistorySource) -> Generator[OpenHistory]:
    """Open a history. One that can be read only once, as a pipe, is first copied to a temporary file."""
    with ExitStack() as files:
        if isinstance(source, str | Path):
            file: BinaryIO = files.enter_context(Path(source).open("rb"))
            name = str(source)
        else:
            file, name = source, str(getattr(source, "name", "history"))
        if not file.seekable():
            copy = cast("BinaryIO", files.enter_context(tempfile.TemporaryFile()))
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            file = copy
        yield OpenHistory(file, name)
