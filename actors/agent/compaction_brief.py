"""The brief of a conversation as it is recorded: a step of its own, whose result says how much it stands for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from ...journal.facts import StepCompleted, ThreadEvent

__all__ = ["BRIEF", "Brief", "Made", "brief_of", "last_brief"]

BRIEF = "llm:brief:"
"""What the names of its steps begin with: the number of the turn follows. What it used counts as that of any turn."""

COVERS = "covers"
"""The field of a step's request that says what was summarised."""


class Brief(NamedTuple):
    """A text that stands for the first `parts` parts of a conversation, whose digest is `covers`."""

    text: str
    parts: int
    covers: str


class Made(msgspec.Struct, omit_defaults=True):
    """The result of the step: the brief, or why what the model wrote is none; and what it used, as in a response.

    `covered` is how many parts of messages the brief stands for, from the first one on.
    """

    covered: int
    brief: str | None = None
    refused: str | None = None
    usage: msgspec.Raw = msgspec.Raw(b"{}")


_MADE = msgspec.json.Decoder(Made)


def brief_of(result: msgspec.Raw, covers: str) -> Brief | None:
    """Return the brief that a step made; None where what it made was refused."""
    made = _MADE.decode(result)
    return None if made.brief is None else Brief(made.brief, made.covered, covers)


def last_brief(events: Iterable[ThreadEvent]) -> Brief | None:
    """Return the last brief that is recorded among the facts of a thread."""
    last: StepCompleted | None = None
    for event in events:
        if isinstance(event, StepCompleted) and event.step.startswith(BRIEF) and _MADE.decode(event.result).brief:
            last = event
    return None if last is None else brief_of(last.result, last.request[COVERS])
