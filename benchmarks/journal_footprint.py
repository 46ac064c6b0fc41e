"""How much of a journal's file is in use: pages that hold something, by database. Free pages are used again."""

from __future__ import annotations

from pathlib import Path

import lmdb
import msgspec

__all__ = ["Footprint", "footprint"]

_DATABASES_MAX = 64
_META_PAGES = 2


class Footprint(msgspec.Struct, frozen=True):
    """Bytes of the file, and of the pages in use in it, in all and by database."""

    file_bytes: int
    used_bytes: int
    databases: dict[str, int]


def footprint(path: Path) -> Footprint:
    """Look into a journal that nobody has open; what LMDB needs to remember its free pages counts as free."""
    with lmdb.open(str(path), readonly=True, create=False, max_dbs=_DATABASES_MAX, lib_version=0) as env:
        with env.begin() as txn:
            names = [bytes(name) for name, _ in txn.cursor()]
        opened = {name: env.open_db(name, create=False) for name in names}
        with env.begin() as txn:
            # The first are of the database that holds the names of the others.
            stats = {"": env.stat()} | {name.decode(): txn.stat(db) for name, db in opened.items()}
        page_bytes = env.stat()["psize"]
    pages = {name: stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for name, stat in stats.items()}
    used = (sum(pages.values()) + _META_PAGES) * page_bytes
    return Footprint((path / "data.mdb").stat().st_size, used, {name: n * page_bytes for name, n in pages.items()})
