"""Who may open a journal on disk: one handle a process, one writing process a journal.

The locks of LMDB, of SQLite and ours are POSIX record locks, which belong to a process and not to a file handle: a
second handle in the same process would share them, and closing it would drop them. So a process opens a journal once.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Final

import msgspec

from .errors import JournalForked, JournalLocked

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["WRITER_FILE", "Claim"]

WRITER_FILE: Final = "writer.lock"

# The byte that is locked lies far behind the text, which others must be able to read.
_LOCKED_BYTE: Final = 1 << 30

# Which process opened which journal: a record lock is a fact of the whole process, and so is this table.
_claims: dict[tuple[int, int], int] = {}
_guard = threading.Lock()


class _Holder(msgspec.Struct, frozen=True):
    pid: int
    program: str


class Claim:
    """This process's hold on the journal at `path`, which must be there, until `release`.

    The lock of a journal that is a directory is a file in it; one that is a file says where its `lock_file` is.

    Raises:
        JournalLocked: this process has the journal open already.
        JournalForked: the process that this one was forked from has it open.
    """

    def __init__(self, path: Path, *, lock_file: Path | None = None) -> None:
        found = path.stat()
        self._path = path
        self._lock_file = lock_file or path / WRITER_FILE
        self._key = (found.st_dev, found.st_ino)
        self._pid = os.getpid()
        self._file: int | None = None
        with _guard:
            holder = _claims.get(self._key)
            if holder is None:
                _claims[self._key] = self._pid
        if holder == self._pid:
            raise JournalLocked(path=str(path), pid=self._pid, program=_program())
        if holder is not None:
            raise JournalForked(path=str(path), opened_by=holder, pid=self._pid)

    def lock(self) -> None:
        """Become the one process that writes. The lock ends with the process, however it ends.

        Raises:
            JournalLocked: another process writes.
            OSError: the lock file cannot be written.
        """
        file = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
        try:
            _lock(file)
        except (BlockingIOError, PermissionError):
            holder = _read(file)
            os.close(file)
            raise JournalLocked(path=str(self._path), pid=holder.pid, program=holder.program) from None
        except BaseException:
            os.close(file)
            raise
        self._file = file
        # To make a file shorter costs the file system a sync of its own, so it is done where it must be.
        name = msgspec.json.encode(_Holder(self._pid, _program()))
        os.write(file, name)
        if os.fstat(file).st_size > len(name):
            os.ftruncate(file, len(name))

    def release(self) -> None:
        """Let go. In a fork this does nothing: the hold is the parent's."""
        if os.getpid() != self._pid:
            return
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
        with _guard:
            _claims.pop(self._key, None)


def _lock(file: int) -> None:
    if sys.platform == "win32":
        os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        os.lseek(file, 0, os.SEEK_SET)
    else:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _LOCKED_BYTE)


def _read(file: int) -> _Holder:
    try:
        return msgspec.json.decode(os.read(file, 4096), type=_Holder)
    except msgspec.MsgspecError:
        # It has the lock and has not written its name yet.
        return _Holder(0, "unknown")


def _program() -> str:
    return sys.argv[0] if sys.argv and sys.argv[0] else sys.executable
