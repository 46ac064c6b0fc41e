"""The LMDB environment of a journal: read in short transactions, grown when it is full.

Reading transactions are counted, so that the map is moved only while none is open. A writing transaction that does
not fit is repeated in a bigger map. Which failures certainly wrote nothing is decided here.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal
from weakref import WeakSet

import lmdb

from ..errors import CorruptRecord, JournalClosed, JournalForked, OutdatedJournal
from ..lock import Claim
from .databases import Databases
from .directory import LAYOUT_VERSION, Meta, clear_scratch, copy_data, create, map_files, no_slot, probe, refusing
from .files import DATA_FILE, check_files, check_place
from .gate import Gate
from .reader import FirstLayoutReader, Reader
from .transaction import Transaction
from .turns import Turns

__all__ = ["CommitFailed", "Durability", "Environment", "NoRoom", "unreadable"]

Durability = Literal["commit", "relaxed"]

_READERS_HERE_MAX: Final = 64
_BEGIN_ATTEMPTS_MAX: Final = 10
_COPY_ROOM_BYTES: Final = 4 * 1024**3 if sys.maxsize > 2**32 else 0
_METAS: Final = 2
"""The pages at the beginning of a data file that say where its trees are."""
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})

# A fork is told to them, since to ask for the process id at every append would cost more than its other checks.
_open: WeakSet[Environment] = WeakSet()


def _tell_forks() -> None:
    for env in list(_open):
        env.forked, env.ended = True, "this process is a fork"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell_forks)


class NoRoom(Exception):
    """The transaction did not fit on the disk, and nothing of it was written."""


class CommitFailed(Exception):
    """The transaction may or may not be on disk."""


class _Reading:
    """A reading transaction as a context manager; not a generator, for whatever is read passes through here."""

    __slots__ = ("_env", "_txn")

    def __init__(self, env: Environment) -> None:
        self._env = env

    def __enter__(self) -> Reader:
        self._txn, reader = self._env.begin()
        return reader

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._env.end(self._txn)
        if isinstance(error, lmdb.Error | struct.error):
            raise unreadable(self._env.path, error) from error


def unreadable(path: Path, error: Exception) -> CorruptRecord:
    """Return what a caller can act on when LMDB finds its own pages damaged, or keys are of another kind."""
    return CorruptRecord(where=str(path), reason=f"LMDB cannot read its pages ({error})")


class Environment:
    """One journal directory, open in this process.

    Raises:
        ForeignJournal, JournalLocked, JournalForked: see `clew.journal.errors`.
        OSError: the files cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        *,
        readonly: bool,
        durability: Durability = "commit",
        map_bytes: int = 16 * 1024 * 1024,
        readers_max: int = 512,
        migrating: bool = False,
    ) -> None:
        check_place(path, readonly=readonly)
        if not readonly:
            path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.readonly = readonly
        self._migrating = migrating
        self.ended = ""
        """Why the journal cannot be used any more; empty while it can."""
        self.forked = False
        """Whether this process is a fork of the one that opened it."""
        self._pid = os.getpid()
        self._relaxed = durability == "relaxed" and not readonly
        self._gate = Gate(_READERS_HERE_MAX)
        self._begun: dict[int, float] = {}
        self._turns = Turns()
        # Held while a transaction writes: the map must not be moved by anybody else meanwhile.
        self._writing = threading.Lock()
        self._claim = Claim(path)
        try:
            with refusing(path):
                self.meta = self._find_or_create()
                self._env = map_files(
                    path,
                    map_bytes=_roomy(map_bytes, (path / DATA_FILE).stat().st_size),
                    readonly=readonly,
                    readers_max=readers_max,
                    sync_meta=not self._relaxed,
                )
                self._databases = self._open_databases()
                found = (path / DATA_FILE).stat()
                self._file = (found.st_dev, found.st_ino)
                self._reader = Reader if self.meta.layout > 1 else FirstLayoutReader
        except BaseException:
            self._claim.release()
            raise
        _open.add(self)

    def _find_or_create(self) -> Meta:
        data = self.path / DATA_FILE
        if not data.exists():
            self._claim.lock()
            # Another process may have made it before we had the lock.
            if not data.exists():
                create(self.path)
        check_files(self.path)
        meta = probe(self.path)
        if not self.readonly:
            self._claim.lock()
            clear_scratch(self.path)
            # Another process may have migrated it before we had the lock.
            meta = probe(self.path)
            if meta.layout < LAYOUT_VERSION and not self._migrating:
                raise OutdatedJournal(path=str(self.path), layout=meta.layout, layout_now=LAYOUT_VERSION)
        return meta

    def _open_databases(self) -> Databases:
        try:
            self.clear_dead_readers()
            return Databases.of(self._env, create=self._migrating)
        except BaseException:
            # Else it would stay open as long as somebody looks at the error.
            self._env.close()
            raise

    def check_file(self) -> None:
        """Refuse to go on with a data file that is no longer the journal's.

        Raises:
            JournalClosed: it was replaced, by a compaction, a repair or a restore.
        """
        with suppress(FileNotFoundError):
            found = (self.path / DATA_FILE).stat()
            if (found.st_dev, found.st_ino) != self._file:
                self.ended = self.ended or "its data file was replaced by a compact, repair or restore"
        self.check()

    def exclude_writers(self) -> None:
        """Let no process write from now on, this one included.

        Raises:
            JournalLocked: another process writes.
        """
        self._claim.lock()

    def check(self) -> None:
        """Refuse to go on in a fork, or when the journal was closed.

        Raises:
            JournalForked, JournalClosed: see `clew.journal.errors`.
        """
        if self.forked:
            raise JournalForked(path=str(self.path), opened_by=self._pid, pid=os.getpid())
        if self.ended:
            raise JournalClosed(path=str(self.path), reason=self.ended)

    @property
    def size_bytes(self) -> int:
        """The size of the data file."""
        return (self.path / DATA_FILE).stat().st_size

    @property
    def map_bytes(self) -> int:
        """The size of the memory map."""
        return self._env.info()["map_size"]

    def reading(self) -> _Reading:
        """Read in one transaction. Be short: the map cannot grow meanwhile.

        Raises:
            JournalForked, JournalClosed: see `check`.
            CorruptRecord: LMDB finds its own pages damaged.
        """
        return _Reading(self)

    def begin(self) -> tuple[lmdb.Transaction[memoryview], Reader]:
        """Begin a reading transaction, which must be given to `end`."""
        txn = self._begin()
        now = self._begun[id(txn)] = time.monotonic()
        self._turns.begin(now)
        return txn, self._reader(txn, self._databases)

    def end(self, txn: lmdb.Transaction[memoryview]) -> None:
        """End a reading transaction."""
        del self._begun[id(txn)]
        txn.abort()
        self._gate.leave()
        self._turns.end()

    def oldest_reader_s(self) -> float:
        """Return how long the oldest reading transaction of this process has been open; 0.0 when there is none."""
        begun = list(self._begun.values())
        return time.monotonic() - min(begun) if begun else 0.0

    def reader_lag(self) -> int:
        """Return how many commits the oldest reader of any process is behind: the space they freed is still taken."""
        with self._gate_held():
            lines, last = self._env.readers().splitlines()[1:], self._env.info()["last_txnid"]
        seen = [int(number) for line in lines if (number := line.split()[-1]).isdigit()]
        return max(0, last - min(seen)) if seen else 0

    def room(self) -> tuple[int, int]:
        """Return how many bytes of the data file are free to be used again, and how large the map is."""
        with self.reading() as reader:
            used = sum(reader.pages().values())
            info, stat = self._env.info(), self._env.stat()
        main = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        free = max(0, info["last_pgno"] + 1 - used - main - _METAS)
        return free * stat["psize"], info["map_size"]

    @contextmanager
    def snapshot(self) -> Generator[Reader]:
        """Read in one transaction that may take long. Pages that are freed meanwhile are used again afterwards only."""
        self._make_room()
        with self.reading() as reader:
            yield reader

    def _make_room(self) -> None:
        """Give the map, which cannot move while something takes long, room until then: address space, not disk."""
        self.check()
        if not self.readonly:
            with self._writing, self._gate.alone():
                self._env.set_mapsize(_roomy(self.map_bytes, 2 * self.size_bytes + _COPY_ROOM_BYTES))

    def copy(self, path: Path) -> None:
        """Write a compact and consistent copy of the data file into the directory `path`, as of now."""
        self._make_room()
        with self._gate_held():
            copy_data(self._env, path)

    @contextmanager
    def _gate_held(self) -> Generator[None]:
        """Keep the map where it is, as a reading transaction does."""
        self.check()
        self._gate.enter()
        try:
            self.check()
            yield
        finally:
            self._gate.leave()

    def _begin(self) -> lmdb.Transaction[memoryview]:
        for _ in range(_BEGIN_ATTEMPTS_MAX):
            # First outside: in a fork the gate may be held by a thread that is not there.
            self.check()
            self._gate.enter()
            try:
                self.check()
                return self._env.begin(buffers=True)
            except lmdb.MapResizedError:
                mend = self._adopt
            except lmdb.ReadersFullError:
                # Readers that were killed hold their slots until somebody looks.
                mend = self.clear_dead_readers
            except BaseException:
                self._gate.leave()
                raise
            self._gate.leave()
            mend()
        raise no_slot(self.path)

    def clear_dead_readers(self) -> None:
        """Free the slots of readers that were killed, for others who could not even open the journal to do it."""
        self._env.reader_check()

    def transact(self, change: Callable[[Transaction], None], *, size_bytes: int) -> None:
        """Make `change`, of about `size_bytes`, durable. It may be called again, when the map had to grow.

        Raises:
            NoRoom: the disk is full; nothing was written.
            CommitFailed: nobody knows whether it was written; do not go on with this environment.
        """
        while not self._attempt(change, size_bytes):
            pass

    def _attempt(self, change: Callable[[Transaction], None], size_bytes: int) -> bool:
        """Return whether it fitted into the map, which has grown if not."""
        with self._writing:
            return self._written(change, size_bytes)

    def _written(self, change: Callable[[Transaction], None], size_bytes: int) -> bool:
        txn = self._env.begin(write=True)
        number = txn.id()
        try:
            change(Transaction(txn, self._databases))
            txn.commit()
        except lmdb.MapFullError:
            with self._gate.alone():
                txn.abort()
                self._env.set_mapsize(_roomy(2 * self.map_bytes, self.size_bytes + 2 * size_bytes))
            return False
        except BaseException as error:
            # Without the gate it would wait until by chance nobody reads: py-lmdb aborts only then.
            with self._gate.alone():
                txn.abort()
            if isinstance(error, lmdb.Error):
                raise self._failure(error, number) from error
            raise
        return True

    def _failure(self, error: lmdb.Error, number: int) -> Exception:
        # Pages are written first and the root after them, and a root that could not be written makes LMDB refuse
        # all further transactions. So if one can begin, and the last one is not ours, nothing of ours is there.
        full = error.code in _NO_ROOM or (error.code == errno.EIO and self._is_full())
        if not full or self._env.info()["last_txnid"] >= number:
            return CommitFailed(str(error))
        try:
            self._env.begin(write=True).abort()
        except lmdb.Error:
            return CommitFailed(str(error))
        return NoRoom(str(error))

    def _is_full(self) -> bool:
        """Whether the data file cannot become longer: LMDB reports a write that was cut short as an I/O error."""
        page = bytes(self._env.stat()["psize"])
        with (self.path / DATA_FILE).open("ab", buffering=0) as file:
            try:
                return file.write(page) < len(page)
            except OSError as error:
                return error.errno in _NO_ROOM

    def _adopt(self) -> None:
        """Take over the map's size from the process that has made it bigger."""
        with self._gate.alone():
            self._env.set_mapsize(0)

    def close(self) -> None:
        """Let go of the files, after the last reader. `ended` must be set."""
        with self._gate.alone():
            if self._relaxed:
                # Nobody is told when this fails: those who were to know were told at their commits.
                with suppress(lmdb.Error):
                    self._env.sync(force=True)
            self._env.close()
        self._claim.release()


def _roomy(map_bytes: int, used_bytes: int) -> int:
    """Return a map size of at least `map_bytes` that leaves room behind `used_bytes`."""
    while map_bytes < used_bytes + used_bytes // 4:
        map_bytes *= 2
    return -(-map_bytes // 65536) * 65536
