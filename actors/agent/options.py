"""What a tool says of its own durability, in its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["DEFAULT_ATTEMPTS", "OPTIONS_KEY", "attempts_of", "tool_options"]

DEFAULT_ATTEMPTS = 2
"""How often a tool that raises is tried, all attempts counted, unless its options say otherwise."""

ATTEMPTS_MAX = 100

OPTIONS_KEY = "clew"


def tool_options(*, attempts: int = DEFAULT_ATTEMPTS) -> dict[str, Any]:
    """Return tool metadata for a durable tool: `@agent.tool(metadata=tool_options(attempts=1))`.

    `attempts` is how often the tool is tried when it raises, all attempts counted, crashes in between or not.

    Raises:
        ValueError: attempts is not from 1 to 100.
    """
    if not 1 <= attempts <= ATTEMPTS_MAX:
        raise ValueError(f"attempts is from 1 to {ATTEMPTS_MAX}, not {attempts}")
    return {OPTIONS_KEY: {"attempts": attempts}}


def attempts_of(options: Mapping[str, Any]) -> int:
    """Return how often a tool with these options is tried."""
    return int(options.get("attempts", DEFAULT_ATTEMPTS))
