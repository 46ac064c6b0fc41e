"""The process that the torture kills: `python -m clew.adapters.cli.torture_writer`, told what to do on its first line.

Many writers append to a few streams each, delete some and begin them again, while the log is sealed and compacted. Each
append is said to be acknowledged, in a line of its own, before the same writer begins the next one.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from random import Random
from typing import Final

import msgspec

from ...journal import CellWrite
from ...journal.lmdb import LmdbJournal
from .torture_facts import group_of
from .torture_orders import Acknowledged, Orders, cell_of

__all__ = ["main"]

_STREAMS_EACH: Final = 2
_DELETED_OF_A_HUNDRED: Final = 8


def main() -> None:
    """Do it until killed."""
    orders = msgspec.json.decode(sys.stdin.buffer.readline(), type=Orders)
    # What is killed may just as well be the making of the journal.
    os.write(1, b'["starting","",0]\n')
    durability = "relaxed" if orders.relaxed else "commit"
    journal = LmdbJournal(orders.path, seal_after=orders.seal_after, durability=durability, map_bytes=1 << 20)
    if orders.compact:
        threading.Thread(target=_compact, args=(journal,), daemon=True).start()
    asyncio.run(_write_all(journal, orders))


def _compact(journal: LmdbJournal) -> None:
    for number in range(1_000_000):
        journal.compact()
        journal.backup(journal.path.parent / f"backup-{os.getpid()}-{number}")


async def _write_all(journal: LmdbJournal, orders: Orders) -> None:
    async with asyncio.TaskGroup() as tasks:
        for writer in range(orders.writers):
            tasks.create_task(_Writer(journal, writer, Random(f"{orders.seed}/{writer}")).write())  # noqa: S311


def _stream(writer: int, place: int) -> str:
    # Long names are kept in another way.
    return f"torture/{writer}-{place}{'é' * 400 * (writer % 8 == place)}"


class _Writer:
    """One writer, and where its streams end."""

    def __init__(self, journal: LmdbJournal, number: int, random: Random) -> None:
        self._journal = journal
        self._random = random
        self._groups = 0
        self._heads = {
            stream: journal.head(stream) for stream in (_stream(number, place) for place in range(_STREAMS_EACH))
        }

    async def write(self) -> None:
        """Append and delete for ever."""
        while True:
            stream = self._random.choice(list(self._heads))
            head = self._heads[stream]
            if head.deleted:
                self._tell("begins", stream, 0)
                await self._append(stream, 0)
            elif head.sequence and self._random.randrange(100) < _DELETED_OF_A_HUNDRED:
                self._tell("deletes", stream, head.sequence)
                await self._journal.delete(stream, expected=head.sequence)
                self._tell("deleted", stream, head.sequence, head.digest)
                self._heads[stream] = head._replace(deleted=True)
            else:
                await self._append(stream, head.sequence)

    async def _append(self, stream: str, expected: int) -> None:
        self._groups += 1
        events = group_of(f"{os.getpid()}/{stream[:16]}/{self._groups}", self._random)
        cells = [CellWrite(cell_of(stream), b"%d" % (expected + len(events)))]
        commit = self._journal.append(stream, events, expected=expected, cells=cells, revive=not expected)
        await commit
        self._tell("appended", stream, commit.last_sequence, commit.digest)
        self._heads[stream] = self._heads[stream]._replace(
            sequence=commit.last_sequence, digest=commit.digest, deleted=False
        )

    def _tell(self, what: str, stream: str, sequence: int, digest: bytes = b"") -> None:
        # One write of a short line is whole or not there.
        os.write(1, msgspec.json.encode(Acknowledged(what, stream, sequence, digest.hex())) + b"\n")


if __name__ == "__main__":
    main()
