"""A project with an agent, and one with a conversation that is already recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from .command import DESK, Clew


def project_in(folder: Path) -> Clew:
    (folder / "desk.py").write_text(DESK, encoding="utf-8")
    return Clew(folder)


@pytest.fixture
def clew(tmp_path: Path) -> Clew:
    """The command in a new project."""
    return project_in(tmp_path)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Clew:
    """The command in a project with one finished conversation, `ana`; tests only look at it."""
    clew = project_in(tmp_path_factory.mktemp("recorded"))
    done = clew("run", "desk:agent", "look and tell", "--thread", "ana", "--owner", "ana", "--title", "A look")
    assert done.code == 0, done
    return clew
