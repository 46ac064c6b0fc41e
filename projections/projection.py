"""A projection: a named, versioned fold of events into something to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import msgspec

from ..journal import Catalog, RecordedEvent

__all__ = ["Projection", "project"]

S = TypeVar("S")
E = TypeVar("E", bound=msgspec.Struct)


@dataclass(frozen=True, kw_only=True)
class Projection(Generic[S, E]):
    """A fold with a name and a version; a new version is folded again from the first event.

    `initial()` makes the state before the first event and `apply(state, event, recorded)` returns the state after
    one. A fold owns its state: `apply` may change it in place. Events that are not in the catalog are passed over,
    unless `strict`, where they raise `UnknownEvent`.
    """

    name: str
    version: int
    catalog: Catalog
    initial: Callable[[], S]
    apply: Callable[[S, E, RecordedEvent], S]
    strict: bool = False


def project(projection: Projection[S, E], events: Iterable[RecordedEvent], state: S | None = None) -> S:
    """Return what the projection makes of `events`, from `state` or from the beginning.

    Raises:
        UnknownEvent: an event is not in the catalog and the projection is strict.
        CorruptRecord: a stored event does not fit its type.
    """
    reached = projection.initial() if state is None else state
    catalog = projection.catalog
    for recorded in events:
        if projection.strict or catalog.knows(recorded):
            reached = projection.apply(reached, cast("E", catalog.decode(recorded)), recorded)
    return reached
