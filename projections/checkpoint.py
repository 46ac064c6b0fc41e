"""How far a durable projection has read, which builds of it there are, and the cells where that is kept.

```
projection/builds/NAME                which build is live, which is being made, which are to be removed
projection/at/NAME/VERSION/BUILD      the build's checkpoint, written with its rows
projection/rows/NAME/VERSION/BUILD/   the build's rows
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from ..journal import Cells, ProjectionFailed

__all__ = ["Build", "Builds", "Checkpoint", "Parked", "encoded", "names", "read_builds", "read_checkpoint"]

S = TypeVar("S", bound=msgspec.Struct)


class Parked(msgspec.Struct, frozen=True):
    """Where a projection stands still, and why. The event at `position` is the one that it could not fold.

    Where the journal could not be read, there is no stream and the position is the last one that could.
    """

    position: int
    stream: str
    sequence: int
    error: str
    reason: str


class Checkpoint(msgspec.Struct, frozen=True):
    """The last position that counts in the rows, and how many events do."""

    position: int = 0
    events: int = 0
    parked: Parked | None = None


class Build(msgspec.Struct, frozen=True):
    """One table of a projection: by which version it is folded, and a number no other build of it has had."""

    version: int
    number: int

    def at(self, name: str) -> bytes:
        """Return the cell of its checkpoint."""
        return f"projection/at/{name}/{self.version}/{self.number}".encode()

    def rows(self, name: str) -> bytes:
        """Return what the cells of its rows begin with."""
        return f"projection/rows/{name}/{self.version}/{self.number}/".encode()

    @staticmethod
    def everything(name: str) -> tuple[bytes, bytes]:
        """Return what the cells of all builds begin with: their rows, their checkpoints."""
        return f"projection/rows/{name}/".encode(), f"projection/at/{name}/".encode()


class Builds(msgspec.Struct, frozen=True):
    """The builds of a projection: the one that is read, one that may take its place, and those to be removed."""

    live: Build | None = None
    next: Build | None = None
    retired: tuple[Build, ...] = ()
    last_number: int = 0

    @staticmethod
    def cell(name: str) -> bytes:
        """Return where this is kept."""
        return f"projection/builds/{name}".encode()

    def of(self, version: int) -> Build | None:
        """Return the build of this version, the live one first."""
        return next((build for build in (self.live, self.next) if build and build.version == version), None)

    def begin(self, version: int) -> Builds:
        """Return what is there once a new build was begun in place of the next one; the first is live at once."""
        build = Build(version, self.last_number + 1)
        live, following = (build, None) if self.live is None else (self.live, build)
        return Builds(live, following, _and(self.retired, self.next), build.number)

    def switch(self) -> Builds:
        """Return what is there once the next build is the live one."""
        return Builds(self.next, None, _and(self.retired, self.live), self.last_number)

    def give_up(self, build: Build) -> Builds:
        """Return what is there once a build was given up."""
        live, following = (None if one == build else one for one in (self.live, self.next))
        return Builds(live, following, _and(self.retired, build), self.last_number)

    def without(self, build: Build) -> Builds:
        """Return what is there once a retired build was removed."""
        return msgspec.structs.replace(self, retired=tuple(other for other in self.retired if other != build))


def _and(retired: tuple[Build, ...], build: Build | None) -> tuple[Build, ...]:
    return (*retired, build) if build else retired


_BUILDS = msgspec.json.Decoder(Builds)
_CHECKPOINT = msgspec.json.Decoder(Checkpoint)


def encoded(kept: Builds | Checkpoint) -> bytes:
    """Return it as the bytes of its cell."""
    return msgspec.json.encode(kept)


def read_builds(cells: Cells, name: str) -> tuple[Builds, bytes | None]:
    """Return the builds of a projection and the cell's value, which a change of it expects.

    Raises:
        ProjectionFailed: the cell holds something else.
    """
    value = cells.get(Builds.cell(name))
    return (Builds() if value is None else _decoded(_BUILDS, value, name)), value


def read_checkpoint(cells: Cells, name: str, build: Build) -> tuple[Checkpoint, bytes] | None:
    """Return the checkpoint of a build and the cell's value; None when the build is gone.

    Raises:
        ProjectionFailed: the cell holds something else.
    """
    value = cells.get(build.at(name))
    return None if value is None else (_decoded(_CHECKPOINT, value, name), value)


def _decoded(decoder: msgspec.json.Decoder[S], value: bytes, name: str) -> S:
    try:
        return decoder.decode(value)
    except msgspec.MsgspecError as error:
        raise ProjectionFailed(projection=name, where="its checkpoint", reason=f"{value[:60]!r}: {error}") from error


def names(cells: Cells) -> Iterator[str]:
    """Yield the names of the projections that have a place in this journal."""
    prefix = Builds.cell("")
    return (key[len(prefix) :].decode() for key, _ in cells.scan(prefix))
