"""How long: a number and a unit, as `90d`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from .exits import Refused
from .render import one_line

__all__ = ["duration_of"]

_TEXT: Final = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


def duration_of(text: str) -> timedelta:
    """Return the time that `text` says.

    >>> duration_of("90d").days, duration_of("36h").days
    (90, 1)

    Raises:
        Refused: it says none.
    """
    found = _TEXT.fullmatch(text.strip())
    try:
        if found:
            return int(found[1]) * _UNITS[found[2]]
    except OverflowError:
        pass
    raise Refused(f"{one_line(text)!r} is not a time: write a number and s, m, h, d or w, such as 36h or 90d")
