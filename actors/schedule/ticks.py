"""The ticks of a spec: which comes first, which comes next, and which have passed.

However many have passed, little is done: those of an interval are reckoned, those of a cron expression are looked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain, islice, takewhile
from typing import Final, NamedTuple

from .spec import After, At, Cron, Every, Spec
from .times import LATEST_NS, SECOND_NS, cron_ticks

__all__ = ["COUNTED_MAX", "Passed", "first_tick", "next_tick", "passed_ticks"]

COUNTED_MAX: Final = 200
"""So many ticks of a cron expression are counted; where more have passed, the number says as many."""


class Passed(NamedTuple):
    """The newest ticks that have passed, in order, and how many there were before them."""

    newest: list[int]
    before: int


def first_tick(spec: Spec, *, at: int, last: int | None) -> int | None:
    """Return the first tick of a spec set at `at`, later than the `last` one of its name; None when there is none.

    Raises:
        InvalidSchedule: a cron expression or a zone that is not understood.
    """
    after = at if last is None else max(at, last)
    match spec:
        case At(time_ns):
            return _once(time_ns, last)
        case After(delay_ns):
            return _once(at + delay_ns, last)
        case Every(_, start_ns):
            return next_tick(spec, at if start_ns is None else start_ns, after=after)
        case Cron():
            return next_tick(spec, after, after=after)


def next_tick(spec: Spec, tick: int, *, after: int) -> int | None:
    """Return the tick that comes after `after`, from `tick` on, which is one of them; None when there is none.

    Raises:
        InvalidSchedule: a cron expression or a zone that is not understood.
    """
    match spec:
        case At() | After():
            return None
        case Every(interval_ns):
            following = tick if tick > after else tick + ((after - tick) // interval_ns + 1) * interval_ns
            return following if following <= LATEST_NS else None
        case Cron(expression, zone):
            return next(cron_ticks(expression, zone, after=after), None)


def passed_ticks(spec: Spec, tick: int, *, at: int, keep: int) -> Passed:
    """Return the newest `keep` of the ticks from `tick` up to `at`, both included; `tick` has passed.

    Raises:
        InvalidSchedule: a cron expression or a zone that is not understood.
    """
    match spec:
        case At() | After():
            return Passed([tick], 0)
        case Every(interval_ns):
            number = (at - tick) // interval_ns + 1
            kept = min(number, keep)
            newest = [tick + index * interval_ns for index in range(number - kept, number)]
            return Passed(newest, number - kept)
        case Cron():
            return _passed_cron(spec, tick, at, keep)


def _once(due: int, last: int | None) -> int | None:
    # A name has each tick once, also when the clock was set back since the last one.
    tick = due if last is None else max(due, last + 1)
    return tick if tick <= LATEST_NS else None


def _passed_cron(spec: Cron, tick: int, at: int, keep: int) -> Passed:
    newest: deque[int] = deque(maxlen=keep)
    count = 0
    for passed in islice(chain([tick], _until(spec, tick, at)), COUNTED_MAX + 1):
        newest.append(passed)
        count += 1
    if count <= COUNTED_MAX:
        return Passed(list(newest), count - len(newest))
    start = _start_of_newest(spec, tick, at, keep)
    return Passed(list(deque(_until(spec, start, at), maxlen=keep)), COUNTED_MAX)


def _start_of_newest(spec: Cron, early: int, late: int, keep: int) -> int:
    """Return a time behind which there are `keep` ticks up to `late`, or hardly more, by halving what lies between.

    There are more than that behind `early`, and there is no more than one a second.
    """
    at = late
    while late - early > SECOND_NS:
        middle = (early + late) // 2
        if sum(1 for _ in islice(_until(spec, middle, at), keep)) == keep:
            early = middle
        else:
            late = middle
    return early


def _until(spec: Cron, after: int, at: int) -> Iterator[int]:
    return takewhile(at.__ge__, cron_ticks(spec.expression, spec.zone, after=after))
