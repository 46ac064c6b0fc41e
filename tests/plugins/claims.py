"""Which requirements and scenarios the passing tests claim.

A test claims ids with `@pytest.mark.requirement("L-HITL-3")` or `@pytest.mark.scenario("HIT-04")`; an id
that `docs/ids.md` does not list stops the run. With `--claims FILE`, what the passing tests claim is written
there, for `make coverage-map`. A test that failed in one of its cases, was skipped or is expected to fail
claims nothing.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

MARKS = ("requirement", "scenario")
IDS_FILE = Path(__file__).parents[2] / "docs" / "ids.md"

_LINE = re.compile(r"^- ([A-Z]+(?:-[A-Z]+)?-\d+) (.+)$", re.MULTILINE)
_PROPERTY = "claims"


def known_ids() -> dict[str, str]:
    """The ids that a test may claim, in the order of `docs/ids.md`, each with its summary."""
    return dict(_LINE.findall(IDS_FILE.read_text(encoding="utf-8")))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--claims`."""
    parser.addoption("--claims", metavar="FILE", help="write which ids the passing tests claim to FILE")


def pytest_configure(config: pytest.Config) -> None:
    """Start collecting."""
    # Beside others, a test's reports go to the process that started them all, and its claims with them.
    file = None if hasattr(config, "workerinput") else config.getoption("claims")
    config.pluginmanager.register(Claims(file), "clew-claims")


class Claims:
    """The claims of one test run."""

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._ids: dict[str, list[str]] = {}
        self._unknown: defaultdict[str, set[str]] = defaultdict(set)
        self._passed: set[str] = set()
        self._fallen: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Refuse unknown ids, and let each test's ids travel with its reports."""
        known = known_ids()
        for item in items:
            ids = [*_claimed(item)]
            item.user_properties.append((_PROPERTY, " ".join(ids)))
            for name in ids:
                if name not in known:
                    self._unknown[name].add(_function(item.nodeid))
        if self._unknown:
            lines = [f"  {name} in {', '.join(sorted(tests))}" for name, tests in self._unknown.items()]
            raise pytest.UsageError("\n".join(["docs/ids.md does not list these claimed ids:", *lines]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how each phase of each test went."""
        test = _function(report.nodeid)
        for name, value in report.user_properties:
            if name == _PROPERTY:
                self._ids[test] = str(value).split()
        if report.failed or hasattr(report, "wasxfail"):
            self._fallen.add(test)
        elif report.when == "call" and report.passed:
            self._passed.add(test)

    def pytest_sessionfinish(self) -> None:
        """Write the claims down."""
        if self._file is None:
            return
        claims: defaultdict[str, list[str]] = defaultdict(list)
        for test in sorted(self._passed - self._fallen):
            for name in self._ids.get(test, ()):
                claims[name].append(test)
        unknown = {name: sorted(tests) for name, tests in self._unknown.items()}
        text = json.dumps({"claims": claims, "unknown": unknown}, indent=1, sort_keys=True)
        Path(self._file).write_text(text + "\n", encoding="utf-8")


def _claimed(item: pytest.Item) -> Iterator[str]:
    for mark in item.iter_markers():
        if mark.name in MARKS:
            yield from map(str, mark.args)


def _function(nodeid: str) -> str:
    """The test without its parameters."""
    return nodeid.partition("[")[0]
