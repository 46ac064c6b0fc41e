"""A decision in the making: the facts so far, and the conversation as it will be after them."""

from __future__ import annotations

from collections.abc import Iterable

from ...journal.facts import ThreadEvent
from .evolve import evolve
from .state import ThreadState

__all__ = ["Draft"]


class Draft:
    """Facts that follow from each other, each decided on the state that those before it lead to."""

    def __init__(self, thread: ThreadState) -> None:
        self.thread = thread
        self.events: list[ThreadEvent] = []

    def add(self, *events: ThreadEvent) -> None:
        """Take more facts in."""
        for event in events:
            self.events.append(event)
            self.thread = evolve(self.thread, event)

    def extend(self, events: Iterable[ThreadEvent]) -> None:
        """Take more facts in."""
        self.add(*events)
