"""What must be true of a path and its files before they are mapped into memory.

A mapped file that is shorter than it claims kills the process that reads it, so this looks at the bytes first. Nothing
here changes anything on disk.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple, cast

from lmdb import verify

from ..errors import ForeignJournal
from ..place import MOUNTS, warn_of_network

__all__ = ["DATA_FILE", "LOCK_FILE", "check_files", "check_place", "walk_pages"]

DATA_FILE: Final = "data.mdb"
LOCK_FILE: Final = "lock.mdb"

_WALKS_MAX: Final = 10

_PAGE = Struct("=QHH4x")  # number, padding, flags
_META = Struct("=IIQQ48s48sQQ")  # magic, version, address, map size, two roots, last page, transaction
_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
_META_FLAG: Final = 0x08
_PAGE_SIZES: Final = (256, 65536)


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
    warn_of_network(path, mounts=mounts)


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
    # size alone does not tell: walk it.
    if problems := walk_pages(path):
        raise ForeignJournal(path=str(path), reason=f"{DATA_FILE} is cut short ({problems[0]})")


def walk_pages(path: Path) -> list[str]:
    """Return what is wrong with the pages of a data file, without mapping it: LMDB would end the process on some of it.

    Up to four seconds for a gigabyte of small records. Where somebody is writing meanwhile, what is walked is what
    holds still, by itself or because a reader holds it; where nothing does, nothing is said.
    """
    meta = _newest_meta(path)
    for _ in range(_WALKS_MAX):
        problems = _walk(path)
        before, meta = meta, _newest_meta(path)
        if not problems or meta == before:
            return problems
    return []


def _walk(path: Path) -> list[str]:
    try:
        return cast("list[str]", verify.verify(str(path)))  # pyright: ignore[reportUnknownMemberType]
    except verify.VerifyError as error:
        return [str(error)]


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
