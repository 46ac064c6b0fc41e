"""The root of the tree, and what every refused command is."""

from __future__ import annotations

from ...journal import ClewError

__all__ = ["SHOWN_MAX", "ActorError", "CommandRejected", "shorten"]


SHOWN_MAX = 500
"""Characters of a value that an error shows."""


class ActorError(ClewError):
    """An actor, or the system it lives in, could not do what was asked."""


class CommandRejected(ActorError):
    """`decide` refused the command: nothing was written, and asking again is decided anew."""


def shorten(text: str) -> str:
    """Return a value as an error shows it."""
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}... ({len(text)} characters)"
