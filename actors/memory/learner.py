"""Who learns for a memory: asks a model what a run says. Given to the kind, so that the core knows no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from ...journal.facts import NOTHING
from ...journal.facts.memory import EntitySeen, RelationSeen, RunObserved

__all__ = ["Learner", "Lesson", "Told"]


class Lesson(msgspec.Struct, frozen=True):
    """What a run says of things and their relations, and what it cost to find out."""

    entities: list[EntitySeen]
    relations: list[RelationSeen]
    usage: msgspec.Raw = NOTHING


class Told(msgspec.Struct, frozen=True):
    """What happened, in a sentence, and what it cost to say it."""

    text: str
    usage: msgspec.Raw = NOTHING


class Learner(Protocol):
    """Learns from runs. What it raises is recorded, and nothing is learned then; a crash has it asked again."""

    async def extract(self, owner: str, observed: RunObserved) -> Lesson:
        """Return what a run says of things and their relations (the step `memory:extract`)."""
        ...

    async def episode(self, owner: str, observed: RunObserved) -> Told:
        """Return what happened in a run (the step `memory:episode`)."""
        ...

    async def merge(self, owner: str, agent: str, texts: Sequence[str]) -> Told:
        """Return what happened in several episodes, the oldest first."""
        ...
