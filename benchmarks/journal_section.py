"""One part of the journal's benchmark: its question, and a row for each thing measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

__all__ = ["Section"]

R = TypeVar("R", bound=msgspec.Struct)


class Section(msgspec.Struct, Generic[R], frozen=True):
    """What a part found; where the floor is no column of the rows, it stands in rows of its own."""

    question: str
    rows: Sequence[R]
    floor: Sequence[R] = ()
