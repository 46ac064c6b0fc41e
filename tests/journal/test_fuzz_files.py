"""Damaged data files: whatever was done to one, nothing else is read from it than was recorded, and nobody crashes.

By default a few hundred files, CLEW_FUZZ_FILES=n makes them n.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from clew.adapters.cli.torture_examiner import Examiner
from clew.adapters.cli.torture_specimen import write_specimen

pytestmark = pytest.mark.timeout(3600)

FILES = int(os.environ.get("CLEW_FUZZ_FILES", "220"))
PAGE = 4096


def some_page(data: bytearray, random: Random) -> slice:
    start = random.randrange(len(data) // PAGE) * PAGE
    return slice(start, start + PAGE)


def flip_bits(data: bytearray, random: Random) -> None:
    for _ in range(random.choice((1, 1, 2, 8, 64))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def cut_short(data: bytearray, random: Random) -> None:
    del data[random.randrange(len(data)) :]


def swap_pages(data: bytearray, random: Random) -> None:
    one, other = some_page(data, random), some_page(data, random)
    data[one], data[other] = data[other], data[one]


def repeat_a_page(data: bytearray, random: Random) -> None:
    data[some_page(data, random)] = data[some_page(data, random)]


def zero_a_page(data: bytearray, random: Random) -> None:
    data[some_page(data, random)] = bytes(PAGE)


def zero_half_a_page(data: bytearray, random: Random) -> None:
    end = some_page(data, random).stop
    data[end - PAGE // 2 : end] = bytes(PAGE // 2)


def scribble_over_a_page(data: bytearray, random: Random) -> None:
    data[some_page(data, random)] = random.randbytes(PAGE)


def change_the_head_of_a_page(data: bytearray, random: Random) -> None:
    data[some_page(data, random).start + random.randrange(16)] ^= random.randrange(1, 256)


def change_the_slots_of_a_page(data: bytearray, random: Random) -> None:
    data[some_page(data, random).start + 16 + random.randrange(60)] ^= random.randrange(1, 256)


def change_a_root(data: bytearray, random: Random) -> None:
    data[random.randrange(2) * PAGE + random.randrange(160)] ^= random.randrange(1, 256)


def be_something_else(data: bytearray, random: Random) -> None:
    data[:] = random.randbytes(random.choice((0, 1, 100, 4096, 8192, 20_000)))


DAMAGES: list[Callable[[bytearray, Random], None]] = [
    flip_bits,
    cut_short,
    swap_pages,
    repeat_a_page,
    zero_a_page,
    zero_half_a_page,
    scribble_over_a_page,
    change_the_head_of_a_page,
    change_the_slots_of_a_page,
    change_a_root,
    be_something_else,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_or_read_as_it_was(
    damage: Callable[[bytearray, Random], None], tmp_path: Path
) -> None:
    random = Random(damage.__name__)
    sound, damaged = tmp_path / "sound", tmp_path / "damaged"
    write_specimen(sound, seed=3)
    original = (sound / "data.mdb").read_bytes()
    outcomes: Counter[str] = Counter()
    faults: list[str] = []

    with Examiner(sound) as examiner:
        for number in range(FILES // len(DAMAGES)):
            data = bytearray(original)
            damage(data, random)
            damaged.mkdir()
            (damaged / "data.mdb").write_bytes(data)
            examined = examiner.examine(damaged)
            shutil.rmtree(damaged)
            faults += [f"file {number}: {fault}" for fault in (examined.escaped, *examined.wrong) if fault]
            # Where LMDB's roots are hit, it may go back to the one before, which is whole in itself.
            silent = [] if examined.detected or damage in {change_a_root, flip_bits} else examined.hidden
            faults += [f"file {number}: nobody is told: {fault}" for fault in silent]
            outcomes["told" if examined.detected else "as it was"] += 1

    assert faults == []
    assert outcomes["told"]
