"""What waits for the writer, cut into transactions; and its changes of cells, each whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from ..commit import Commit
from ..errors import CellConflict
from ..journal import CellWrite, holds
from .frames import End
from .stream import Stream
from .transaction import Transaction

__all__ = ["BATCH_BYTES_MAX", "NO_CHUNKS", "Job", "Write", "batches", "change_cells"]

NO_CHUNKS: Final[Mapping[bytes, bytes]] = {}

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""How much goes into one transaction; a single append may be larger."""


class Job(NamedTuple):
    """Work on what is sealed, done in a transaction of the writer.

    `change` may be called more than once; what it returns is called after the commit, with no append under way.
    """

    change: Callable[[Transaction], Callable[[], None]]
    size_bytes: int


class Write(msgspec.Struct, frozen=True, gc=False):
    """What waits to be written: an append with its cells, or (without a stream) a change of cells, or a job."""

    commit: Commit
    stream: Stream | None
    frames: Sequence[bytes]
    end: End
    chunks: Mapping[bytes, bytes]
    cells: Sequence[CellWrite]
    size_bytes: int
    revive: bool = False
    job: Job | None = None


def batches(waiting: Sequence[Write]) -> Iterator[Sequence[Write]]:
    """Cut what waits into transactions of bounded size."""
    start = size_bytes = 0
    alone = False
    for number, write in enumerate(waiting):
        # A job has a transaction of its own. A deletion removes what was durable before it, and nothing that follows;
        # and sealing may find the disk full where the appends beside it do not.
        before, alone = alone, write.job is not None
        if number > start and (size_bytes + write.size_bytes > BATCH_BYTES_MAX or before or alone):
            yield waiting[start:number]
            start, size_bytes = number, 0
        size_bytes += write.size_bytes
    yield waiting[start:]


def change_cells(txn: Transaction, batch: Sequence[Write]) -> dict[int, CellConflict]:
    """Make the batch's changes of cells in their order, each write whole or not at all; return the refusals."""
    conflicts: dict[int, CellConflict] = {}
    # What is overwritten within the batch is never put into the tree.
    changed: dict[bytes, bytes | None] = {}
    for number, write in enumerate(batch):
        if not write.cells:
            continue
        if write.stream is None and (conflict := _conflict(txn, changed, write.cells)):
            conflicts[number] = conflict
        else:
            changed.update((cell.key, cell.value) for cell in write.cells)
    for key in sorted(changed):
        txn.set_cell(key, changed[key])
    return conflicts


def _conflict(
    txn: Transaction, changed: Mapping[bytes, bytes | None], cells: Sequence[CellWrite]
) -> CellConflict | None:
    for cell in cells:
        current = changed[cell.key] if cell.key in changed else txn.cell(cell.key)
        if not holds(cell, current):
            return CellConflict(key=cell.key)
    return None
