"""Damage done on purpose: where the records of a closed journal lie in its data file, and a byte of one changed.

For proofs only (`clew journal torture`, tests): what a disk that forgets would do, and nothing a journal does itself.
The pages are read as LMDB lays them out, so a place is that of the live record and never of an older copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from .files import DATA_FILE, check_files

__all__ = ["Place", "flip", "places"]

_PAGE = Struct("=10xHH2x")  # flags, where the slots end
_META = Struct("=24x48s48s8xQ")  # the tree of free pages, the tree of databases, transaction
_TREE = Struct("=I36xQ")  # page size, root
_NODE = Struct("=HHHH")  # the low and the high half of a size, flags, size of the key; in a branch the first three
# are the number of a page
_SLOT = Struct("=H")
_NUMBER = Struct("=Q")
_BRANCH: Final = 0x01
_LEAF: Final = 0x02
_OWN_PAGES: Final = 0x01
_SUBTREE: Final = 0x02
_NO_PAGE: Final = 2**64 - 1


class Place(NamedTuple):
    """A live record: its database and key, where its value begins in the data file, and the value's size in bytes."""

    database: str
    key: bytes
    at: int
    size_bytes: int


class _Node(NamedTuple):
    key: bytes
    at: int
    size_bytes: int
    flags: int


def places(path: Path) -> Iterator[Place]:
    """Yield where the live records of the closed journal at `path` are, in the order of databases and keys.

    Raises:
        ForeignJournal: it is not a journal.
        OSError: it cannot be read.
    """
    check_files(path)
    pages = _Pages((path / DATA_FILE).read_bytes())
    for database in pages.leaves(pages.root):
        if database.flags & _SUBTREE:
            _, root = _TREE.unpack_from(pages.data, database.at)
            for node in pages.leaves(root):
                yield Place(database.key.decode(), node.key, node.at, node.size_bytes)


def flip(path: Path, at: int, mask: int = 0xFF) -> None:
    """Change the byte at `at` of the data file of the closed journal at `path`: exclusive or with `mask`."""
    with (path / DATA_FILE).open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ mask]))


class _Pages:
    """A whole data file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        free, main, transaction = _META.unpack_from(data, _PAGE.size)
        self.page_size, _ = _TREE.unpack_from(free)
        _, other, later = _META.unpack_from(data, self.page_size + _PAGE.size)
        _, self.root = _TREE.unpack_from(other if later > transaction else main)

    def leaves(self, page: int) -> Iterator[_Node]:
        """Yield the records below a page."""
        if page == _NO_PAGE:
            return
        start = page * self.page_size
        flags, end = _PAGE.unpack_from(self.data, start)
        for slot in range(start + _PAGE.size, start + end, _SLOT.size):
            node = start + _SLOT.unpack_from(self.data, slot)[0]
            low, high, middle, key_size = _NODE.unpack_from(self.data, node)
            if flags & _BRANCH:
                yield from self.leaves(low | high << 16 | middle << 32)
            elif flags & _LEAF:
                yield self._record(node + _NODE.size, key_size, low | high << 16, middle)

    def _record(self, key_at: int, key_size: int, size_bytes: int, flags: int) -> _Node:
        at = key_at + key_size
        key = self.data[key_at:at]
        if flags & _OWN_PAGES:
            (page,) = _NUMBER.unpack_from(self.data, at)
            at = page * self.page_size + _PAGE.size
        return _Node(key, at, size_bytes, flags)
