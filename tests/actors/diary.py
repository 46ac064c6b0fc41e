"""A kind of actor whose state is made of what JSON alone would change: times, decimals, tuples, sets, enums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum

import msgspec

from clew.actors import Decider, EventSourcedActor
from clew.journal import event
from clew.journal.snapshot import SnapshotPolicy

__all__ = ["DIARY", "Diary", "Mood", "Write"]


class Mood(Enum):
    """How it was."""

    GOOD = "good"
    BAD = "bad"


@event("diary.written", version=1)
class Written(msgspec.Struct, frozen=True):
    """A day was noted."""

    at: datetime
    mood: Mood | None
    spent: Decimal
    tags: list[str]


class Write(msgspec.Struct, frozen=True):
    """Note a day."""

    at: datetime
    mood: Mood | None
    spent: Decimal
    tags: list[str]


class Day(msgspec.Struct, frozen=True):
    """What is remembered of a day."""

    at: datetime
    since: timedelta | None
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Diary:
    """All that is remembered."""

    last: Day | None = None
    moods: tuple[Mood | None, ...] = ()
    spent: Decimal = Decimal(0)
    tags: frozenset[str] = frozenset()
    by_length: dict[int, tuple[str, float]] | None = None


def _evolve(diary: Diary, event: Written) -> Diary:
    since = event.at - diary.last.at if diary.last else None
    return replace(
        diary,
        last=Day(event.at, since, tuple(event.tags)),
        moods=(*diary.moods, event.mood),
        spent=diary.spent + event.spent,
        tags=diary.tags | set(event.tags),
        by_length={**(diary.by_length or {}), len(event.tags): ("tags", len(event.tags) / 2)},
    )


def _decide(_: Diary, command: Write) -> Sequence[Written]:
    return (Written(command.at, command.mood, command.spent, command.tags),)


def _answer(diary: Diary, _: Sequence[Written]) -> Decimal:
    return diary.spent


DIARY = EventSourcedActor[Diary, Write, Written, Decimal](
    category="diary",
    decider=Decider(initial=Diary(), decide=_decide, evolve=_evolve, answer=_answer),
    events=(Written,),
    state_type=Diary,
    snapshot=SnapshotPolicy(every=1),
)
