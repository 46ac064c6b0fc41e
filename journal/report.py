"""What an examination of a whole journal has found."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["Report"]

_PROBLEMS_MAX: Final = 1000


class Report(msgspec.Struct):
    """How many events, streams and chunks were read, and what is wrong, each naming its stream and sequence.

    `unlisted` counts problems beyond the first thousand.
    """

    events: int = 0
    streams: int = 0
    problems: list[str] = []
    unlisted: int = 0
    chunks: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def add(self, problem: str) -> None:
        """Take a problem into the list, while there is room."""
        if len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(problem)
        else:
            self.unlisted += 1
