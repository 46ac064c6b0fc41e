"""The list of threads says of each thread what its own view says, wherever the fold was cut."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import pytest

from clew.actors.thread import ThreadCommand
from clew.adapters.cli.threads import threads
from clew.journal import Journal, MemoryJournal, NewEvent, import_history, write_history
from clew.journal.lmdb import LmdbJournal
from clew.projections import DurableProjection, LiveRows, Usage, fold_rows, thread_list, view_of
from tests.actors.story import Story, cancel, complete, fail, fail_step, finish, halt, resume, start
from tests.projections.asking import EVERYTHING, ask, begin_run, called, queue, wait_for
from tests.projections.conversations import whole_run

STORIES: dict[str, list[ThreadCommand]] = {
    "one": [start(owner="ann", title="Parcels"), complete(state={"n": 1}), finish(usage={"input_tokens": 5})],
    "two": [start(), fail_step(), fail(), start("r2"), complete("tool:a:1", run="r2"), cancel("r2")],
    "three": [start(), complete(), halt(), resume(), complete("llm:turn:2"), finish()],
    "four": [*whole_run(), *whole_run("r2", ids=("d", "e", "f"))],
    "five": [start()],
    "six": EVERYTHING,
    "seven": [
        begin_run(),
        called("a"),
        queue("r2"),
        ask(),
        wait_for("approval:a"),
        queue("r3"),
        cancel("r2", owner="ann"),
    ],
}


def tell(journal: Journal, *names: str) -> None:
    """Let the stories happen in one journal, an event of each in turn."""
    told = {name: list(Story(*STORIES[name]).events) for name in names}
    for place in range(max(len(events) for events in told.values())):
        for name, events in told.items():
            for event in events[place : place + 1]:
                new = NewEvent(event.canonical, event.cause, 1000 + place)
                journal.append(f"thread/{name}", [new], expected=event.sequence - 1).wait()


def check(journal: Journal) -> None:
    rows = dict(LiveRows(journal, thread_list).scan())
    assert sorted(rows) == [head.stream for head in journal.streams("thread")]
    for stream, row in rows.items():
        view = view_of(journal.read(stream))
        assert (row.stream, row.owner, row.title, row.status) == (stream, view.owner, view.title, view.status)
        assert (row.opened_at, row.sequence, row.usage) == (view.opened_at, view.sequence, view.usage)
        assert (row.runs, row.steps) == (len(view.runs), sum(run.steps for run in view.runs))
        begun = [run for run in view.runs if run.started_at is not None]
        assert (row.last_run, row.queued) == (begun[-1] if begun else None, view.queued)
        assert row.last_at == max(event.recorded_at for event in journal.read(stream))


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 500])
def test_a_row_says_what_the_view_of_the_thread_says(batch: int, journal: Journal) -> None:
    durable = DurableProjection(journal, thread_list, batch_events_max=batch)
    tell(journal, "one", "two", "three")
    durable.catch_up()
    check(journal)

    tell(journal, "four", "five", "six", "seven")
    durable.catch_up()

    check(journal)
    row = LiveRows(journal, thread_list).get("thread/four")
    assert row is not None
    assert row.usage != Usage()


def test_a_row_stays_small_however_many_runs_there_were() -> None:
    journal, story = MemoryJournal(), Story()
    for n in range(50):
        story.tell(start(f"r{n}"), complete(run=f"r{n}", state=["x"] * 500), finish(f"r{n}"))
    journal.append("thread/t", [NewEvent(e.canonical) for e in story.events], expected=0).wait()

    DurableProjection(journal, thread_list).catch_up()

    check(journal)
    [(_, value)] = journal.cells.scan(b"projection/rows/threads/")
    assert len(value) < 1000


def test_a_thread_that_comes_back_from_its_archive_counts_once() -> None:
    journal, archive = MemoryJournal(), BytesIO()
    tell(journal, "one", "two")
    durable = DurableProjection(journal, thread_list)
    durable.catch_up()
    write_history(journal.read("thread/one"), archive)
    journal.delete("thread/one", expected=journal.head("thread/one").sequence).wait()
    archive.seek(0)
    import_history(journal, archive)

    durable.catch_up()

    check(journal)
    assert dict(fold_rows(journal, thread_list).scan()) == dict(LiveRows(journal, thread_list).scan())


def as_view_says(journal: Journal, stream: str) -> dict[str, object]:
    view = view_of(journal.read(stream))
    return {
        "thread": stream.partition("/")[2],
        "owner": view.owner,
        "title": view.title,
        "status": view.status,
        "runs": len(view.runs),
        "steps": sum(run.steps for run in view.runs),
        "tokens": view.usage.input_tokens + view.usage.output_tokens,
        "sequence": view.sequence,
        "last_at": max(event.recorded_at for event in journal.read(stream)),
    }


@pytest.mark.parametrize("kept", ["nothing", "some", "everything"])
def test_the_command_lists_what_the_views_say_whatever_was_kept(
    kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "journal"
    with LmdbJournal(path) as journal:
        tell(journal, "one", "two", "five")
        if kept == "some":
            DurableProjection(journal, thread_list).catch_up()
        tell(journal, "three", "four", "six", "seven")
        # Of a newer version: known to nobody here, and yet the last that happened.
        unknown = NewEvent(b'{"event":"thread.renamed","version":1,"data":{}}', recorded_at=9999)
        journal.append("thread/one", [unknown], expected=journal.head("thread/one").sequence).wait()
        journal.append("thread/new", [unknown], expected=0).wait()
        if kept == "everything":
            DurableProjection(journal, thread_list).catch_up()
        journal.delete("thread/two", expected=journal.head("thread/two").sequence).wait()
        there = [head.stream for head in journal.streams("thread") if not head.deleted]
        wanted = [as_view_says(journal, stream) for stream in there]

    assert threads(journal=str(path), as_json=True) == 0

    assert json.loads(capsys.readouterr().out) == wanted
    assert [row["thread"] for row in wanted] == ["five", "four", "new", "one", "seven", "six", "three"]
