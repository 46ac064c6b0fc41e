"""The schedules of one actor in virtual time: what is due fires on the way, and a restart folds the events anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec

from clew.actors.schedule import (
    CancelSchedule,
    PauseSchedule,
    ResumeSchedule,
    Schedules,
    SetSchedule,
    Spec,
    cancel,
    due,
    evolve,
    fire,
    pause,
    resume,
    set_schedule,
)
from clew.actors.schedule.commands import Missed, Overlap
from clew.actors.schedule.times import SECOND_NS, nanoseconds
from clew.journal import Catalog
from clew.journal.facts.schedule import SCHEDULE_EVENTS, ScheduleEvent, ScheduleFired, ScheduleSkipped
from tests.actors.story import raw

CATALOG = Catalog(*SCHEDULE_EVENTS)
ScheduleCommand = SetSchedule | PauseSchedule | ResumeSchedule | CancelSchedule

START = 1_800_000_000 * SECOND_NS


def moment(text: str, zone: str = "UTC") -> int:
    """A local time in nanoseconds since the epoch."""
    return nanoseconds(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)))


def local(at: int, zone: str = "UTC") -> datetime:
    """A moment as the clock on a wall shows it."""
    return datetime.fromtimestamp(at // SECOND_NS, tz=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def decided(schedules: Schedules, command: ScheduleCommand) -> Sequence[ScheduleEvent]:
    match command:
        case SetSchedule():
            return set_schedule(schedules, command)
        case PauseSchedule():
            return pause(schedules, command)
        case ResumeSchedule():
            return resume(schedules, command)
        case CancelSchedule():
            return cancel(schedules, command)


def folded(events: Sequence[ScheduleEvent]) -> Schedules:
    schedules = Schedules()
    for event in events:
        schedules = evolve(schedules, event)
    return schedules


class Agenda:
    """Schedules with a clock of their own."""

    def __init__(self, now: int = START) -> None:
        self.now = now
        self.schedules = Schedules()
        self.events: list[ScheduleEvent] = []

    def take(self, events: Sequence[ScheduleEvent]) -> list[ScheduleEvent]:
        """Record events as an actor would: evolve on what will be read back."""
        read = [CATALOG.encode(event)[1] for event in events]
        for event in read:
            self.schedules = evolve(self.schedules, event)
        self.events += read
        return read

    def set(
        self,
        name: str,
        spec: Spec,
        action: object = "tick",
        *,
        overlap: Overlap = "skip",
        missed: Missed = "coalesce",
        missed_max: int = 10,
    ) -> list[ScheduleEvent]:
        command = SetSchedule(name, spec, raw(action), self.now, overlap, missed, missed_max)
        return self.take(set_schedule(self.schedules, command))

    def pause(self, name: str) -> list[ScheduleEvent]:
        return self.take(pause(self.schedules, PauseSchedule(name, self.now)))

    def resume(self, name: str) -> list[ScheduleEvent]:
        return self.take(resume(self.schedules, ResumeSchedule(name, self.now)))

    def cancel(self, name: str) -> list[ScheduleEvent]:
        return self.take(cancel(self.schedules, CancelSchedule(name, "enough", self.now)))

    def fire(self, *, busy: bool | Callable[[str], bool] = False) -> list[ScheduleEvent]:
        """Fire what is due now."""
        return self.take(fire(self.schedules, self.now, busy))

    def advance_to(self, at: int) -> None:
        """Let time pass, awake: each tick is handled when it is due."""
        while (tick := due(self.schedules)) is not None and tick <= at:
            self.now = max(self.now, tick)
            assert self.fire()
        self.now = at

    def advance(self, seconds: float) -> None:
        self.advance_to(self.now + round(seconds * SECOND_NS))

    def sleep(self, seconds: float) -> None:
        """Let time pass, asleep: what is due is handled afterwards."""
        self.now += round(seconds * SECOND_NS)

    def restart(self) -> None:
        """Forget all but the events."""
        live, self.schedules = self.schedules, folded(self.events)
        assert msgspec.json.encode(self.schedules) == msgspec.json.encode(live)

    def fired(self, name: str) -> list[int]:
        return [event.due for event in self.events if isinstance(event, ScheduleFired) and event.name == name]

    def skipped(self, name: str) -> list[tuple[str, int]]:
        return [
            (event.reason, event.count)
            for event in self.events
            if isinstance(event, ScheduleSkipped) and event.name == name
        ]

    @property
    def next_due(self) -> int:
        tick = due(self.schedules)
        assert tick is not None
        return tick
