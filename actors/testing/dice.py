"""Chance that is the same each time."""

from __future__ import annotations

from random import Random

__all__ = ["dice"]


def dice(*names: object) -> Random:
    """Return the dice of this name: they always fall the same way, in every process."""
    return Random("/".join(map(str, names)))  # noqa: S311  (repeatable on purpose)
