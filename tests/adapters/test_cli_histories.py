"""`clew journal export`, `import` and `archive`: parts of journals into files, and back into journals of any kind."""

from __future__ import annotations

import gzip
from datetime import timedelta
from pathlib import Path
from time import time_ns

import pytest

from clew.adapters.cli.duration import duration_of
from clew.adapters.cli.exits import Refused
from clew.journal import CellWrite, iter_history, open_mark
from clew.journal.contract.subject import append
from clew.journal.lmdb import LmdbJournal
from clew.journal.sql import SqliteJournal

from .command import Clew
from .journals import STREAMS, digests, filled

DAY_NS = 86_400 * 10**9


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A filled journal `j`."""
    return filled(tmp_path / "j")


def streams_in(file: Path) -> dict[str, int]:
    return {event.stream: event.sequence for event in iter_history(file)}


def test_everything_goes_to_a_journal_of_another_kind_and_back(clew: Clew, path: Path) -> None:
    out = clew("journal", "export", "j", "-o", "all.jsonl.gz", "--json")
    there = clew("journal", "import", "sqlite:///j.db", "all.jsonl.gz")
    again = clew("journal", "import", "sqlite:///j.db", "all.jsonl.gz", "--json")
    back = clew("journal", "export", "sqlite:///j.db", "-o", "back.jsonl")

    assert out.json == {"file": "all.jsonl.gz", "events": 60}
    assert there.out == "order/é/1  10 events\nthread/ana  30 events\nthread/bob  20 events\n"
    assert again.json == {"streams": dict.fromkeys(STREAMS, 0)}
    assert back.err == "exported 60 events to back.jsonl\n"
    whole = gzip.decompress((clew.folder / "all.jsonl.gz").read_bytes())
    assert (clew.folder / "back.jsonl").read_bytes() == whole
    with LmdbJournal(path) as lmdb, SqliteJournal(clew.folder / "j.db") as sqlite:
        assert digests(lmdb) == digests(sqlite)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (["--stream", "order/é/1"], {"order/é/1": 10}),
        (["--stream", "bob"], {"thread/bob": 20}),
        (["--category", "thread"], {"thread/ana": 30, "thread/bob": 20}),
    ],
)
def test_a_part_is_exported_or_taken_out_of_a_whole_history(
    clew: Clew, path: Path, part: list[str], expected: dict[str, int]
) -> None:
    exported = clew("journal", "export", "j", *part, "-o", "part.jsonl")
    whole = clew("journal", "export", "j")
    taken = clew("journal", "import", "other", "-", *part, "--json", stdin=whole.out)

    assert exported.code == 0, exported
    assert streams_in(clew.folder / "part.jsonl") == taken.json["streams"] == expected


@pytest.mark.parametrize("command", ["export", "import"])
def test_a_part_that_is_not_there_is_said_to_be_missing(clew: Clew, path: Path, command: str) -> None:
    clew("journal", "export", "j", "-o", "all.jsonl")
    args = [] if command == "export" else ["all.jsonl"]
    journal = "j" if command == "export" else "other"

    stream = clew("journal", command, journal, *args, "--stream", "eve")
    category = clew("journal", command, journal, *args, "--category", "eves")
    both = clew("journal", command, journal, *args, "--stream", "ana", "--category", "thread")

    assert stream.code == category.code == both.code == 2
    assert "eve" in stream.error
    assert "no stream of" in category.error
    assert "not both" in both.error
    assert not (clew.folder / "other").exists()


def test_a_file_that_cannot_be_written_is_named(clew: Clew, path: Path) -> None:
    done = clew("journal", "export", "j", "-o", "nowhere/all.jsonl")

    assert (done.code, done.error) == (2, "nowhere: no such directory")


def test_progress_is_shown_on_a_terminal_and_nowhere_else(clew: Clew, path: Path) -> None:
    shown = clew.on_terminal("journal", "export", "j", "-o", "all.jsonl")
    taken = clew.on_terminal("journal", "import", "other", "all.jsonl")
    piped = clew("journal", "export", "j", "-o", "all.jsonl")

    assert shown.code == taken.code == 0
    assert "exporting" in shown.err
    assert "exported 60 events to all.jsonl" in shown.err
    assert "importing" in taken.err
    assert "thread/bob  20 events" in taken.out
    assert piped.err == "exported 60 events to all.jsonl\n"


def test_streams_at_rest_move_into_files_and_come_back(clew: Clew, tmp_path: Path) -> None:
    path = filled(tmp_path / "j", clock=lambda: time_ns() - 100 * DAY_NS)
    with LmdbJournal(path) as journal:
        append(journal, "thread/new", "hello")
        before = digests(journal)
    policy = ["--category", "thread", "--idle-for", "90d", "--to", "old"]

    planned = clew("journal", "archive", "j", *policy, "--dry-run", "--json")
    told = clew("journal", "archive", "j", *policy, "--dry-run")
    assert not (tmp_path / "old").exists()
    done = clew("journal", "archive", "j", *policy)
    again = clew("journal", "archive", "j", *policy, "--json")
    gone = clew("journal", "export", "j", "--stream", "ana")
    files = sorted((tmp_path / "old").iterdir())
    for file in files:
        assert clew("import", str(file), "--journal", "j").code == 0

    assert planned.json == {"would_archive": {"thread/ana": 30, "thread/bob": 20}}
    assert told.out.splitlines()[-1] == "would archive 2 streams with 50 events"
    assert done.out == "archived 2 streams with 50 events to old\n"
    assert again.json == {"archived": [], "left": {}}
    assert (gone.code, gone.error[:32]) == (2, "thread/ana: its 30 events were d")
    assert len(files) == 2
    with LmdbJournal(path) as journal:
        assert digests(journal) == before


def test_what_was_in_use_last_is_kept_and_what_has_open_work_too(clew: Clew, tmp_path: Path) -> None:
    path = filled(tmp_path / "j", clock=lambda: time_ns() - 100 * DAY_NS)
    policy = ["--category", "thread", "--idle-for", "0s", "--to", "old"]
    with LmdbJournal(path) as journal:
        append(journal, "thread/bob", "again")
        append(journal, "thread/open", "a run")
        append(journal, "thread/last", "hello")
        journal.cells.write([CellWrite(open_mark("thread/open"), b"thread/open")]).wait()

    done = clew("journal", "archive", "j", *policy, "--keep-last", "1", "--json")

    assert [one["stream"] for one in done.json["archived"]] == ["thread/ana", "thread/bob"]
    with LmdbJournal(path) as journal:
        assert [head.stream for head in journal.streams("thread") if not head.deleted] == ["thread/last", "thread/open"]


def test_times_are_written_with_a_unit() -> None:
    assert [duration_of(text) for text in ("30s", "5m", "36h", "90d", " 2w")] == [
        timedelta(seconds=30),
        timedelta(minutes=5),
        timedelta(hours=36),
        timedelta(days=90),
        timedelta(weeks=2),
    ]
    for text in ("", "90", "d", "1.5h", "-1d", "1y", "999999999w"):
        with pytest.raises(Refused, match="is not a time"):
            duration_of(text)
