"""A projection: a named, versioned fold of events into something to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar, cast

import msgspec

from ..journal import Catalog, RecordedEvent

__all__ = ["Projection", "Unknown", "project", "typed"]

S = TypeVar("S")
E = TypeVar("E", bound=msgspec.Struct)

Unknown: TypeAlias = Literal["skip", "error"]
"""What a projection does with an event that is not in its catalog: pass over it, or refuse to go on."""

UNKNOWN = ("skip", "error")


@dataclass(frozen=True, kw_only=True)
class Projection(Generic[S, E]):
    """A fold with a name and a version; a new version is folded again from the first event.

    `initial()` makes the state before the first event and `apply(state, event, recorded)` returns the state after
    one. A fold owns its state: `apply` may change it in place. Events that are not in the catalog are passed over;
    with `unknown="error"` they raise `UnknownEvent`. `strict=True` is another way to say that.
    """

    name: str
    version: int
    catalog: Catalog
    initial: Callable[[], S]
    apply: Callable[[S, E, RecordedEvent], S]
    unknown: Unknown = "skip"
    strict: bool = False

    def __post_init__(self) -> None:
        """Let the two ways to say it agree."""
        if self.unknown not in UNKNOWN:
            raise ValueError(f"projection {self.name!r}: unknown is 'skip' or 'error', not {self.unknown!r}")
        error = self.strict or self.unknown == "error"
        object.__setattr__(self, "strict", error)
        object.__setattr__(self, "unknown", "error" if error else "skip")


def project(projection: Projection[S, E], events: Iterable[RecordedEvent], state: S | None = None) -> S:
    """Return what the projection makes of `events`, from `state` or from the beginning.

    Raises:
        UnknownEvent: an event is not in the catalog and `unknown` is "error"; names its stream and sequence.
        CorruptRecord: a stored event does not fit its type.
    """
    reached = projection.initial() if state is None else state
    for recorded in events:
        event = typed(projection.catalog, recorded, projection.unknown)
        if event is not None:
            reached = projection.apply(reached, cast("E", event), recorded)
    return reached


def typed(catalog: Catalog, recorded: RecordedEvent, unknown: Unknown) -> msgspec.Struct | None:
    """Return the typed event, or None for one to pass over.

    Raises:
        UnknownEvent, CorruptRecord: as for `project`.
    """
    return catalog.decode(recorded) if unknown == "error" or catalog.knows(recorded) else None
