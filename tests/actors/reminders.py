"""A kind of actor that lives by its alarm: reminders by name, each at a time, and what was done about them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from clew.actors import Activation, ActorSystem, CommandRejected, Decider, EventSourcedActor
from clew.actors.testing import VirtualClock
from clew.journal import Journal, event
from clew.journal.history import ALARMS, alarm_due
from tests.actors.support import WAIT_S, until

SECOND = 1_000_000_000

MARKER = "reminder/~marker"
"""Rings behind all others that are due at its time."""


@event("reminder.set", version=1)
class ReminderSet(msgspec.Struct, frozen=True):
    """Somebody is to be reminded."""

    name: str
    due: int


@event("reminder.cancelled", version=1)
class ReminderCancelled(msgspec.Struct, frozen=True):
    """Not any more."""

    name: str


@event("reminder.rang", version=1)
class ReminderRang(msgspec.Struct, frozen=True):
    """It was time."""

    name: str
    due: int
    at: int


class Remind(msgspec.Struct, frozen=True):
    """Set a reminder, or move it."""

    name: str
    due: int


class Cancel(msgspec.Struct, frozen=True):
    """Cancel a reminder."""

    name: str


class Fire(msgspec.Struct, frozen=True):
    """The alarm: ring all that is due."""

    at: int


class Hold(msgspec.Struct, frozen=True):
    """Run `inside()` within `decide`."""

    inside: Callable[[], object]


class Ask(msgspec.Struct, frozen=True):
    """Change nothing."""


Command = Remind | Cancel | Fire | Hold | Ask
Event = ReminderSet | ReminderCancelled | ReminderRang
Kind = EventSourcedActor["Reminders", Command, Event, dict[str, int]]


class Reminders(msgspec.Struct, frozen=True):
    """Whose they are, and when which is due."""

    stream: str
    due: dict[str, int]


class Bell:
    """The kind, under the eyes of a test: counts the alarms that its actors decide, and does with them what it is told.

    `how` is "rings" (all that is due), "sleeps" (does nothing about them) or "refuses"; `late` is by how much the
    alarm is later than the reminder, as another version of the code may have it. `broken` are streams that cannot be
    folded, and `woken` counts activations.
    """

    def __init__(self, *, how: str = "rings", late: int = 0, mailbox_size: int = 1000) -> None:
        self.how = how
        self.late = late
        self.broken: set[str] = set()
        self.fired: Counter[str] = Counter()
        self.woken: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.kind: Kind = EventSourcedActor(
            category="reminder",
            decider=Decider(
                initial=Reminders("", {}),
                decide=self._decide,
                evolve=self._evolve,
                answer=lambda state, _: state.due,
                due=self._due,
            ),
            events=(ReminderSet, ReminderCancelled, ReminderRang),
            initial_for=self._initial,
            alarm=Fire,
            mailbox_size=mailbox_size,
        )

    def _initial(self, stream: str) -> Reminders:
        self.woken[stream] += 1
        return Reminders(stream, {})

    def _decide(self, state: Reminders, command: Command) -> Sequence[Event]:
        match command:
            case Remind():
                return [ReminderSet(command.name, command.due)]
            case Cancel():
                return [ReminderCancelled(command.name)]
            case Fire():
                return self._fire(state, command.at)
            case Hold():
                command.inside()
                return []
            case Ask():
                return []

    def _fire(self, state: Reminders, at: int) -> Sequence[Event]:
        with self._lock:
            self.fired[state.stream] += 1
        if state.stream != MARKER and self.how == "refuses":
            raise CommandRejected("not now")
        if state.stream != MARKER and self.how == "sleeps":
            return []
        return [ReminderRang(name, due, at) for name, due in sorted(state.due.items()) if due <= at]

    def _due(self, state: Reminders) -> int | None:
        return min(state.due.values()) + self.late if state.due else None

    def _evolve(self, state: Reminders, event: Event) -> Reminders:
        if state.stream in self.broken:
            raise LookupError("broken")
        if isinstance(event, ReminderSet):
            return Reminders(state.stream, {**state.due, event.name: event.due})
        return Reminders(state.stream, {name: due for name, due in state.due.items() if name != event.name})


def awake(bell: Bell, journal: Journal, id: str = "a") -> Activation[Reminders, Command, Any, Any]:  # noqa: A002
    """Wake an actor without a system."""
    activation = Activation(bell.kind, id, journal)
    activation.correct_mark()
    return activation


def tell(activation: Activation[Any, Any, Any, Any], *commands: Command) -> None:
    """Let it handle commands, none of which it refuses."""
    for command in commands:
        handled = activation.handle(command, f"{activation.sequence}:{command}")
        assert handled.error is None


def remind(system: ActorSystem, bell: Bell, id: str, due: int, *, name: str = "r") -> None:  # noqa: A002
    """Set a reminder, and wait until it is durable."""
    system.ref(bell.kind, id).ask(Remind(name, due)).get(timeout=WAIT_S)


def pass_time(system: ActorSystem, bell: Bell, clock: VirtualClock, seconds: float) -> None:
    """Move the clock, and wait until all that is due was sent its alarm: the marker, the last of them, has rung."""
    before = len(rang(system.journal, MARKER))
    remind(system, bell, "~marker", clock.now + round(seconds * SECOND))
    clock.advance(seconds)
    until(lambda: len(rang(system.journal, MARKER)) > before)


def rang(journal: Journal, stream: str) -> list[int]:
    """The dues of the reminders of an actor that rang."""
    catalog = Bell().kind.catalog
    events = [catalog.decode(recorded) for recorded in journal.read(stream)]
    return [event.due for event in events if isinstance(event, ReminderRang)]


def filed(journal: Journal) -> list[tuple[int, str]]:
    """All alarms that are set: when and whose, in the order of their cells."""
    return [(alarm_due(mark), value.decode()) for mark, value in journal.cells.scan(ALARMS)]
