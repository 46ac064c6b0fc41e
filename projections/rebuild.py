"""Fold a projection again from the first event, beside its live rows, and compare."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Final, Literal, TypeVar

import msgspec

from ..journal import CellConflict, Cells, CellWrite
from .batch import BuildFold, Outcome
from .checkpoint import Build, Parked, read_builds, read_checkpoint
from .durable import DurableProjection

__all__ = ["RebuildReport", "compare_tables", "rebuild"]

R = TypeVar("R")
E = TypeVar("E", bound=msgspec.Struct)

_ROUNDS: Final = 10
_KEYS: Final = 10


class RebuildReport(msgspec.Struct, frozen=True):
    """How a rebuild ended.

    - `switched`: the new rows are live. They were equal to the old ones, or it was asked for whatever they are.
    - `differs`: they are not equal, and the old ones stay live.
    - `parked`: an event could not be folded (`parked`), and the old ones stay live.
    - `busy`: the live rows never stood still, or another rebuild began; ask again.

    `missing` rows are in the live table only, `added` in the new one only, `changed` in both; `keys` names some of
    them. The digests run over all rows in order.
    """

    name: str
    outcome: Literal["switched", "differs", "parked", "busy"]
    rows: int = 0
    digest: str = ""
    live_digest: str = ""
    missing: int = 0
    added: int = 0
    changed: int = 0
    keys: tuple[str, ...] = ()
    parked: Parked | None = None


def rebuild(durable: DurableProjection[R, E], *, accept: bool = False) -> RebuildReport:
    """Fold all events again and let the new rows take the place of the live ones, if both are equal.

    The live rows are read and kept up meanwhile; they stand still only while both are compared. With `accept` the
    new ones are taken though they differ, as after events of deleted streams or a correction within a version. Where
    the code has a higher version than the live rows there is nothing to compare. Waits until the old rows are removed.
    Where the process dies in the middle, the live rows are what they were, or the switch is done: rebuild again.

    Raises:
        ReadOnlyJournal, JournalClosed, JournalFull, AppendUnknown, ProjectionFailed: as for `catch_up`.
    """
    durable.catch_up()
    name, cells = durable.projection.name, durable.journal.cells
    with durable.lock:
        builds, value = read_builds(cells, name)
        builds = builds.begin(durable.projection.version)
        try:
            durable.change(value, builds)
        except CellConflict:
            return RebuildReport(name, "busy")
    assert builds.next is not None  # noqa: S101  (there was a live one, so this is the next)
    report = _finish(durable, builds.next, accept=accept)
    while durable.remove_some():
        pass
    return report


def _finish(durable: DurableProjection[R, E], build: Build, *, accept: bool) -> RebuildReport:
    name = durable.projection.name
    fold = BuildFold(durable.journal, durable.projection, build, durable.limits)
    try:
        for _ in range(_ROUNDS):
            live = _live(durable)
            if live is None:
                break
            while (outcome := fold.step(until=live[1])) in ("more", "failed"):
                pass
            with durable.lock:
                report = _decide(durable, build, live, outcome, accept=accept)
            if report is not None:
                return report
        _give_up(durable, build)
    except CellConflict:
        # Another rebuild, or another version, has retired this build.
        pass
    return RebuildReport(name, "busy")


def _decide(
    durable: DurableProjection[R, E],
    build: Build,
    live: tuple[Build, int, bytes],
    outcome: Outcome,
    *,
    accept: bool,
) -> RebuildReport | None:
    """Compare and switch, or give up; None when the live rows moved, so that there is more to fold first."""
    cells, name = durable.journal.cells, durable.projection.name
    if outcome == "parked":
        found = read_checkpoint(cells, name, build)
        _give_up(durable, build)
        return RebuildReport(name, "parked", parked=found[0].parked if found else None)
    if _live(durable) != live:
        return None
    builds, value = read_builds(cells, name)
    report = compare_tables(cells, name, live[0], build)
    if report.outcome == "differs" and not accept and live[0].version == build.version:
        _give_up(durable, build)
        return report
    try:
        durable.change(value, builds.switch(), also=[CellWrite(live[0].at(name), None, live[2])])
    except CellConflict:
        return None
    return msgspec.structs.replace(report, outcome="switched")


def _give_up(durable: DurableProjection[R, E], build: Build) -> None:
    builds, value = read_builds(durable.journal.cells, durable.projection.name)
    if builds.next == build:
        durable.change(value, builds.give_up(build))


def _live(durable: DurableProjection[R, E]) -> tuple[Build, int, bytes] | None:
    """Return the live build, its position, and the value of its checkpoint."""
    cells, name = durable.journal.cells, durable.projection.name
    live = read_builds(cells, name)[0].live
    found = read_checkpoint(cells, name, live) if live else None
    return (live, found[0].position, found[1]) if live and found else None


def compare_tables(cells: Cells, name: str, live: Build, build: Build) -> RebuildReport:
    """Return how the rows of a build differ from the live ones; `switched` when they do not."""
    digests = sha256(), sha256()
    counts = dict.fromkeys(("missing", "added", "changed"), 0)
    rows, keys = 0, list[str]()
    for old, new in _pairs(_table(cells, live.rows(name)), _table(cells, build.rows(name))):
        for digest, row in zip(digests, (old, new), strict=True):
            digest.update(row or b"")
        rows += new is not None
        if old != new:
            counts["missing" if new is None else "added" if old is None else "changed"] += 1
            if len(keys) < _KEYS:
                keys.append(_KEY.decode(new or old or b"")[0])
    live_digest, digest = (found.hexdigest() for found in digests)
    outcome = "switched" if live_digest == digest else "differs"
    return RebuildReport(name, outcome, rows, digest, live_digest, keys=tuple(keys), **counts)


_KEY = msgspec.json.Decoder(tuple[str, msgspec.Raw])


def _table(cells: Cells, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    return ((cell[len(prefix) :], value) for cell, value in cells.scan(prefix))


def _pairs(
    old: Iterator[tuple[bytes, bytes]], new: Iterator[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield the rows of two ordered tables side by side, None where one has no such row."""
    left, right = next(old, None), next(new, None)
    while left is not None or right is not None:
        if right is None or (left is not None and left[0] < right[0]):
            yield left[1] if left else None, None
            left = next(old, None)
        elif left is None or right[0] < left[0]:
            yield None, right[1]
            right = next(new, None)
        else:
            yield left[1], right[1]
            left, right = next(old, None), next(new, None)
