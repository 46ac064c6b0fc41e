"""How a command ends: one line and a code for every error, and no noise where nobody reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.adapters.cli.exits import fail
from clew.journal import (
    AppendUnknown,
    CellConflict,
    CorruptRecord,
    ForeignJournal,
    InvalidHistory,
    InvalidName,
    JournalClosed,
    JournalError,
    JournalForked,
    JournalFull,
    JournalLocked,
    NewerJournal,
    NotRepresentable,
    OutdatedJournal,
    PayloadTooLarge,
    ProjectionFailed,
    ReadOnlyJournal,
    StreamDeleted,
    UnknownEvent,
    WrongExpectedSequence,
)
from clew.journal.contract.subject import append
from clew.journal.lmdb import LmdbJournal

from .command import Clew

FULL = Path("/dev/full")

ERRORS: dict[JournalError, int] = {
    CorruptRecord(where="thread/a, sequence 1", reason="flipped"): 4,
    OutdatedJournal(path="j", layout=1, layout_now=2): 5,
    NewerJournal(path="j", layout=3, layout_now=2): 5,
    ForeignJournal(path="j", reason="cut short"): 5,
    JournalLocked(path="j", pid=1, program="init"): 5,
    JournalForked(path="j", opened_by=1, pid=2): 5,
    JournalClosed(path="j"): 5,
    JournalFull(path="j", reason="no space"): 5,
    AppendUnknown(streams=("thread/a",), reason="I/O error"): 5,
    ReadOnlyJournal(path="j"): 5,
    JournalError("j: all reader slots are taken. Close some."): 5,
    WrongExpectedSequence(stream="thread/a", expected=1, actual=2): 2,
    StreamDeleted(stream="thread/a", sequence=1, digest=b"d"): 2,
    CellConflict(key=b"k"): 2,
    InvalidName(name="a b", reason="a blank"): 2,
    InvalidHistory(source="f", line=1, reason="not JSON"): 2,
    PayloadTooLarge(what="thread/a", size_bytes=2, size_bytes_max=1): 2,
    ProjectionFailed(projection="p", where="1", reason="broken"): 2,
    UnknownEvent(event="e", version=1, stream="thread/a", sequence=1): 2,
    NotRepresentable(event="e", path="$", reason="a set"): 2,
}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_journal_error_is_one_line_and_a_code(error: JournalError, capsys: pytest.CaptureFixture[str]) -> None:
    code = fail(error)

    assert code == ERRORS[error]
    assert capsys.readouterr().err == f"clew: error: {error}\n"


def test_no_journal_error_is_forgotten() -> None:
    def kinds(kind: type[JournalError]) -> set[type[JournalError]]:
        return {kind, *(found for one in kind.__subclasses__() for found in kinds(one))}

    assert {kind for kind in kinds(JournalError) if kind.__module__.startswith("clew.journal.")} == set(
        map(type, ERRORS)
    )


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Clew:
    """The command beside a journal `j` whose listing does not fit into a pipe."""
    folder = tmp_path_factory.mktemp("long")
    with LmdbJournal(folder / "j") as journal:
        append(journal, "thread/long", *("many words " * 20 for _ in range(2000)))
    return Clew(folder)


@pytest.mark.parametrize(
    "args",
    [
        ["log", "long", "--journal", "j"],
        ["log", "long", "--journal", "j", "--json"],
        ["export", "long", "--journal", "j"],
        ["journal", "export", "j"],
    ],
    ids=" ".join,
)
def test_a_reader_that_stops_reading_is_a_normal_end(long: Clew, args: list[str]) -> None:
    with long.started(*args) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        process.wait()

    assert (process.returncode, said) == (141, b"")


@pytest.mark.parametrize("args", [["--help"], ["threads", "--journal", "j"], ["journal", "stats", "j"]], ids=" ".join)
def test_so_is_one_that_never_reads(long: Clew, args: list[str]) -> None:
    with long.started(*args) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        process.wait()

    assert (process.returncode, said) == (141, b"")


@pytest.mark.skipif(not FULL.is_char_device(), reason="there is no device that is always full")
def test_output_that_finds_no_room_is_an_error(long: Clew) -> None:
    done = long("journal", "export", "j", "-o", str(FULL))

    assert (done.code, done.error) == (2, "[Errno 28] No space left on device")
    assert FULL.is_char_device()
