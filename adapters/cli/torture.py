"""`clew journal torture`: what a journal promises, tried on this machine with kills and with damage."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from .exits import ExitCode
from .opening import AsJson
from .render import console, counted, safe, write_json
from .torture_damage import Damages, damage_copies
from .torture_kills import Kills, kill_writers

__all__ = ["torture"]

_WRITERS: Final = 64
_QUICK: Final = (12, 160)
_THOROUGH: Final = (200, 2000)


def torture(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Take less than a minute.")] = False,
    kills: Annotated[int | None, typer.Option("--kills", min=0, help="How often a writer is killed.")] = None,
    damages: Annotated[int | None, typer.Option("--damages", min=0, help="How many copies are damaged.")] = None,
    writers: Annotated[int, typer.Option("--writers", min=1, help="How many write at once.")] = _WRITERS,
    seed: Annotated[int | None, typer.Option("--seed", help="Throw the same dice again.")] = None,
    folder: Annotated[Path | None, typer.Option("--in", metavar="DIR", help="On which disk: a directory.")] = None,
    as_json: AsJson = False,
) -> int:
    """Kill writers of a journal and damage copies of it, and see that nothing is lost or wrong.

    It works in a new directory, which it removes; no journal of yours is touched. When something is not as it must be,
    it exits with 4, and the directory is kept.
    """
    began = time.monotonic()
    dice = time.time_ns() % 1_000_000 if seed is None else seed
    work = Path(tempfile.mkdtemp(prefix="clew-torture-", dir=folder))
    default_kills, default_damages = _QUICK if quick else _THOROUGH
    try:
        killed = kill_writers(
            work,
            kills=default_kills if kills is None else kills,
            writers=writers,
            seed=dice,
            progress=_progress("kills"),
        )
        damaged = damage_copies(
            work, copies=default_damages if damages is None else damages, seed=dice, progress=_progress("damages")
        )
    except BaseException:
        # Interrupted, or there is no room: nothing was found out, and nothing is left behind.
        shutil.rmtree(work, ignore_errors=True)
        raise
    problems = [*killed.problems, *damaged.problems]
    sound = not problems and not killed.unexpected
    if sound:
        shutil.rmtree(work)
    facts = _facts(killed, damaged) | {"seconds": round(time.monotonic() - began, 1), "seed": dice}
    if as_json:
        write_json(facts | {"problems": problems, "kept": None if sound else str(work)})
    else:
        _show(facts, problems, None if sound else work)
    return ExitCode.OK if sound else ExitCode.DAMAGED


def _facts(killed: Kills, damaged: Damages) -> dict[str, int | float]:
    return {
        "kills": killed.kills,
        "acknowledged": killed.acknowledged,
        "lost": killed.lost,
        "half_written": killed.half_written,
        "gaps": killed.gaps,
        "corruptions_injected": damaged.injected,
        "corruptions_detected": damaged.detected,
        "silently_wrong": damaged.silently_wrong,
        "crashed": damaged.crashed + killed.unexpected,
        "events": killed.events,
        "streams": killed.streams,
    }


def _progress(what: str) -> Callable[[int], None]:
    """Return what shows how far it is, on a terminal only."""

    def show(done: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{done} {what} \x1b[K")
            sys.stderr.flush()

    return show


def _show(facts: dict[str, int | float], problems: list[str], kept: Path | None) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    out = console()
    out.print(
        f"{counted(int(facts['kills']), 'kill')}: {facts['acknowledged']} acknowledged, {facts['lost']} lost, "
        f"{facts['half_written']} half written, {facts['gaps']} with gaps"
    )
    out.print(
        f"{counted(int(facts['corruptions_injected']), 'byte')} changed: {facts['corruptions_detected']} noticed, "
        f"{facts['silently_wrong']} silently wrong, {facts['crashed']} crashed"
    )
    for problem in problems:
        out.print(safe(problem), style="red", soft_wrap=True)
    if kept is not None:
        out.print(f"the journals are kept in {safe(str(kept))}")
    out.print(f"{facts['seconds']} s, seed {facts['seed']}")
