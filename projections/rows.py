"""Row projections: a table folded from the whole journal, one event at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from ..journal import Catalog, InvalidName, RecordedEvent
from .projection import UNKNOWN, Unknown

__all__ = ["RowProjection", "Rows"]

R = TypeVar("R")
E = TypeVar("E", bound=msgspec.Struct)

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


class Rows(Protocol[R]):
    """The rows of a projection by their keys, which are any text but the empty one.

    A row is kept as it was when it was set: change a row that you got, then set it again. What one event changes is
    kept together or, when `apply` raises, not at all.
    """

    def get(self, key: str) -> R | None:
        """Return a row of your own, or None when there is none."""
        ...

    def set(self, key: str, row: R) -> None:
        """Make `row` what is kept under `key`."""
        ...

    def delete(self, key: str) -> None:
        """Remove a row; it need not be there."""
        ...

    def scan(self, prefix: str = "", *, after: str = "") -> Iterator[tuple[str, R]]:
        """Yield the rows whose keys begin with `prefix`, beyond the key `after`, as of the call.

        They are ordered by the keys' UTF-8 bytes. Keys of more than 300 bytes come in the order of their first 300.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class RowProjection(Generic[R, E]):
    """A table with a name and a version, folded from the events of `category`, or of the whole journal.

    `apply(rows, event, recorded)` reads and writes rows of the type `row`. It is pure: the same events make the same
    rows, wherever a batch ended or a process died, and no clock, dice or network is looked at. Give it a higher
    version when it would make other rows of the same events; they are then all folded again, beside the old ones.
    Events that are not in the catalog are passed over, or with `unknown="error"` park the projection.

    The events of a deleted stream are gone, and what was folded from them stays until a rebuild. A stream that comes
    back from its archive has its events at new positions, so that they are folded again: a projection that must not
    count them twice keeps the last sequence of each stream in a row.

    Raises:
        InvalidName: the name is not lower case letters, digits, - and _, at most 64.
        ValueError: the version is not a whole number from 1, or `unknown` is neither "skip" nor "error".
    """

    name: str
    version: int
    catalog: Catalog
    row: type[R]
    apply: Callable[[Rows[R], E, RecordedEvent], None]
    category: str | None = None
    unknown: Unknown = "skip"

    def __post_init__(self) -> None:
        """Refuse what could not be kept."""
        if not _NAME.fullmatch(self.name):
            raise InvalidName(
                name=self.name, reason="a projection is named in lower case letters, digits, - and _, at most 64"
            )
        if self.version < 1:
            raise ValueError(f"projection {self.name!r}: the version is a whole number from 1, not {self.version!r}")
        if self.unknown not in UNKNOWN:
            raise ValueError(f"projection {self.name!r}: unknown is 'skip' or 'error', not {self.unknown!r}")
