"""What a SQL journal asks of its host: to execute statements, and to make several of them one.

What is executed stays within what a Durable Object takes: at most `PARAMETERS_MAX` parameters a statement, no value
over `CHUNK_BYTES_MAX`, no transactions or pragmas in the text, and no integer over 2**53 that is read back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias, TypeVar

__all__ = ["PARAMETERS_MAX", "Execute", "NoRoom", "Reading", "Row", "Value"]

PARAMETERS_MAX: Final = 100
"""The most parameters of one statement: the limit of a Durable Object."""

Value: TypeAlias = bytes | str | int | None
Row: TypeAlias = tuple[Any, ...]

T = TypeVar("T")


class NoRoom(Exception):
    """The transaction did not fit, and nothing of it was written."""


class Reading(Protocol):
    """Executes statements that change nothing; each sees what is durable."""

    def execute(self, sql: str, *params: Value) -> list[Row]:
        """Return all rows: text as str, blobs as bytes."""
        ...


class Execute(Reading, Protocol):
    """Executes statements that change something too, one transaction at a time."""

    @property
    def name(self) -> str:
        """What errors call the database."""
        ...

    def atomically(self, work: Callable[[], T]) -> T:
        """Do `work`, which executes statements, all or nothing; return when what it did is durable.

        Raises:
            NoRoom: it did not fit; nothing of it was written.
            Exception: whatever `work` raised, or the database when nobody knows whether it was written.
        """
        ...
