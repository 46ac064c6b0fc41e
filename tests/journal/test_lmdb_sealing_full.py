"""A disk that is full while the log is sealed or compacted: nothing is lost, and it goes on when there is room."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.journal.contract.subject import appended, noise
from clew.journal.lmdb import LmdbJournal
from tests.journal.process import Process, Refused, process

linux = pytest.mark.skipif(sys.platform != "linux", reason="the disk is filled in a way of Linux")

STREAMS = 40
TEXTS = 12


def written(number: int) -> list[str]:
    return [noise(3_000, 1000 * number + n) for n in range(TEXTS)]


def fill_log(writer: Process) -> None:
    """Fill the log with what hardly compresses, so that to seal it takes as much room again; some of it is chunks."""
    for number in range(STREAMS):
        assert writer.call("append", f"order/{number}", written(number), 0) == TEXTS
    assert writer.call("append", "order/large", [noise(100_000)], 0) == 1


def check_all(writer: Process) -> None:
    for number in range(STREAMS):
        assert writer.call("texts", f"order/{number}") == written(number)
    assert writer.call("texts", "order/large") == [noise(100_000)]
    assert writer.call("problems") == []


def refused(writer: Process, command: str, *arguments: Any) -> str:
    with pytest.raises(Refused) as caught:
        writer.call(command, *arguments)
    return caught.value.facts["error"]


@linux
@pytest.mark.parametrize("room", [0, 40_000, 300_000, 1_000_000])
def test_a_disk_that_fills_while_the_log_is_sealed_loses_nothing(room: int, tmp_path: Path) -> None:
    with process() as writer:
        writer.call("open", str(tmp_path), {"seal_after": 10**9})
        fill_log(writer)
        writer.call("limit_file_size", (tmp_path / "data.mdb").stat().st_size + room)

        assert refused(writer, "compact") == "JournalFull"
        partly = writer.call("sealed")
        assert partly < STREAMS * TEXTS
        check_all(writer)
        assert refused(writer, "compact") == "JournalFull"
        assert writer.call("sealed") == partly
        # A kill now leaves what is there.
        shutil.copytree(tmp_path, tmp_path / "copy", ignore=shutil.ignore_patterns("copy", "lock.mdb"))

        writer.call("limit_file_size", None)
        assert writer.call("append", "order/0", ["more"], TEXTS) == TEXTS + 1
        writer.call("compact")
        assert writer.call("sealed") == STREAMS * TEXTS + 2
        assert writer.call("problems") == []

    with LmdbJournal(tmp_path) as journal:
        assert appended(journal, "order/0") == [*written(0), "more"]
    with LmdbJournal(tmp_path / "copy") as journal:
        for number in range(STREAMS):
            assert appended(journal, f"order/{number}") == written(number)
        assert journal.verify().problems == []


@linux
def test_a_disk_that_fills_while_a_sealed_journal_is_compacted_loses_nothing(tmp_path: Path) -> None:
    with process() as writer:
        writer.call("open", str(tmp_path), {"seal_after": 10**9})
        fill_log(writer)
        writer.call("compact")
        # Small segments behind others, a stream to be forgotten with its chunks, and a log.
        for number in range(STREAMS):
            writer.call("append", f"order/{number}", written(number + 100), TEXTS)
        writer.call("delete", "order/large", 1)
        size_bytes = (tmp_path / "data.mdb").stat().st_size

        for room in (0, 100_000, 200_000, 400_000):
            writer.call("limit_file_size", size_bytes + room)
            try:
                writer.call("compact")
            except Refused as error:
                assert error.facts["error"] == "JournalFull"  # noqa: PT017  (with enough room there is none)
            for number in range(0, STREAMS, 7):
                assert writer.call("texts", f"order/{number}") == [*written(number), *written(number + 100)]
            assert writer.call("problems") == []
        writer.call("limit_file_size", None)
        writer.call("compact")
        assert writer.call("sealed") == 2 * TEXTS * STREAMS
        assert writer.call("append", "order/9", ["more"], 2 * TEXTS) == 2 * TEXTS + 1
        assert writer.call("problems") == []


@linux
def test_a_full_file_system_leaves_the_log_until_there_is_room_to_seal_it(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=4m none {tmp_path}"
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            ["unshare", "-m", "sh", "-c", mount],  # noqa: S607
            check=False,
            capture_output=True,
        ).returncode
    ):
        pytest.skip("only root can mount a small file system")

    ballast = f"head -c 1500000 /dev/zero > {tmp_path}/ballast"
    with process("unshare", "-m", "sh", "-c", f'{mount} && {ballast} && exec "$@"', "sh") as writer:
        writer.call("open", str(tmp_path / "journal"), {"seal_after": 10**9})
        fill_log(writer)
        assert refused(writer, "compact") == "JournalFull"
        check_all(writer)
        assert refused(writer, "append", "order/x", [noise(2_000_000)], 0) == "JournalFull"

        writer.call("remove", str(tmp_path / "ballast"))
        writer.call("compact")
        check_all(writer)
        writer.call("close")
        writer.call("open", str(tmp_path / "journal"), {})
        check_all(writer)
