"""The SQLite journal on a disk that is full, or broken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clew.journal.contract.subject import appended, noise
from clew.journal.sql import SqliteJournal
from tests.journal.process import Refused, process
from tests.journal.test_lmdb_full import fill_twice

linux = pytest.mark.skipif(sys.platform != "linux", reason="the disk is filled in a way of Linux")


@linux
@pytest.mark.parametrize(("size", "room"), [(200, 100_000), (20_000, 700_000), (900_000, 700_000)])
def test_a_full_disk_loses_nothing_acknowledged_and_the_journal_goes_on_when_there_is_room(
    size: int, room: int, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    with process() as writer:
        writer.call("open", str(path), {})
        writer.call("append", "order/1", [noise(size)], 0)
        writer.call("limit_file_size", path.with_name("journal.db-wal").stat().st_size + room)
        durable, _ = fill_twice(writer, size)

        writer.call("limit_file_size", None)
        assert writer.call("append", "order/1", ["y"], durable) == durable + 1
        assert writer.call("problems") == []

    with SqliteJournal(path) as journal:
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
        writer.call("open", str(tmp_path / "journal.db"), {})
        writer.call("append", "order/1", [noise(30_000)], 0)
        durable, error = fill_twice(writer, 30_000)
        assert "full" in error["text"]

        writer.call("remove", str(tmp_path / "ballast"))
        assert writer.call("append", "order/1", ["y"], durable) == durable + 1
        assert writer.call("problems") == []
        writer.call("close")
        assert writer.call("open", str(tmp_path / "journal.db"), {"readonly": True}) == durable + 1
        assert writer.call("texts", "order/1") == [*(noise(30_000, n) for n in range(durable)), "y"]


@linux
def test_a_disk_that_fails_leaves_the_answer_open_and_closes_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with process() as writer:
        writer.call("open", str(path), {})
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

        writer.kill()
        with SqliteJournal(path) as journal:
            assert appended(journal, "order/1")[:1] == ["a"]
            assert journal.verify().problems == []
