"""What failed in the background."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Failure"]


class Failure(NamedTuple):
    """Something that failed where nobody was waiting for it."""

    stream: str
    what: str
    error: BaseException
