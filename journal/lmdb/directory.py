"""A journal's directory: made whole or not at all, recognised, and mapped into memory."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from zlib import crc32

import lmdb
import msgspec
from msgspec import structs

from ..errors import ForeignJournal, JournalError, NewerJournal
from ..place import sync_folder
from .databases import DATABASES, Databases
from .files import DATA_FILE, LOCK_FILE

__all__ = [
    "COMPACTING",
    "LAYOUT_VERSION",
    "READERS_CHECK_S",
    "REPAIRING",
    "Meta",
    "clear_scratch",
    "copy_data",
    "create",
    "encode_meta",
    "map_files",
    "no_slot",
    "probe",
    "refusing",
]

LAYOUT_VERSION: Final = 2
"""The newest layout of a journal that this version reads and writes."""

READERS_CHECK_S: Final = 1.0
"""How often whoever writes looks for slots of readers that were killed."""

_META_KEY: Final = b"journal"
_NEW: Final = ".new-"
COMPACTING: Final = ".compact-"
"""How the folder begins in which a smaller data file is made."""

REPAIRING: Final = ".repair-"
"""How the folder begins in which a repaired journal is made."""

_DENIED: Final = frozenset({errno.EACCES, errno.EROFS, errno.EPERM})


class Meta(msgspec.Struct, frozen=True):
    """What a journal says of itself."""

    layout: int
    journal: str
    created_at: int
    checksum: int = 0
    """Of the other three; the first layout had none."""

    @property
    def intact(self) -> bool:
        """Whether this is what was written."""
        return self.checksum == _checksum_of(self) if self.checksum or self.layout > 1 else True


def create(path: Path) -> None:
    """Make an empty journal: it is built beside and moved into place, so that a crash leaves all of it or nothing."""
    clear_scratch(path)
    new = Path(tempfile.mkdtemp(prefix=_NEW, dir=path))
    key, meta = encode_meta(Meta(LAYOUT_VERSION, str(uuid.uuid4()), time.time_ns()))
    with map_files(new, readonly=False, lock=False, map_bytes=1 << 20) as env:
        databases = Databases.of(env, create=True)
        with env.begin(write=True, db=databases.meta) as txn:
            txn.put(key, meta)
    (new / DATA_FILE).replace(path / DATA_FILE)
    shutil.rmtree(new)
    sync_folder(path)
    sync_folder(path.parent)


def clear_scratch(path: Path) -> None:
    """Remove what was being made here when its maker died. Only who has the writer's lock may do so."""
    with os.scandir(path) as found:
        left = [entry.path for entry in found if entry.name.startswith((_NEW, COMPACTING, REPAIRING))]
    for folder in left:
        shutil.rmtree(folder, ignore_errors=True)


def copy_data(env: lmdb.Environment, folder: Path) -> None:
    """Write a compact and consistent copy of the data file into `folder`, and sync it.

    Raises:
        OSError: it could not be written; mostly there is no room.
    """
    try:
        env.copy(str(folder), compact=True)
    except lmdb.Error as error:
        reason = os.strerror(error.code) if error.code > 0 else str(error)
        raise OSError(max(error.code, errno.EIO), f"the copy could not be written ({reason})", str(folder)) from error
    with (folder / DATA_FILE).open("rb") as file:
        os.fsync(file.fileno())


def probe(path: Path) -> Meta:
    """Return what the journal says of itself. Changes nothing: without a lock file there is nobody to lock out.

    Raises:
        NewerJournal: it is of a newer layout.
        lmdb.Error, msgspec.MsgspecError: it is not a journal; see `refusing`.
    """
    with map_files(path, readonly=True, lock=(path / LOCK_FILE).exists()) as env:
        databases = env.open_db(b"meta", create=False)
        with env.begin(db=databases) as txn:
            raw = txn.get(_META_KEY)
    meta = msgspec.json.decode(raw or b"", type=Meta)
    if meta.layout > LAYOUT_VERSION:
        raise NewerJournal(path=str(path), layout=meta.layout, layout_now=LAYOUT_VERSION)
    if not meta.intact:
        raise ForeignJournal(path=str(path), reason="what the journal says of itself does not match its checksum")
    return meta


def encode_meta(meta: Meta) -> tuple[bytes, bytes]:
    """Return where a journal keeps what it says of itself, and that."""
    return _META_KEY, msgspec.json.encode(structs.replace(meta, checksum=_checksum_of(meta)))


def _checksum_of(meta: Meta) -> int:
    return crc32(f"{meta.layout} {meta.journal} {meta.created_at}".encode())


def map_files(
    path: Path,
    *,
    readonly: bool,
    lock: bool = True,
    map_bytes: int = 0,
    readers_max: int = 126,
    sync_meta: bool = True,
) -> lmdb.Environment:
    """Open the LMDB environment; with `map_bytes=0` its map is as large as the file says.

    Raises:
        lmdb.Error: see `refusing`.
    """

    def opened(*, readonly: bool, lock: bool) -> lmdb.Environment:
        return lmdb.open(
            str(path),
            map_size=map_bytes,
            readonly=readonly,
            metasync=sync_meta,
            # What lies in freed memory (keys, prompts) does not belong on the disk.
            meminit=True,
            create=False,
            max_readers=readers_max,
            max_dbs=len(DATABASES),
            max_spare_txns=1,
            lock=lock,
            # The older of LMDB's two formats, for ever: which one is the library's default may change.
            lib_version=0,
        )

    # To open takes a slot for a moment. Where killed readers have left none, those who have it open clear the table.
    deadline = time.monotonic() + 3 * READERS_CHECK_S
    try:
        while True:
            try:
                return opened(readonly=readonly, lock=lock)
            except lmdb.ReadersFullError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(READERS_CHECK_S / 20)
    except lmdb.Error as error:
        if not (readonly and lock and error.code in _DENIED):
            raise
        # In a read-only image there can be no lock file. Then nobody writes either.
        return opened(readonly=True, lock=False)


def no_slot(path: Path) -> JournalError:
    """Return the error of a reader for whom there is no slot."""
    return JournalError(
        f"{path}: no reading transaction can begin, for all reader slots are taken by other processes. "
        "Close some of them, or let the first process open the journal with a larger max_readers."
    )


@contextmanager
def refusing(path: Path) -> Generator[None]:
    """Turn what LMDB says while it opens into what a caller can act on.

    Raises:
        OSError: the system refused.
        ForeignJournal: LMDB did.
        JournalError: there are too many readers.
    """
    try:
        yield
    except lmdb.ReadersFullError as error:
        raise no_slot(path) from error
    except lmdb.Error as error:
        if error.code > 0:
            raise OSError(error.code, os.strerror(error.code), str(path)) from error
        raise ForeignJournal(path=str(path), reason=f"this is not a journal ({error})") from error
    except msgspec.MsgspecError as error:
        raise ForeignJournal(path=str(path), reason=f"this is not a journal ({error})") from error
