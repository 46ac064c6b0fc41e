"""Damage: one byte of one live record is changed in a copy of a journal, and it must be noticed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import chain, zip_longest
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from ...journal.lmdb.damage import Place, flip, places
from .torture_examiner import Examiner
from .torture_specimen import write_specimen

__all__ = ["Damages", "damage_copies"]

_FILE: Final = "data.mdb"
# What cells hold can be made again, and who writes them checks them.
_UNPROVED: Final = frozenset({"cells"})
_PROBLEMS_MAX: Final = 20


class Damages(msgspec.Struct):
    """How many copies were damaged, of how many it was noticed, and in how many something else was read than recorded.

    `crashed` are those on which the process that read them ended, hung or raised what nobody can act on. `problems`
    says what went wrong, with the record and the byte.
    """

    injected: int = 0
    detected: int = 0
    silently_wrong: int = 0
    crashed: int = 0
    problems: list[str] = []


def damage_copies(folder: Path, *, copies: int, seed: int, progress: Callable[[int], None] = lambda _: None) -> Damages:
    """Damage so many copies of a small journal in `folder`, each in another byte; return what was noticed.

    Takes about a twentieth of a second a copy.
    """
    random = Random(seed)  # noqa: S311  (a torture is repeated by its seed)
    sound, copy = folder / "sound", folder / "damaged"
    write_specimen(sound, seed)
    found = Damages()
    with Examiner(sound) as examiner:
        for place in _spread(list(places(sound)), random, copies):
            at, mask = random.randrange(place.size_bytes), random.randrange(1, 256)
            copy.mkdir()
            shutil.copyfile(sound / _FILE, copy / _FILE)
            flip(copy, place.at + at, mask)
            examined = examiner.examine(copy)
            shutil.rmtree(copy)
            found.injected += 1
            found.detected += examined.detected
            found.silently_wrong += bool(examined.wrong)
            found.crashed += bool(examined.escaped)
            problem = examined.escaped or "; ".join(examined.wrong)
            if not examined.detected or problem:
                what = problem or f"not noticed; {'; '.join(examined.hidden) or 'everything reads as it was'}"
                _note(found, f"{place.database} {place.key[:40]!r}, byte {at} of {place.size_bytes} ^ {mask}: {what}")
            progress(found.injected)
    return found


def _note(found: Damages, problem: str) -> None:
    if len(found.problems) < _PROBLEMS_MAX:
        found.problems.append(problem)


def _spread(found: list[Place], random: Random, count: int) -> Iterator[Place]:
    """Yield records, those of every database as often as those of any other."""
    by_database: dict[str, list[Place]] = {}
    for place in found:
        if place.size_bytes and place.database not in _UNPROVED:
            by_database.setdefault(place.database, []).append(place)
    turns = [random.choices(records, k=-(-count // len(by_database))) for records in by_database.values()]
    for number, place in enumerate(chain.from_iterable(zip_longest(*turns))):
        if number < count:
            yield place
