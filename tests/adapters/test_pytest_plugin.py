"""The pytest plugin: a user's test replays a recorded history."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from .command import DESK, Clew

pytest_plugins = ["pytester"]

TEST = """
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[{up}]))

def test_last_months_run_still_replays(replay_history):
    from desk import agent

    replayed = replay_history("{path}", agent)
    assert replayed.output == "1 calls made\\nfor look and tell"
    assert not Path("started.txt").exists()
"""


@pytest.fixture
def project(recorded: Clew, pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with an agent and the history of a run of it."""
    (pytester.path / "desk.py").write_text(DESK, encoding="utf-8")
    (pytester.path / "tests" / "histories").mkdir(parents=True)
    history = pytester.path / "tests" / "histories" / "look.jsonl"
    assert recorded("export", "ana", "-o", str(history)).code == 0
    return pytester


def run_tests(project: pytest.Pytester, test: str) -> pytest.RunResult:
    (project.path / "tests" / "test_replay.py").write_text(test, encoding="utf-8")
    # By its module, whether or not this environment has it as an entry point.
    return project.runpytest_subprocess("-p", "no:clew", "-p", "clew.adapters.pytest_plugin", "-p", "no:randomly")


def test_the_plugin_is_what_the_package_declares() -> None:
    pyproject = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    declared = pyproject["project"]["entry-points"]["pytest11"]["clew"]

    assert hasattr(import_module(declared), "replay_history")


@pytest.mark.replay
@pytest.mark.parametrize("path", ["tests/histories/look.jsonl", "histories/look.jsonl"])
def test_a_history_is_found_from_the_root_or_beside_the_test(project: pytest.Pytester, path: str) -> None:
    run_tests(project, TEST.format(path=path, up=1)).assert_outcomes(passed=1)


@pytest.mark.replay
def test_a_changed_agent_fails_the_test_and_says_where(project: pytest.Pytester) -> None:
    (project.path / "desk.py").write_text(DESK.replace("Do as", "Always do as"), encoding="utf-8")

    result = run_tests(project, TEST.format(path="histories/look.jsonl", up=1))

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*ReplayDivergence: thread/ana, sequence 3, * step llm:turn:1: request.instructions differs*"]
    )


def test_a_missing_history_says_where_it_was_looked_for(project: pytest.Pytester) -> None:
    result = run_tests(project, TEST.format(path="lost.jsonl", up=1))

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*FileNotFoundError: there is no history lost.jsonl in *tests or *"])


def test_a_session_that_does_not_ask_for_it_does_not_import_pydantic_ai(project: pytest.Pytester) -> None:
    result = run_tests(project, "import sys\ndef test_it(): assert 'pydantic_ai' not in sys.modules\n")

    result.assert_outcomes(passed=1)
