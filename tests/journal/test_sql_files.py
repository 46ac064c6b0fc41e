"""What the SQLite journal makes of the files and places it finds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from clew.actors import ActorSystem, Decider, EventSourcedActor
from clew.journal import ForeignJournal, MemoryJournal, event
from clew.journal.contract.subject import append, appended
from clew.journal.lmdb import LmdbJournal
from clew.journal.opening import open_journal
from clew.journal.sql import SqliteJournal
from tests.journal.process import Refused, process


def make_journal(path: Path) -> None:
    with SqliteJournal(path) as journal:
        append(journal, "order/1", "a", "b", "c")
        append(journal, "order/2", "x" * 300_000)


def cut(path: Path, size: int) -> None:
    make_journal(path)
    path.write_bytes(path.read_bytes()[:size])


def cut_in_half(path: Path) -> None:
    make_journal(path)
    cut(path, path.stat().st_size // 2)


def cut_in_the_header(path: Path) -> None:
    cut(path, 50)


def write_text(path: Path) -> None:
    path.write_text("this is a text, and not a short one either. " * 1000)


def make_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE orders (id TEXT)")


def make_database_with_a_log(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE orders (id TEXT)")


def of_a_newer_layout(path: Path) -> None:
    make_journal(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE clew_meta SET value = '99'")


def a_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (cut_in_the_header, "this is not a file of SQLite"),
        (cut_in_half, "the file is cut short"),
        (write_text, "this is not a file of SQLite"),
        (make_database, "this is a database of something else"),
        (make_database_with_a_log, "this is a database of something else"),
        (of_a_newer_layout, "written by a newer version of clew (layout 99, this one knows 1)"),
        (a_directory, "this is a directory, and a journal in SQLite is a file"),
    ],
)
def test_what_is_not_a_sound_journal_is_refused_and_left_alone(
    make: Callable[[Path], None], reason: str, readonly: bool, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    make(path)
    path.with_name("journal.db.lock").unlink(missing_ok=True)
    before = contents(tmp_path)

    with pytest.raises(ForeignJournal) as caught:
        SqliteJournal(path, readonly=readonly)

    assert reason in str(caught.value)
    assert str(path) in str(caught.value)
    assert contents(tmp_path) == before


def contents(path: Path) -> dict[str, bytes]:
    # Who looks at a file with a log may leave an empty log and its index; they say nothing.
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and not file.name.endswith("-shm")]
    return {file.name: data for file in files if (data := file.read_bytes()) or not file.name.endswith("-wal")}


def test_a_journal_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ForeignJournal, match="there is no journal here to read"):
        SqliteJournal(tmp_path / "journal.db", readonly=True)

    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_becomes_a_journal_and_holds_none_before(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.touch()

    with pytest.raises(ForeignJournal, match="there is no journal here to read"):
        SqliteJournal(path, readonly=True)
    make_journal(path)

    with SqliteJournal(path, readonly=True) as journal:
        assert appended(journal, "order/1") == ["a", "b", "c"]


def test_missing_parents_are_made_and_a_closed_journal_is_one_file_and_its_lock(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "journal with ü and %.db"
    make_journal(path)

    assert {file.name for file in path.parent.iterdir()} == {path.name, f"{path.name}.lock"}


def test_a_journal_stays_where_it_was_when_the_directory_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    with SqliteJournal("journal.db") as journal:
        append(journal, "order/1", "a")
        monkeypatch.chdir(tmp_path / "other")
        append(journal, "order/1", *(str(n) for n in range(600)))
        assert len(appended(journal, "order/1")) == 601
        assert journal.path == tmp_path / "journal.db"

    assert list((tmp_path / "other").iterdir()) == []


@pytest.fixture
def shared_path() -> Generator[Path]:
    """A directory that others than root can reach, which SQLite does by its full path."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.scenario("JRN-09")
def test_a_journal_in_a_read_only_directory_can_be_read_and_refuses_writes_at_once(shared_path: Path) -> None:
    folder = shared_path / "image"
    path = folder / "journal.db"
    make_journal(path)
    (folder / "journal.db.lock").unlink()
    path.chmod(0o444)
    folder.chmod(0o555)

    try:
        with process() as reader:
            # Root may write anywhere, so the reader becomes nobody, who can only reach where it already is.
            reader.call("change_directory", str(folder))
            reader.call("drop_privileges")

            assert reader.call("open", "journal.db", {"readonly": True}) == 4
            assert reader.call("texts", "order/1") == ["a", "b", "c"]
            assert reader.call("problems") == []
            with pytest.raises(Refused) as caught:
                reader.call("append", "order/1", ["d"], 3)
            assert caught.value.facts["error"] == "ReadOnlyJournal"
            reader.call("close")
            with pytest.raises(Refused) as caught:
                reader.call("open", "journal.db", {})
            assert caught.value.facts["error"] == "PermissionError"
    finally:
        folder.chmod(0o755)

    assert [file.name for file in folder.iterdir()] == ["journal.db"]


def test_a_place_is_a_directory_or_a_url_or_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    for place, path in (
        ("sqlite:///relative.db", tmp_path / "relative.db"),
        ("sqlite:///a/b%20#.db", tmp_path / "a" / "b%20#.db"),
        (f"sqlite:///{tmp_path}/absolute.db", tmp_path / "absolute.db"),
    ):
        with closing(open_journal(place)) as journal:
            assert isinstance(journal, SqliteJournal)
            assert journal.path == path
            assert path.is_file()
    with closing(open_journal("memory:")) as journal:
        assert isinstance(journal, MemoryJournal)
    for place in ("sqlite", "a directory", tmp_path / "sqlite:"):
        with closing(open_journal(place)) as journal:
            assert isinstance(journal, LmdbJournal)


@pytest.mark.parametrize(
    "url",
    ["sqlite:", "sqlite:data.db", "sqlite:/data.db", "sqlite://data.db", "sqlite:///data.db?mode=ro", "sqlite:///",
     "sqlite:///:memory:", "postgresql://host/db", "lmdb:///data", "sqlite+aiosqlite:///data.db"],
)  # fmt: skip
def test_a_url_that_names_no_file_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ValueError, match=r"sqlite:///file\.db|memory:"):
        ActorSystem(url)

    assert list(tmp_path.iterdir()) == []


@event("counter.counted", version=1)
class Counted(msgspec.Struct, frozen=True):
    pass


class Count(msgspec.Struct, frozen=True):
    pass


def count_one(_: int, __: Count) -> list[Counted]:
    return [Counted()]


def add_one(state: int, _: Counted) -> int:
    return state + 1


def say(state: int, _: Sequence[Counted]) -> int:
    return state


counters = EventSourcedActor(
    category="counter",
    decider=Decider[int, Count, Counted, int](initial=0, decide=count_one, evolve=add_one, answer=say),
    events=[Counted],
)


def test_an_actor_system_opens_a_journal_in_a_file(tmp_path: Path) -> None:
    for answer in (1, 2):
        with ActorSystem(f"sqlite:///{tmp_path}/counters.db", actors=[counters]) as system:
            assert system.ref(counters, "1").ask(Count()).get(timeout=30) == answer
            assert isinstance(system.journal, SqliteJournal)
