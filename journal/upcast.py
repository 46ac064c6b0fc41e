"""Upcasters: how an event of an old version is read today."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .event import EventType

__all__ = ["Upcaster", "Upcasters"]


class Upcaster(NamedTuple):
    """Turns the fields of `name` in `version` into those of `version + 1`; a pure function of a dict.

    >>> cents = Upcaster("order.refunded", 1, lambda old: {"cents": old["euros"] * 100})
    >>> cents.change({"euros": 4})
    {'cents': 400}
    """

    name: str
    version: int
    change: Callable[[dict[str, Any]], dict[str, Any]]


class Upcasters:
    """The chain of upcasters from any old version to the next ones."""

    def __init__(self, upcasters: Iterable[Upcaster] = ()) -> None:
        self._by_type: dict[EventType, Upcaster] = {}
        for upcaster in upcasters:
            key = EventType(upcaster.name, upcaster.version)
            if key in self._by_type:
                raise TypeError(f"two upcasters lead away from {key.name!r} version {key.version}; keep one")
            self._by_type[key] = upcaster

    def next(self, kind: EventType, fields: dict[str, Any]) -> tuple[EventType, dict[str, Any]] | None:
        """Take one step up, or return None where no upcaster leads on."""
        upcaster = self._by_type.get(kind)
        if upcaster is None:
            return None
        return EventType(kind.name, kind.version + 1), upcaster.change(fields)
