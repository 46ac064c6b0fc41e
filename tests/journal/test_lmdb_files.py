"""What the LMDB journal makes of the files it finds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from clew.journal import ForeignJournal
from clew.journal.contract.subject import append, appended
from clew.journal.lmdb import LmdbJournal, NetworkFilesystemWarning
from clew.journal.lmdb.files import check_place
from tests.journal.process import Refused, process


def make_journal(path: Path) -> None:
    with LmdbJournal(path) as journal:
        append(journal, "order/1", "a", "b", "c")
        append(journal, "order/2", "x" * 300_000)


def make_environment(path: Path) -> None:
    with lmdb.open(str(path), max_dbs=9, lib_version=0) as env, env.begin(write=True) as txn:
        txn.put(b"somebody", b"else's", db=env.open_db(b"log", txn))


def cut(path: Path, size: int) -> None:
    data = path / "data.mdb"
    data.write_bytes(data.read_bytes()[:size])


def cut_in_half(path: Path) -> None:
    make_journal(path)
    cut(path, (path / "data.mdb").stat().st_size // 2)


def cut_a_page(path: Path) -> None:
    make_journal(path)
    cut(path, (path / "data.mdb").stat().st_size - 4096)


def cut_in_the_first_page(path: Path) -> None:
    make_journal(path)
    cut(path, 100)


def leave_nothing(path: Path) -> None:
    make_journal(path)
    cut(path, 0)


def write_text(path: Path) -> None:
    path.mkdir()
    (path / "data.mdb").write_text("this is a text, and not a short one either. " * 1000)


def of_another_byte_order(path: Path) -> None:
    make_journal(path)
    data = bytearray((path / "data.mdb").read_bytes())
    data[16:20] = data[16:20][::-1]
    (path / "data.mdb").write_bytes(data)


def of_another_lmdb_format(path: Path) -> None:
    with lmdb.open(str(path), max_dbs=9, lib_version=1) as env, env.begin(write=True) as txn:
        txn.put(b"somebody", b"else's")


def of_a_newer_layout(path: Path) -> None:
    make_journal(path)
    with lmdb.open(str(path), max_dbs=9, lib_version=0) as env, env.begin(write=True) as txn:
        meta = env.open_db(b"meta", txn)
        txn.put(b"journal", b'{"layout":99,"journal":"x","created_at":1,"more":true}', db=meta)


def without_its_meta(path: Path) -> None:
    make_journal(path)
    with lmdb.open(str(path), max_dbs=9, lib_version=0) as env, env.begin(write=True) as txn:
        txn.delete(b"journal", db=env.open_db(b"meta", txn))


def a_directory_as_data_file(path: Path) -> None:
    (path / "data.mdb").mkdir(parents=True)


def a_file_as_path(path: Path) -> None:
    path.write_text("notes")


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (leave_nothing, "data.mdb is empty"),
        (cut_in_the_first_page, "cut short in its first pages"),
        (cut_in_half, "data.mdb is cut short"),
        (cut_a_page, "data.mdb is cut short"),
        (write_text, "not an LMDB file"),
        (of_another_byte_order, "not an LMDB file of this format and kind of machine"),
        (of_another_lmdb_format, "not an LMDB file of this format and kind of machine"),
        (make_environment, "this is not a journal"),
        (without_its_meta, "this is not a journal"),
        (of_a_newer_layout, "written by a newer version of clew (layout 99, this one knows 2)"),
        (a_directory_as_data_file, "data.mdb is not a file"),
        (a_file_as_path, "this is a file, and a journal is a directory"),
    ],
)
def test_what_is_not_a_sound_journal_is_refused_and_left_alone(
    make: Callable[[Path], None], reason: str, readonly: bool, tmp_path: Path
) -> None:
    make(tmp_path / "journal")
    before = contents(tmp_path)

    with pytest.raises(ForeignJournal) as caught:
        LmdbJournal(tmp_path / "journal", readonly=readonly)

    assert reason in str(caught.value)
    assert str(tmp_path / "journal") in str(caught.value)
    assert contents(tmp_path) == before


def contents(path: Path) -> dict[str, bytes]:
    # LMDB's lock file is not data: it tells the living who reads.
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file.name != "lock.mdb"]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def test_nothing_is_left_behind_where_there_was_no_journal(tmp_path: Path) -> None:
    make_environment(tmp_path)
    (tmp_path / "lock.mdb").unlink()

    with pytest.raises(ForeignJournal):
        LmdbJournal(tmp_path)

    assert [file.name for file in tmp_path.iterdir()] == ["data.mdb"]


def test_a_journal_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ForeignJournal, match="there is no journal here to read"):
        LmdbJournal(tmp_path / "journal", readonly=True)

    assert list(tmp_path.iterdir()) == []


def test_a_sound_file_may_lack_pages_that_were_freed_before_they_were_written(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path) as journal:
        append(journal, "order/1", "a")
    with lmdb.open(str(tmp_path), max_dbs=9, lib_version=0) as env:
        with env.begin(write=True) as txn:
            cells = env.open_db(b"cells", txn)
            for n in range(20):
                txn.put(b"%d" % n, b"x" * 9000, db=cells)
                txn.delete(b"%d" % n, db=cells)
        claimed = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    assert claimed > (tmp_path / "data.mdb").stat().st_size

    for readonly in (True, False):
        with LmdbJournal(tmp_path, readonly=readonly) as journal:
            assert appended(journal, "order/1") == ["a"]


def test_what_an_interrupted_creation_left_is_swept_away(tmp_path: Path) -> None:
    left = tmp_path / "journal" / ".new-left"
    left.mkdir(parents=True)
    (left / "data.mdb").write_bytes(b"half")

    with LmdbJournal(tmp_path / "journal") as journal:
        append(journal, "order/1", "a")

    assert {file.name for file in (tmp_path / "journal").iterdir()} == {"data.mdb", "lock.mdb", "writer.lock"}


def test_missing_parents_are_made(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path / "a" / "b" / "journal") as journal:
        append(journal, "order/1", "a")
        assert journal.path == tmp_path / "a" / "b" / "journal"


@pytest.mark.scenario("JRN-09")
def test_a_journal_in_a_read_only_directory_can_be_read_and_refuses_writes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    make_journal(path)
    for name in ("lock.mdb", "writer.lock"):
        (path / name).unlink()
    (path / "data.mdb").chmod(0o444)
    path.chmod(0o555)

    try:
        with process() as reader:
            # Root may write anywhere, so the reader becomes nobody, who can only reach where it already is.
            reader.call("change_directory", str(path))
            reader.call("drop_privileges")

            assert reader.call("open", ".", {"readonly": True}) == 4
            assert reader.call("texts", "order/1") == ["a", "b", "c"]
            assert reader.call("problems") == []
            with pytest.raises(Refused) as caught:
                reader.call("append", "order/1", ["d"], 3)
            assert caught.value.facts["error"] == "ReadOnlyJournal"
            with pytest.raises(Refused, match="Permission denied"):
                reader.call("open", "../journal", {})
    finally:
        path.chmod(0o755)

    assert {file.name for file in path.iterdir()} == {"data.mdb"}


@pytest.mark.scenario("JRN-08")
@pytest.mark.parametrize(("kind", "warned"), [("nfs4", True), ("cifs", True), ("ext4", False)])
def test_a_network_file_system_is_warned_of(kind: str, warned: bool, tmp_path: Path) -> None:
    place = tmp_path / "a share"
    place.mkdir()
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/root / ext4 rw 0 0\nhost:/x {str(place).replace(' ', chr(92) + '040')} {kind} rw 0 0\n")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_place(place / "journal", readonly=False, mounts=mounts)
        check_place(tmp_path, readonly=False, mounts=mounts)

    assert [warning.category for warning in caught] == [NetworkFilesystemWarning] * warned
    assert all(kind in str(warning.message) for warning in caught)
