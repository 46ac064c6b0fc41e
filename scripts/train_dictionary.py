"""Train the dictionary that short segments are compressed with: `python -m scripts.train_dictionary --to FILE`.

A segment of a few events repeats little within itself; what it repeats is the form that all events have. The samples
are short for that reason: long segments hardly need a dictionary. The same tree gives the same file. Once released a
dictionary is for ever, since journals are compressed with it: a better one gets the next number and id.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from random import Random
from typing import Final

import zstandard

from .dictionary_samples import Body, bodies, desk_threads, made_threads

SIZE_BYTES: Final = 16 * 1024
"""Larger ones were slower and hardly better."""

ID: Final = 0xC1E1
"""Of `events-1`. Ids below 32768 are registered ones; up to 65535 they take two bytes of a frame."""

EVENTS_MAX: Final = 3
"""Of a sample."""

ROUNDS: Final = 2
"""How often the threads are cut into samples, at other places each time."""

# The best of those tried for documents that were not in the samples; a short pattern loses a tenth.
PATTERN_BYTES: Final = 2000
MATCH_BYTES: Final = 8
LEVEL: Final = 3


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(prog="python -m scripts.train_dictionary", description=__doc__)
    parser.add_argument("--to", type=Path, required=True, help="the new file, such as events-2.zdict")
    parser.add_argument("--id", type=int, default=ID, help="another one than those before have")
    options = parser.parse_args()
    if options.to.exists():
        parser.error(f"{options.to} is there already, and journals may need it; give the new one the next number")
    samples = _samples()
    options.to.write_bytes(train(samples, dictionary_id=options.id))
    print(f"{options.to}: {SIZE_BYTES} bytes from {len(samples)} samples of {sum(map(len, samples))} bytes")


def train(samples: list[Body], *, dictionary_id: int) -> bytes:
    """Return a dictionary; the same samples give the same one."""
    trained = zstandard.train_dictionary(
        SIZE_BYTES, samples, k=PATTERN_BYTES, d=MATCH_BYTES, level=LEVEL, dict_id=dictionary_id
    )
    return trained.as_bytes()


def _samples() -> list[Body]:
    random = Random("samples")  # noqa: S311  (the same samples each time)
    threads = [*desk_threads(), *made_threads(count=20, runs=8)]
    return [
        body
        for _ in range(ROUNDS)
        for events in threads
        for body in bodies(events, events_max=EVENTS_MAX, random=random)
    ]


if __name__ == "__main__":
    main()
