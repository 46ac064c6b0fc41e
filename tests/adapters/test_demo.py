"""`clew demo`: a real kill, a real recovery, and a replay that calls nothing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from clew.adapters.cli.outcome import Outcome

from .command import Clew

KEPT = Outcome(
    mails=2,
    runs=2,
    answered=2,
    steps=9,
    recorded_before_kill=4,
    interrupted=1,
    recovered=1,
    ran_again=1,
    only_interrupted_ran_again=True,
    replay_model_calls=0,
    replay_tool_calls=0,
    digests_equal=True,
    journal_bytes=1,
    answers=2,
    refunds=0,
    duplicates=0,
    killed_in="thread/a/r/tool:check_carrier:call_2_1",
    model="offline rules",
    seconds=1.0,
)


@pytest.mark.crash
@pytest.mark.requirement("L-REPLAY-2")
def test_the_demo_keeps_every_promise_and_says_so_in_json(clew: Clew) -> None:
    done = clew("demo", "--mails", "3", "--json")

    assert done.code == 0, done
    found = done.json
    assert (found["mails"], found["runs"], found["answered"]) == (3, 3, 3)
    assert 0 < found["recorded_before_kill"] < found["steps"]
    assert found["ran_again"] == found["interrupted"] == found["recovered"] == 1
    assert found["replay_model_calls"] == found["replay_tool_calls"] == found["duplicates"] == 0
    assert found["digests_equal"] is True
    assert found["journal_bytes"] > 0
    assert "/tool:check_carrier:" in found["killed_in"]


def test_the_demo_tells_its_story_and_keeps_what_it_made(clew: Clew) -> None:
    done = clew("demo", "--mails", "2", "--keep", "kept")
    threads = clew("threads", "--journal", "kept/journal", "--json").json

    assert done.code == 0, done
    told = [
        "No language model is used",
        "Killed (SIGKILL) inside check_carrier",
        "1 open run went on",
        "replays all 2 threads",
    ]
    places = [done.out.index(text) for text in told]
    assert places == sorted(places)
    assert done.out.count("\nkept  ") == 6
    assert "BROKEN" not in done.out
    assert [thread["status"] for thread in threads] == ["done", "done"]


def test_the_demo_does_not_write_into_a_directory_that_is_in_use(clew: Clew) -> None:
    done = clew("demo", "--keep", ".")

    assert done.code == 2
    assert "not an empty directory" in done.error


def test_the_demo_explains_a_model_that_cannot_be_used(clew: Clew) -> None:
    done = clew("demo", "--mails", "1", "--model", "nobody:nothing")

    assert done.code == 2
    assert "nobody" in done.error


@pytest.mark.parametrize(
    "broken",
    [
        replace(KEPT, answered=1),
        replace(KEPT, runs=3),
        replace(KEPT, recovered=0),
        replace(KEPT, ran_again=2),
        replace(KEPT, only_interrupted_ran_again=False),
        replace(KEPT, replay_model_calls=1),
        replace(KEPT, replay_tool_calls=1),
        replace(KEPT, digests_equal=False),
        replace(KEPT, duplicates=1),
    ],
)
def test_each_broken_promise_is_noticed(broken: Outcome) -> None:
    assert KEPT.kept
    assert not broken.kept
    assert [kept for kept, _, _ in broken.promises].count(False) == 1
