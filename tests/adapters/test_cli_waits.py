"""What the commands say of runs that wait: for their turn, for people, for time, for other threads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clew.actors.thread import ThreadCommand
from clew.adapters.cli.log import log
from clew.adapters.cli.show import show
from clew.adapters.cli.threads import threads
from clew.journal import NewEvent
from clew.journal.lmdb import LmdbJournal
from tests.actors.story import Story, cancel
from tests.projections.asking import EVERYTHING, ask, begin_run, called, queue, wait_for

WAITING: list[ThreadCommand] = [
    begin_run(),
    called("a"),
    queue("r2"),
    ask("a", args={"sum": 30}),
    wait_for("approval:a"),
]


@pytest.fixture
def journal(tmp_path: Path) -> str:
    """A journal with a thread in which everything happens, and one that waits for a decision."""
    path = tmp_path / "journal"
    with LmdbJournal(path) as opened:
        for name, commands in {
            "all": EVERYTHING,
            "waits": WAITING,
            "half": EVERYTHING[:13],
            "gone": [*WAITING, cancel("r2", owner="ann")],
        }.items():
            events = [NewEvent(event.canonical) for event in Story(*commands).events]
            opened.append(f"thread/{name}", events, expected=0).wait()
    return str(path)


def test_a_thread_that_waits_for_a_decision_is_listed_as_such(journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert threads(journal=journal, as_json=True) == 0

    rows = {row["thread"]: row for row in json.loads(capsys.readouterr().out)}
    assert {name: row["status"] for name, row in rows.items()} == {
        "all": "running",
        "gone": "awaiting_input",
        "half": "awaiting_input",
        "waits": "awaiting_input",
    }
    assert rows["waits"]["runs"] == 2


def test_a_conversation_says_what_its_runs_wait_for(journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert show("waits", journal=journal) == 0

    page = capsys.readouterr().out
    assert "status awaiting_input" in page
    assert "result of add (pending)" in page
    assert "run r1 is awaiting input after 1 step\n  approval:a waits for a decision about add, until 19" in page
    assert "run r2 is queued since 19" in page
    assert "later" not in page


def test_every_kind_of_wait_has_words_of_its_own(journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    show("half", journal=journal)

    page = capsys.readouterr().out
    for words in (
        "signal:s waits for the signal paid, until 19",
        "tool:ask:k waits for thread/child, until 19",
        "tool:add:c failed and is tried again at 19",
        "tool:add:d may have taken effect or not: somebody has to settle it",
        "it must end by 19",
    ):
        assert words in page


def test_a_run_that_was_never_begun_is_told_from_one_that_was(journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    show("gone", journal=journal)

    assert "run r2 is cancelled before it was begun: enough" in capsys.readouterr().out


def test_every_fact_is_one_line_that_says_what_it_is_about(journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert log("all", journal=journal) == 0

    lines = capsys.readouterr().out.splitlines()
    about: dict[str, list[str]] = {}
    for line in lines:
        _, _, _, name, *words = line.split()
        about.setdefault(name, []).append(" ".join(words[:-3]))
    with LmdbJournal(Path(journal), readonly=True) as opened:
        assert len(lines) == opened.head("thread/all").sequence
    assert about["approval.requested"][0].startswith("approval:a for add(n=1) until 19")
    assert about["approval.resolved"][:2] == [
        "approval:b rejected by bob: too much",
        'approval:a approved as {"n":2} by bob',
    ]
    assert about["run.suspended"][1] == "r1 waits for signal:s, tool:ask:k, tool:add:c, tool:add:d"
    assert about["run.queued"][0].startswith("r2, at the longest until 19")
    assert about["run.cancelled"][:2] == ["r3 by ann: enough", "r4: it waited too long for the thread to be free"]
    assert about["step.delayed"][0].startswith("tool:add:c is tried again at 19")
    assert about["step.started"] == ["tool:add:d #1, once at the most", "tool:add:a #1"]
    assert about["step.settled"] == ["tool:add:d as result by bob"]
    assert about["signal.taken"] == ["signal:s got s1"]
    assert about["child.ended"] == ["tool:ask:k done"]
    assert about["message.sent"][0] == "start_run to thread/child"
    assert about["run.parked"][0].startswith("r1: its process ended 1 times")


def test_large_arguments_do_not_fill_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "large"
    with LmdbJournal(path) as opened:
        events = Story(begin_run(), called("a"), ask("a", args={"text": "word " * 1000})).events
        opened.append("thread/t", [NewEvent(event.canonical) for event in events], expected=0).wait()

    log("t", journal=str(path))

    assert max(len(line) for line in capsys.readouterr().out.splitlines()) < 300


def test_an_event_of_the_same_name_in_another_category_is_somebody_else_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "foreign"
    with LmdbJournal(path) as opened:
        event = NewEvent(b'{"event":"message.sent","version":1,"data":{"step":"by pigeon"}}')
        opened.append("post/1", [event], expected=0).wait()

    assert log("post/1", journal=str(path)) == 0

    assert "message.sent        by pigeon" in capsys.readouterr().out
