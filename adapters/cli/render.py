"""What people and programs read: tables, lines and JSON, safe to show in a terminal and plain when it is none."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.console import Console

__all__ = [
    "Column",
    "console",
    "counted",
    "one_line",
    "safe",
    "shorten",
    "size_of",
    "time_of",
    "write_json",
    "write_table",
]

WIDTH_PLAIN: Final = 10_000
"""Where nobody looks at a terminal, lines are as long as they are."""

# Joiners inside of words and emoji; all else that prints nothing is shown by its code.
_HARMLESS: Final = frozenset("\u200c\u200d")
_KILO: Final = 1024
_GAP: Final = "  "
_WIDTH_MIN: Final = 8


class Column(msgspec.Struct, frozen=True):
    """A column of a table: its title, whether it holds numbers, and when it is cut where space is short (0: never)."""

    title: str
    number: bool = False
    cut: int = 0


def console(*, stderr: bool = False) -> Console:
    """Return where to print: coloured and as wide as the terminal, or plain and unbroken when there is none."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else WIDTH_PLAIN
    return _Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def safe(text: str, *, lines: bool = False) -> str:
    """Return `text` without anything that could steer a terminal; line breaks stay only with `lines`."""
    kept = {"\n", "\t"} if lines else set[str]()
    return "".join(c if c.isprintable() or c in _HARMLESS or c in kept else _escaped(c) for c in text)


def one_line(text: str) -> str:
    """Return `text` on one line, safe to show."""
    return safe(" ".join(text.split()))


def shorten(text: str, length: int) -> str:
    """Return `text` on one line and at most `length` characters long."""
    line = one_line(text)
    return line if len(line) <= length else f"{line[: max(0, length - 3)]}..."


def time_of(at: int, *, date: bool = True, ms: bool = False) -> str:
    """Return a time in nanoseconds since the epoch as this machine's clock would show it."""
    local = datetime.fromtimestamp(at / 1_000_000_000, tz=UTC).astimezone()
    text = local.strftime("%Y-%m-%d %H:%M:%S" if date else "%H:%M:%S")
    return f"{text}.{local.microsecond // 1000:03}" if ms else text


def size_of(size_bytes: int) -> str:
    """Return a size as people write it."""
    if size_bytes < _KILO:
        return f"{size_bytes} B"
    size, unit = size_bytes / _KILO, "KiB"
    for bigger in ("MiB", "GiB", "TiB"):
        if size < _KILO:
            break
        size, unit = size / _KILO, bigger
    return f"{size:.1f} {unit}"


def write_json(value: object) -> None:
    """Write one JSON value as one line, at once."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def write_table(out: Console, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Write rows of safe text under titles; in a terminal, columns that may be cut are, until the lines fit."""
    cells = list(rows)
    widths = [
        max([cell_len(column.title), *(cell_len(row[place]) for row in cells)]) for place, column in enumerate(columns)
    ]
    order = sorted((column.cut, place) for place, column in enumerate(columns) if column.cut)
    for _, place in order:
        too_wide = sum(widths) + len(_GAP) * (len(widths) - 1) - out.width
        widths[place] -= max(0, min(too_wide, widths[place] - _WIDTH_MIN))
    out.print(_line(columns, widths, [column.title for column in columns]), style="bold", soft_wrap=True)
    for row in cells:
        out.print(_line(columns, widths, row), soft_wrap=True)


def _line(columns: Sequence[Column], widths: Sequence[int], row: Sequence[str]) -> str:
    fitted = [_fit(cell, width, column) for cell, width, column in zip(row, widths, columns, strict=True)]
    return _GAP.join(fitted).rstrip()


def _fit(cell: str, width: int, column: Column) -> str:
    missing = width - cell_len(cell)
    if missing < 0:
        return f"{set_cell_size(cell, width - 1)}\u2026"
    return " " * missing + cell if column.number else cell + " " * missing


def counted(count: int, noun: str) -> str:
    """Return how many there are, in words.

    >>> counted(1, "step"), counted(2, "step")
    ('1 step', '2 steps')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to whoever handles the error for all other output, instead of ending the process here."""
        raise  # noqa: PLE0704  (it is called while the error is handled)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
