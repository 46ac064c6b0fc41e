"""`clew journal`: sizes, copies, damage, old layouts; most of it while another process writes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import zstandard

from clew.journal.contract.subject import append
from clew.journal.lmdb import LmdbJournal
from clew.journal.sql import SqliteJournal

from .command import Clew
from .journals import STREAMS, digests, filled, flip

LAYOUT_1 = Path(__file__).parents[1] / "histories" / "lmdb-1.zst"
EVENTS = sum(STREAMS.values())


@pytest.fixture
def outdated(tmp_path: Path) -> Path:
    """A journal of layout 1."""
    path = tmp_path / "outdated"
    path.mkdir()
    (path / "data.mdb").write_bytes(zstandard.decompress(LAYOUT_1.read_bytes()))
    return path


def test_a_journal_is_measured_while_another_process_writes_to_it(clew: Clew, tmp_path: Path) -> None:
    with LmdbJournal(filled(tmp_path / "j")) as journal:
        told = clew("journal", "stats", "j").out
        found = clew("journal", "stats", "--json", env={"CLEW_JOURNAL": "j"}).json
        stats = journal.stats()

    assert found == {"journal": "j", "kind": "lmdb", **stats._asdict(), "oldest_reader_s": found["oldest_reader_s"]}
    assert (found["events"], found["streams"], found["layout"]) == (EVENTS, len(STREAMS), 2)
    rows = dict(line.split(maxsplit=1) for line in told.splitlines())
    assert list(rows) == ["journal", "file", "events", "streams", "layout", "readers"]
    assert rows["events"] == f"{EVENTS}, 0 of them sealed"


def test_a_journal_in_sqlite_is_measured_and_verified(clew: Clew, tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "j.db") as journal:
        append(journal, "thread/ana", "one", "two")

    assert {"kind": "sqlite", "events": 2, "streams": 1}.items() <= clew(
        "journal", "stats", "sqlite:///j.db", "--json"
    ).json.items()
    assert clew("verify", "--journal", f"sqlite:///{tmp_path}/j.db").out.startswith(
        "nothing is wrong: 2 events in 1 stream"
    )


def test_a_backup_is_whole_though_another_process_writes_meanwhile(clew: Clew, tmp_path: Path) -> None:
    begun, ended = threading.Event(), threading.Event()

    def write(journal: LmdbJournal) -> None:
        while not ended.is_set():
            append(journal, "thread/busy", *(f"busy {number}" for number in range(20)))
            begun.set()

    with LmdbJournal(filled(tmp_path / "j")) as journal:
        writing = threading.Thread(target=write, args=[journal])
        writing.start()
        try:
            assert begun.wait(60)
            before = journal.head("thread/busy").sequence
            made = clew("journal", "backup", "j", "copies/1", "--json")
            after = journal.head("thread/busy").sequence
        finally:
            ended.set()
            writing.join()
        originals = {event.position: event for event in journal.read_all()}
    restored = clew("journal", "restore", "copies/1", "back", "--json")

    assert (made.code, made.json["backup"]) == (0, "copies/1")
    assert restored.code == 0, restored
    with LmdbJournal(tmp_path / "back") as back:
        copied = list(back.read_all())
        assert back.verify().clean
        assert before <= back.head("thread/busy").sequence <= after
        assert before < after
    assert copied == [originals[event.position] for event in copied]
    assert restored.json == {"journal": "back", "events": len(copied), "streams": len(STREAMS) + 1}


def test_nothing_is_overwritten(clew: Clew, tmp_path: Path) -> None:
    filled(tmp_path / "j")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert clew("journal", "backup", "j", "copy").code == 0

    again = clew("journal", "backup", "j", "copy")
    over = clew("journal", "restore", "copy", "j")
    beside = clew("journal", "restore", "copy", "full")

    assert again.code == over.code == beside.code == 2
    assert again.error.startswith("copy: there is something already")
    assert over.error.startswith("j: there is something already")
    assert beside.error.startswith("full: there is something already")


def test_a_damaged_backup_is_not_restored(clew: Clew, tmp_path: Path) -> None:
    flip(filled(tmp_path / "copy"), "ana #7")

    done = clew("journal", "restore", "copy", "j")

    assert done.code == 4
    assert "copy: this backup is damaged, and nothing was restored" in done.error
    assert "thread/ana, sequence 7" in done.err
    assert not (tmp_path / "j").exists()


def test_a_compacted_journal_is_smaller_and_says_the_same(clew: Clew, tmp_path: Path) -> None:
    with LmdbJournal(tmp_path / "j") as journal:
        for number in range(50):
            append(journal, f"thread/{number}", *(f"{number} says {'a lot ' * 20}" for _ in range(18)))
        before = digests(journal)

    done = clew("journal", "compact", "j", "--json")
    stats = clew("journal", "stats", "j", "--json").json

    assert done.code == 0, done
    assert list(done.json) == ["sealed_events", "joined_segments", "removed_chunks", "bytes_before", "bytes_after"]
    assert done.json["bytes_after"] < done.json["bytes_before"]
    assert done.json["sealed_events"] == stats["sealed_events"] == stats["events"] == 900
    assert stats["bytes_on_disk"] == done.json["bytes_after"]
    with LmdbJournal(tmp_path / "j", readonly=True) as journal:
        assert digests(journal) == before
    assert clew("journal", "verify", "j").out.startswith("nothing is wrong: 900 events in 50 streams")


@pytest.mark.parametrize("command", ["compact", "migrate", "repair"])
def test_a_journal_that_is_written_to_is_left_alone(clew: Clew, tmp_path: Path, command: str) -> None:
    with LmdbJournal(filled(tmp_path / "j")) as journal:
        done = clew("journal", command, "j")
        assert len(list(journal.read_all())) == EVENTS

    assert done.code == 5
    assert "is writing to this journal. Stop it" in done.error


@pytest.mark.parametrize("command", ["stats", "verify", "compact", "migrate", "repair", "export"])
def test_a_journal_that_is_not_there_is_not_made(clew: Clew, tmp_path: Path, command: str) -> None:
    done = clew("journal", command, "nowhere")

    assert done.code == 5
    assert done.error.startswith("nowhere: there is no journal here")
    assert not (tmp_path / "nowhere").exists()


def test_a_journal_of_an_older_layout_is_backed_up_and_migrated(clew: Clew, outdated: Path) -> None:
    with LmdbJournal(outdated, readonly=True) as journal:
        before = digests(journal)
    history = clew("journal", "export", "outdated", "-o", "all.jsonl")
    refused = clew("journal", "import", "outdated", "all.jsonl")
    copied = clew("journal", "backup", "outdated", "copy")
    first = clew("journal", "migrate", "outdated")
    second = clew("journal", "migrate", "outdated", "--json")

    assert history.code == copied.code == 0
    assert refused.code == 5
    assert "Make a backup and run `clew journal migrate outdated`" in refused.error
    assert first.out == "outdated: layout 1 became 2\n"
    assert second.json == {"before": 2, "after": 2}
    with LmdbJournal(outdated) as journal:
        assert digests(journal) == before
    with LmdbJournal(outdated.parent / "copy", readonly=True) as journal:
        assert digests(journal) == before


def test_a_sound_journal_is_not_repaired(clew: Clew, tmp_path: Path) -> None:
    filled(tmp_path / "j")
    before = (tmp_path / "j" / "data.mdb").read_bytes()

    done = clew("journal", "repair", "j")

    assert (done.code, done.out) == (0, "nothing is wrong and nothing was done: 60 events in 3 streams\n")
    assert (tmp_path / "j" / "data.mdb").read_bytes() == before


def test_a_repair_says_what_was_lost_and_keeps_the_original(clew: Clew, tmp_path: Path) -> None:
    flip(filled(tmp_path / "j"), "bob #20")
    before = (tmp_path / "j" / "data.mdb").read_bytes()

    found = clew("journal", "verify", "j")
    done = clew("journal", "repair", "j")
    again = clew("journal", "repair", "j", "--json")

    assert found.code == done.code == 4
    *lost, anew, unread, kept = done.out.splitlines()
    assert "sequence 20 (position 60)" in lost[0]
    assert anew == "written anew: 59 events in 3 streams"
    assert unread.startswith("could not be read: 1 piece, kept in j/damaged-")
    original = tmp_path / kept.removeprefix("the file as it was: ")
    assert (original / "data.mdb").read_bytes() == before
    assert again.json == {"events": 59, "streams": 3, "quarantined": [], "original": None}
    with LmdbJournal(tmp_path / "j") as journal:
        assert journal.head("thread/bob").sequence == 19


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["stats", "postgres://here"], "'postgres://here' is no journal: give its directory, or sqlite:///FILE"),
        (["stats", "memory:"], "is no journal"),
        (["stats", "sqlite:j.db"], "is no journal"),
        (["compact", "sqlite:///j.db"], "this is for journals in a directory. SQLite uses freed space again"),
        (["backup", "sqlite:///j.db", "copy"], "`sqlite3 FILE '.backup COPY'`"),
        (["backup", "j"], "Missing argument 'FOLDER'"),
        (["fly"], "No such command 'fly'"),
    ],
)
def test_wrong_usage_is_explained(clew: Clew, args: list[str], said: str) -> None:
    done = clew("journal", *args)

    assert done.code == 2
    assert said in done.error
