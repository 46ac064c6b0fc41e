"""How the projections of a journal are doing, and what to do where one stands still."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from ..journal import Cells, Journal
from .checkpoint import Build, Parked, names, read_builds, read_checkpoint

__all__ = ["ProjectionStatus", "projection_status", "statuses_of"]


class ProjectionStatus(msgspec.Struct, frozen=True):
    """One build of a projection: `live` is read, `building` will take its place, `parked` stands still.

    `position` is the last one that counts in its rows, and `events` how many do; what it passes over moves the
    position only now and then. `parked` has the event that it could not fold, and `advice` says what to do.
    """

    name: str
    version: int
    state: Literal["live", "building", "parked"]
    position: int
    events: int
    parked: Parked | None = None
    advice: str = ""


def projection_status(journal: Journal) -> list[ProjectionStatus]:
    """Return the state of every projection that has a place in this journal, by name. A readonly handle will do.

    Raises:
        ProjectionFailed: what is kept of a projection cannot be read.
    """
    return [status for name in names(journal.cells) for status in statuses_of(journal.cells, name)]


def statuses_of(cells: Cells, name: str) -> Iterator[ProjectionStatus]:
    """Yield the state of the builds of one projection, the live one first."""
    builds, _ = read_builds(cells, name)
    for build in (builds.live, builds.next):
        found = read_checkpoint(cells, name, build) if build else None
        if build is not None and found is not None:
            checkpoint, _ = found
            parked = checkpoint.parked
            state = "parked" if parked else "live" if build == builds.live else "building"
            advice = _advice(name, build, parked) if parked else ""
            yield ProjectionStatus(name, build.version, state, checkpoint.position, checkpoint.events, parked, advice)


def _advice(name: str, build: Build, parked: Parked) -> str:
    where = f"{parked.stream}, sequence {parked.sequence}" if parked.stream else f"behind position {parked.position}"
    return (
        f"projection {name!r}, version {build.version}, is parked at position {parked.position} ({where}): "
        f"{parked.error}: {parked.reason}. "
        "Correct its code and retry it, or give it a higher version to fold everything again."
    )
