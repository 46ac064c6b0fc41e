"""What must be true of a path and its files before they are mapped into memory.

A mapped file that is shorter than it claims kills the process that reads it, so this looks at the bytes first. Nothing
here changes anything on disk.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple, cast

from lmdb import verify

from ..errors import ForeignJournal

__all__ = ["DATA_FILE", "LOCK_FILE", "NetworkFilesystemWarning", "check_files", "check_place", "sync_folder"]

DATA_FILE: Final = "data.mdb"
LOCK_FILE: Final = "lock.mdb"
MOUNTS: Final = Path("/proc/self/mounts")

_PAGE = Struct("=QHH4x")  # number, padding, flags
_META = Struct("=IIQQ48s48sQQ")  # magic, version, address, map size, two roots, last page, transaction
_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
_META_FLAG: Final = 0x08
_PAGE_SIZES: Final = (256, 65536)
_NETWORK: Final = frozenset(
    {"nfs", "nfs3", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs"}
)


class NetworkFilesystemWarning(UserWarning):
    """The journal lies on a network file system, whose locks and syncs may not hold what a journal needs."""


class _Meta(NamedTuple):
    transaction: int
    last_page: int
    page_size: int


def check_place(path: Path, *, readonly: bool, mounts: Path = MOUNTS) -> None:
    """Refuse a path that cannot hold a journal, and warn about one that should not.

    Raises:
        ForeignJournal: it is no directory, or there is nothing to read.
    """
    if path.exists() and not path.is_dir():
        raise ForeignJournal(path=str(path), reason="this is a file, and a journal is a directory")
    if readonly and not (path / DATA_FILE).exists():
        raise ForeignJournal(path=str(path), reason="there is no journal here to read")
    kind = _filesystem(path, mounts)
    if kind in _NETWORK:
        warnings.warn(
            f"{path}: on a network file system ({kind}), where a lock may not exclude and a sync may not last. "
            "Keep the journal on a local disk.",
            NetworkFilesystemWarning,
            stacklevel=4,
        )


def check_files(path: Path) -> None:
    """Refuse a data file that is not LMDB's, or has lost its end.

    Raises:
        ForeignJournal: with the reason.
    """
    file = path / DATA_FILE
    if not file.is_file():
        raise ForeignJournal(path=str(path), reason=f"{DATA_FILE} is not a file")
    meta = _newest_meta(path)
    if file.stat().st_size >= (meta.last_page + 1) * meta.page_size:
        return
    # Pages that were freed before they were ever written may be missing at the end of a sound file, so the
    # size alone does not tell: walk it. Where another process is writing meanwhile, walk what holds still.
    for _ in range(5):
        problems = cast("list[str]", verify.verify(str(path)))  # pyright: ignore[reportUnknownMemberType]
        before, meta = meta, _newest_meta(path)
        if not problems:
            return
        if meta == before:
            raise ForeignJournal(path=str(path), reason=f"{DATA_FILE} is cut short ({problems[0]})")


def _newest_meta(path: Path) -> _Meta:
    with (path / DATA_FILE).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise ForeignJournal(path=str(path), reason=f"{DATA_FILE} is empty")
        first = _meta(file.read(_PAGE.size + _META.size), path)
        file.seek(first.page_size)
        return max(first, _meta(file.read(_PAGE.size + _META.size), path))


def _meta(page: bytes, path: Path) -> _Meta:
    if len(page) < _PAGE.size + _META.size:
        raise ForeignJournal(path=str(path), reason=f"{DATA_FILE} is cut short in its first pages")
    _, _, flags = _PAGE.unpack_from(page)
    magic, version, _, _, root, _, last_page, transaction = _META.unpack_from(page, _PAGE.size)
    page_size = int.from_bytes(root[:4], sys.byteorder)
    if magic != _MAGIC or not flags & _META_FLAG or not _PAGE_SIZES[0] <= page_size <= _PAGE_SIZES[1]:
        raise ForeignJournal(
            path=str(path), reason=f"{DATA_FILE} is not an LMDB file of this format and kind of machine"
        )
    if version != _VERSION:
        raise ForeignJournal(
            path=str(path), reason=f"{DATA_FILE} has LMDB format {version}, and {_VERSION} is read here"
        )
    return _Meta(transaction, last_page, page_size)


def sync_folder(path: Path) -> None:
    """Make the names in a directory survive power loss."""
    if sys.platform == "win32":
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _filesystem(path: Path, mounts: Path) -> str:
    """Return the type of the file system that holds `path`, where the system tells."""
    try:
        lines = mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    real = path.resolve()
    kind, depth = "", -1
    for line in lines:
        _, place, found, *_ = line.split(" ")
        # Spaces in a mount point are written as \040.
        point = Path(place.replace("\\040", " "))
        if len(point.parts) > depth and real.is_relative_to(point):
            kind, depth = found, len(point.parts)
    return kind
