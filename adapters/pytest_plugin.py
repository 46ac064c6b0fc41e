"""A pytest plugin: a recorded history, replayed in a test, with no model, no tool and no network.

```python
def test_last_months_run_still_replays(replay_history):
    replayed = replay_history("tests/histories/refund.jsonl", agent)
    assert replayed.output == "Refunded 12.00 EUR."
```
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pydantic_ai import Agent

    from ..actors.agent import AgentDefinition, Replayed

__all__ = ["replay_history"]


@pytest.fixture
def replay_history(request: pytest.FixtureRequest) -> Callable[..., Replayed]:
    """Replay a history file with the agents that drove it: `replay_history(path, *agents)`.

    A relative path is looked for beside the test's file, then in pytest's root directory. The test fails at the first
    decision that differs from the recorded one, and the error says which; see `clew.actors.agent.replay`. Make
    a history with `clew export THREAD -o FILE`.
    """

    def replay_it(path: str | Path, *agents: Agent[Any, Any] | AgentDefinition[Any, Any]) -> Replayed:
        # Not before it is asked for: importing pydantic-ai takes a second, and most tests need none of it.
        from ..actors.agent import replay  # noqa: PLC0415

        replayed = replay(_find(Path(path), request), *agents)
        if not replayed.digests_equal:
            pytest.fail(f"{path}: the replay ends in other digests than were recorded: {replayed.digests}")
        return replayed

    return replay_it


def _find(path: Path, request: pytest.FixtureRequest) -> Path:
    """Return the file that a test means.

    Raises:
        FileNotFoundError: there is none; says where it was looked for.
    """
    places = [request.path.parent, request.config.rootpath]
    found = next((place / path for place in places if (place / path).is_file()), None)
    if found is None:
        looked = " or ".join(dict.fromkeys(map(str, places)))
        raise FileNotFoundError(f"there is no history {path} in {looked}; make one with `clew export THREAD -o FILE`")
    return found
