"""The LMDB journal on a disk that is full, or broken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clew.journal import JournalLocked
from clew.journal.contract.subject import appended, noise
from clew.journal.lmdb import LmdbJournal
from tests.journal.process import Process, Refused, process

linux = pytest.mark.skipif(sys.platform != "linux", reason="the disk is filled in a way of Linux")


@linux
@pytest.mark.parametrize(("size", "room"), [(200, 100_000), (20_000, 700_000), (900_000, 700_000)])
def test_a_full_disk_loses_nothing_acknowledged_and_the_journal_goes_on_when_there_is_room(
    size: int, room: int, tmp_path: Path
) -> None:
    with process() as writer:
        writer.call("open", str(tmp_path), {})
        writer.call("append", "order/1", [noise(size)], 0)
        writer.call("limit_file_size", (tmp_path / "data.mdb").stat().st_size + room)
        durable, error = fill_twice(writer, size)
        assert "File too large" in error["text"] or "Input/output error" in error["text"]

        writer.call("limit_file_size", None)
        assert writer.call("append", "order/1", ["y"], durable) == durable + 1
        assert writer.call("problems") == []

    with LmdbJournal(tmp_path) as journal:
        assert appended(journal, "order/1") == [*(noise(size, n) for n in range(durable)), "y"]
        assert journal.verify().problems == []


@linux
def test_a_full_file_system_loses_nothing_acknowledged(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=3m none {tmp_path}"
    if shutil.which("unshare") is None or os.getuid() != 0:
        pytest.skip("only root can mount a small file system")
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], check=False, capture_output=True).returncode:  # noqa: S607
        pytest.skip("this root may not mount")

    ballast = f"head -c 1000000 /dev/zero > {tmp_path}/ballast"
    with process("unshare", "-m", "sh", "-c", f'{mount} && {ballast} && exec "$@"', "sh") as writer:
        writer.call("open", str(tmp_path / "journal"), {})
        writer.call("append", "order/1", [noise(30_000)], 0)
        durable, error = fill_twice(writer, 30_000)
        assert "No space left" in error["text"] or "Input/output error" in error["text"]

        writer.call("remove", str(tmp_path / "ballast"))
        assert writer.call("append", "order/1", ["y"], durable) == durable + 1
        assert writer.call("problems") == []
        writer.call("close")
        assert writer.call("open", str(tmp_path / "journal"), {"readonly": True}) == durable + 1
        assert writer.call("texts", "order/1") == [*(noise(30_000, n) for n in range(durable)), "y"]


def fill_twice(writer: Process, size: int) -> tuple[int, dict[str, str]]:
    """Append to `order/1` until the disk is full, twice; return how many events are durable, and the last error."""
    durable, first = writer.call("fill", "order/1", size, 1)
    assert first["error"] == "JournalFull"
    assert "nothing of it was written" in first["text"]
    assert writer.call("count", "order/1") == durable

    # Everything that waits fails together, and the streams end where they are durable.
    ends = writer.call("queue", [f"order/{n}" for n in range(2, 12)], 2_000_000)
    assert [end["error"] for end in ends] == ["JournalFull"] * 10
    assert [writer.call("count", f"order/{n}") for n in range(2, 12)] == [0] * 10
    after, error = writer.call("fill", "order/1", size, durable)
    assert error["error"] == "JournalFull"
    assert writer.call("count", "order/1") == after
    return after, error


def opened_soon(path: Path) -> LmdbJournal:
    """Open a journal that a process which still lives is about to let go of."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return LmdbJournal(path)
        except JournalLocked:
            assert time.monotonic() < deadline, "it does not let go"


@linux
def test_a_disk_that_fails_leaves_the_answer_open_and_closes_the_journal(tmp_path: Path) -> None:
    with process() as writer:
        writer.call("open", str(tmp_path), {})
        writer.call("append", "order/1", ["a"], 0)
        writer.call("break_data_file")

        with pytest.raises(Refused) as caught:
            writer.call("append", "order/1", ["b"], 1)
        assert caught.value.facts["error"] == "AppendUnknown"
        assert "An append to order/1 failed and may or may not be on disk" in str(caught.value)

        for command, arguments in (("append", ["order/1", ["b"], 1]), ("texts", ["order/1"])):
            with pytest.raises(Refused) as caught:
                writer.call(command, *arguments)
            assert caught.value.facts["error"] == "JournalClosed"
            assert "a write failed" in str(caught.value)
        # It lets go of its files, so whoever opens it next need not wait for this process to end.
        with opened_soon(tmp_path) as journal:
            assert appended(journal, "order/1")[:1] == ["a"]
            assert journal.verify().problems == []
