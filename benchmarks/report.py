"""What every benchmark prints: where it ran, on which versions, and a row for each thing it measured."""

from __future__ import annotations

import os
import platform
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

import lmdb
import msgspec

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "ROOT",
    "Machine",
    "Report",
    "machine",
    "percentile_us",
    "show_progress",
    "show_where",
    "table",
    "versions",
    "wide_console",
]

ROOT: Final = Path(__file__).parents[1]

_IN_MEMORY: Final = ("tmpfs", "ramfs")
_LIBRARIES: Final = ("lmdb", "msgspec", "pykka", "zstandard")


class Machine(msgspec.Struct, frozen=True):
    """Where a benchmark ran."""

    cpu: str
    cores: int
    kernel: str
    filesystem: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a benchmark found. `floor` is what the machine itself needs for the same work, measured in the same run."""

    machine: Machine
    versions: dict[str, str]
    rows: Sequence[msgspec.Struct]
    floor: dict[str, msgspec.Struct]

    def show(self, question: str, *, as_json: bool) -> None:
        """Print it as one line of JSON, or as a table below the question."""
        if as_json:
            print(msgspec.json.encode(self).decode())
            return
        console = wide_console()
        console.print(f"{question}\n", highlight=False)
        show_where(console, self.machine, self.versions)
        console.print(table([*self.floor.values(), *self.rows]))


def wide_console() -> Console:
    """Return a console that is wide enough for the widest table, also where the output is no terminal."""
    # Not at the top: most processes here only measure, and are started often.
    from rich.console import Console

    return Console(width=max(Console().width, 130))


def show_where(console: Console, machine: Machine, versions: dict[str, str]) -> None:
    """Print the machine and the versions."""
    console.print(" · ".join(str(value) for value in msgspec.structs.asdict(machine).values() if value))
    console.print(" · ".join(f"{name} {version}" for name, version in versions.items()))


def machine(directory: Path) -> Machine:
    """Return where we are; warns on standard error when `directory` is no disk."""
    filesystem = _filesystem(directory.resolve())
    if filesystem in _IN_MEMORY:
        print(f"{filesystem} keeps its files in memory: nothing here waits for a disk. See --dir.", file=sys.stderr)
    kernel = f"{platform.system()} {platform.release()}"
    return Machine(_cpu(), os.cpu_count() or 0, kernel, filesystem)


def versions() -> dict[str, str]:
    """Return the versions of all that was measured."""
    return {
        "python": platform.python_version(),
        "clew": _own_version(),
        **{name: metadata.version(name) for name in _LIBRARIES},
        "liblmdb": ".".join(str(part) for part in lmdb.version()),
    }


def percentile_us(seconds: Sequence[float], percent: float) -> float:
    """Return a percentile of some durations, in microseconds."""
    ordered = sorted(seconds)
    return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)] * 1e6


def show_progress(rounds: int) -> Iterator[int]:
    """Count the rounds, saying on standard error which one it is when somebody is there to see it."""
    seen = sys.stderr.isatty()
    for number in range(rounds):
        if seen:
            print(f"\rround {number + 1} of {rounds} ", end="", file=sys.stderr, flush=True)
        yield number
    if seen:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def table(rows: Sequence[msgspec.Struct]) -> Table:
    """Return rows of one kind as a table."""
    from rich.table import Table

    names = rows[0].__struct_fields__
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(names):
        shown.add_column(
            name.replace("_per_s", "/s").replace("_", " "), justify="right" if number else "left", overflow="fold"
        )
    for row in rows:
        shown.add_row(*(_text(getattr(row, name)) for name in names))
    return shown


def _text(value: object) -> str:
    match value:
        case None:
            return "–"
        case float():
            return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _filesystem(directory: Path) -> str:
    """Return the type of the mount that `directory` is on; "unknown" where the system does not list its mounts."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "unknown"
    # A later line covers an earlier one at the same place.
    found = {
        Path(point): kind
        for _, point, kind, *_ in (line.split(" ") for line in mounts.read_text(encoding="utf-8").splitlines())
        if directory.is_relative_to(point)
    }
    return found[max(found, key=lambda point: len(point.parts))] if found else "unknown"


def _own_version() -> str:
    try:
        return metadata.version("clew")
    except metadata.PackageNotFoundError:
        # Run from a checkout that is not installed.
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        return str(project["project"]["version"])
