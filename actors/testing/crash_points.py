"""Every place where a scenario can die, and what is true afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from .ends import difference, ends_of, timeless
from .world import Point, Scenario, World

__all__ = ["CrashFailure", "CrashPoints", "CrashPointsFailed", "crash_points"]

SHOWN_MAX = 5
"""Failures that the error's text tells of; all are in its `failures`."""


class CrashFailure(NamedTuple):
    """A place where dying changed something: `only=where` repeats it."""

    where: str
    reason: str


@dataclass(frozen=True)
class CrashPoints:
    """What was tried: the places, and how often keys were asked for again because the first time was not recorded."""

    points: tuple[Point, ...]
    redelivered: int


class CrashPointsFailed(AssertionError):
    """Dying somewhere changed what is true in the end; `failures` says where, and what."""

    def __init__(self, failures: tuple[CrashFailure, ...], points: int) -> None:
        self.failures = failures
        self.points = points
        shown = [f"  {one.where}: {one.reason}\n    repeat it with only={one.where!r}" for one in failures[:SHOWN_MAX]]
        more = [f"  and {len(failures) - SHOWN_MAX} more"] if failures[SHOWN_MAX:] else []
        super().__init__("\n".join([f"{len(failures)} of {points} crash points failed:", *shown, *more]))


class _End(NamedTuple):
    """What is compared."""

    ends: dict[str, Any]
    returned: Any
    effects: list[str]


def crash_points(
    scenario: Scenario[object], *, only: str | None = None, ends: Callable[[World], object] | None = None
) -> CrashPoints:
    """Run a scenario, then again for each place where it can die, and compare how it ends.

    The places are before and after each append, each commit, each effect (`world.effect`) and each alarm. A process
    that dies loses its memory and whatever was not durable; then the scenario begins anew over what is durable. So
    it is a program that can be started twice: it gives its runs and commands their ids, and waits for what it finds.

    In the end the same must be true as without a crash: how the runs of each thread ended, its messages and its state;
    the state of every other actor; the keys under which something was done outside; what the scenario returned, and
    what `ends(world)` returns. Times and chance ids are left out. `only` tries one place again, by its text.

    Blocks, in its own thread; hundreds of places take seconds.

    Raises:
        CrashPointsFailed: it ends otherwise after some of the crashes. What the scenario raises without a crash is
            raised as it is.
        ValueError: there is no such place as `only`.
        TypeError: the scenario is no coroutine function.
    """
    whole = World()
    expected = _end(whole, scenario, ends)
    chosen = [index for index, point in enumerate(whole.points) if only in (None, str(point))]
    if not chosen:
        raise ValueError(f"the scenario does not come to {only!r}; it has {len(whole.points)} places")
    failures: list[CrashFailure] = []
    redelivered = 0
    for index in chosen:
        world = World(dies=_Once(index))
        reason = _try(world, scenario, ends, expected, whole.points[: index + 1])
        redelivered += sum(count - 1 for count in world.effects.values())
        if reason is not None:
            failures.append(CrashFailure(str(whole.points[index]), reason))
    if failures:
        raise CrashPointsFailed(tuple(failures), len(chosen))
    return CrashPoints(tuple(whole.points[index] for index in chosen), redelivered)


class _Once:
    """Dies at the place with this index, and never again."""

    def __init__(self, index: int) -> None:
        self._left = index

    def __call__(self, point: Point) -> bool:
        self._left -= 1
        return self._left == -1


def _try(
    world: World,
    scenario: Scenario[object],
    ends: Callable[[World], object] | None,
    expected: _End,
    way: list[Point],
) -> str | None:
    """Return what is wrong after a crash at the end of this way; None when all is well."""
    try:
        end = _end(world, scenario, ends)
    except Exception as error:  # noqa: BLE001  (it is what the crash led to)
        return f"after it, the scenario raised {type(error).__name__}: {error}"
    if world.points[: len(way)] != way:
        at = next(number for number, (was, now) in enumerate(zip(way, world.points, strict=False)) if was != now)
        return f"the scenario takes another way each time: it came to {world.points[at]} instead of {way[at]}"
    return difference(expected._asdict(), end._asdict())


def _end(world: World, scenario: Scenario[object], ends: Callable[[World], object] | None) -> _End:
    returned = world.run(scenario)
    own = None if ends is None else ends(world)
    return _End(ends_of(world.journal, world.kinds), timeless([returned, own]), sorted(world.effects))
