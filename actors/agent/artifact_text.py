"""A long result as text, and where that may be cut: never within what a reader sees as one character."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

import msgspec

__all__ = ["NO_LIMITS", "ResultLimits", "end_at", "text_of"]

_BACK_MAX = 64
"""How far back a cut is moved at the most; longer clusters are not language."""

_JOINER = "\u200d"


class ResultLimits(NamedTuple):
    """How many characters of a result the model of an agent gets (None: all of it), and how many of an artifact.

    Where `read_max` is None, the agent has no tool to read artifacts.
    """

    chars_max: int | None = None
    read_max: int | None = None


NO_LIMITS = ResultLimits()


def text_of(content: msgspec.Raw) -> str:
    """Return the text of a result: of text itself, of anything else its JSON."""
    value: object = msgspec.json.decode(content)
    return value if isinstance(value, str) else bytes(content).decode()


def end_at(text: str, start: int, end: int) -> int:
    """Return where a piece of a text from `start` on may end, at `end` or a little before."""
    end = max(start + 1, min(end, len(text)))
    for at in range(end, max(start, end - _BACK_MAX), -1):
        if at == len(text) or not _is_within(text, at):
            return at
    return end


def _is_within(text: str, at: int) -> bool:
    """Whether a cut before this character would tear it from the one before."""
    before, after = text[at - 1], text[at]
    if before == "\r":
        return after == "\n"
    if before == _JOINER or _extends(after):
        return True
    return _is_flag(after) and _is_flag(before) and _flags_before(text, at) % 2 == 1


def _extends(character: str) -> bool:
    """Whether a character belongs to the one before: accents, joiners, variations, skin tones, tags."""
    if character < "\u0300":
        return False
    return unicodedata.category(character) in ("Mn", "Me", "Mc") or (
        character == _JOINER or "\U0001f3fb" <= character <= "\U0001f3ff" or "\U000e0020" <= character <= "\U000e007f"
    )


def _is_flag(character: str) -> bool:
    """Whether a character is half of a flag."""
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    count = 0
    while count < _BACK_MAX and count < at and _is_flag(text[at - 1 - count]):
        count += 1
    return count
