"""Show which requirements and scenarios the passing tests claim, and which are still to prove.

It runs the tests first, unless told to show the map of the last run. The exit code is 1 when a test fails or
claims an id that `docs/ids.md` does not list.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec

from tests.plugins.claims import known_ids

LAST_RUN = Path(__file__).parents[1] / ".claims.json"


class LastRun(msgspec.Struct):
    """What the tests' own plugin wrote down."""

    claims: dict[str, list[str]]
    unknown: dict[str, list[str]]


def main() -> int:
    """Show the map."""
    parser = argparse.ArgumentParser(prog="coverage-map", description=__doc__)
    parser.add_argument("--last", action="store_true", help="show the last run instead of running the tests")
    parser.add_argument("--json", action="store_true", help="print it for a program to read")
    options = parser.parse_args()

    failed = not options.last and not _tests_pass()
    if not LAST_RUN.exists():
        parser.error(f"{LAST_RUN.name} is not there; run the tests once with --claims {LAST_RUN.name}")
    run = msgspec.json.decode(LAST_RUN.read_bytes(), type=LastRun)

    print(_as_json(run) if options.json else _as_table(run))
    return int(failed or bool(run.unknown))


def _tests_pass() -> bool:
    LAST_RUN.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "--quiet", "--claims", str(LAST_RUN)]
    # The tests talk on the error stream, so that `--json` stays readable.
    return subprocess.run(command, cwd=LAST_RUN.parent, stdout=sys.stderr, check=False).returncode == 0


def _as_table(run: LastRun) -> str:
    known = known_ids()
    lines = [f"{'id':<13}claimed by"]
    for name, summary in known.items():
        tests = run.claims.get(name, [])
        lines.append(f"{name:<13}{len(tests):>2}  {tests[0]}" if tests else f"{name:<13} -  ({summary})")

    lines += ["", f"{'':<13}claimed     of"]
    lines += [f"{prefix:<13}{claimed:>7}{total:>7}" for prefix, claimed, total in _totals(run)]

    for name, tests in run.unknown.items():
        lines.append(f"\n{name} is not in docs/ids.md, but claimed by {', '.join(tests)}")
    return "\n".join(lines)


def _as_json(run: LastRun) -> str:
    known = known_ids().items()
    ids = {name: {"summary": summary, "tests": run.claims.get(name, [])} for name, summary in known}
    totals = {prefix: {"claimed": claimed, "of": total} for prefix, claimed, total in _totals(run)}
    return json.dumps({"ids": ids, "totals": totals, "unknown": run.unknown}, indent=1)


def _totals(run: LastRun) -> list[tuple[str, int, int]]:
    known = known_ids()
    total = Counter(name.rpartition("-")[0] for name in known)
    claimed = Counter(name.rpartition("-")[0] for name in known if name in run.claims)
    rows = [(prefix, claimed[prefix], total[prefix]) for prefix in total]
    return [*rows, ("all", claimed.total(), total.total())]


if __name__ == "__main__":
    sys.exit(main())
