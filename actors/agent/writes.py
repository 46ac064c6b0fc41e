"""What a tool changes beside its result: held back, and recorded together with it or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...journal import encode_exact
from ..outbox import Outgoing
from ..schedule import CancelSchedule, SetSchedule

__all__ = ["CheckState", "ReadState", "Writes", "read_plain"]

CheckState = Callable[[Any], None]
"""Refuses a value that the thread's synced state may not have, by raising."""

ReadState = Callable[[msgspec.Raw | None], Any]
"""Returns a stored state as the agent sees it."""


def read_plain(stored: msgspec.Raw | None) -> Any:
    """Return a stored state as it is; None where there is none."""
    return None if stored is None else msgspec.json.decode(stored)


class Writes:
    """The changes of one attempt at a tool's step, in the order it made them."""

    def __init__(self, what: str, check: CheckState | None, read: ReadState = read_plain) -> None:
        self.messages: list[Outgoing] = []
        self.schedules: list[SetSchedule | CancelSchedule] = []
        self._what = what
        self._check = check
        self._read = read
        self._changes: list[Callable[[Any], Any]] = []

    @property
    def state(self) -> Callable[[msgspec.Raw | None], msgspec.Raw | None] | None:
        """What makes the new state from the one that is there when the step is recorded; None if nothing changes it."""
        return self.apply if self._changes else None

    def set_state(self, value: Any) -> None:
        """Replace the state."""
        held = self._encode(value)
        self._changes.append(lambda _: msgspec.json.decode(held))

    def update_state(self, change: Callable[[Any], Any]) -> None:
        """Change the state by a function of what it is then."""
        self._changes.append(change)

    def look(self, state: msgspec.Raw | None) -> Any:
        """Return the state after these changes as the agent sees it; raises like `apply`."""
        return self._read(self.apply(state))

    def apply(self, state: msgspec.Raw | None) -> msgspec.Raw | None:
        """Return the state after these changes.

        Raises:
            NotRepresentable, or what the model of the state raises: a change made a value that cannot be the state.
        """
        if not self._changes:
            return state
        value = self._read(state)
        for change in self._changes:
            value = change(value)
        return self._encode(value)

    def _encode(self, value: Any) -> msgspec.Raw:
        encoded = encode_exact(value, what=self._what)
        if self._check is not None:
            self._check(msgspec.json.decode(encoded))
        return encoded
