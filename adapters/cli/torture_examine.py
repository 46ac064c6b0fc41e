"""A process that opens damaged journals: `python -m clew.adapters.cli.torture_examine SOUND`.

It first reads the sound journal, says `ready`, and then answers each line, the path of a damaged copy, with a line that
says what became of it. Should LMDB bring the process down, only this one ends, and the file that did it is known.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from ...journal import ClewError, ForeignJournal
from ...journal.lmdb import LmdbJournal
from ...journal.lmdb.files import walk_pages
from .torture_truth import Examined, Truth, Verdict

__all__ = ["main"]


def main() -> None:
    """Examine one journal after the other, until there are no more lines."""
    with LmdbJournal(sys.argv[1], readonly=True) as journal:
        truth = Truth(journal)
    _answer(b"ready")
    for line in sys.stdin:
        _answer(msgspec.json.encode(_examine(Path(line.rstrip("\n")), truth)))


def _examine(path: Path, truth: Truth) -> Examined:
    examined = Examined()
    try:
        # LMDB trusts its pages. Who suspects a file looks at them first; what passes must then do no harm.
        if problems := walk_pages(path):
            return Examined(refused=problems[0])
        for readonly in (True, False):
            try:
                with LmdbJournal(path, readonly=readonly, seal_after=10**9) as journal:
                    verdict: Verdict = truth.judge(journal)
                    examined.wrong += verdict.wrong
                    examined.hidden += verdict.hidden
                    examined.problems += journal.verify().problems
            except (ClewError, OSError) as error:
                examined.refused = f"{type(error).__name__}: {error}"
    except ForeignJournal as error:
        examined.refused = str(error)
    except Exception as error:  # noqa: BLE001  (which ones come through is the question)
        examined.escaped = f"{type(error).__name__}: {error}"
    return examined


def _answer(line: bytes) -> None:
    os.write(1, line + b"\n")


if __name__ == "__main__":
    main()
