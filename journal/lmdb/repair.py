"""Repair: everything that can be read is written anew, and what it was made of is kept.

The indexes (records, numbers, the order of events) are made again from the streams. What cannot be read is listed with
its bytes in `quarantine.jsonl`, and the data file as it was is kept beside it. Positions, sequences and digests stay.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from ..errors import CorruptRecord, ForeignJournal
from ..place import sync_folder
from ..report import Report
from .chunks import ChunkStore, open_chunk
from .compression import Codec, dictionary_key, open_dictionary, shipped_dictionary, write_dictionary
from .directory import LAYOUT_VERSION, REPAIRING, clear_scratch, create, encode_meta
from .environment import Environment
from .files import DATA_FILE, LOCK_FILE, walk_pages
from .frames import Unreadable
from .index import Index
from .order import ORDER_EVENTS_MAX, write_order
from .record import StreamRecord, stream_key, write_record
from .report import examine
from .salvage import Damaged, Order, Run, Salvage
from .sealing import cut
from .segment import Loader
from .tail import Tail
from .transaction import Transaction

__all__ = ["Repair", "repair"]

_AT_ONCE: Final = 256
_BYTES_AT_ONCE: Final = 8 * 1024 * 1024


class Repair(NamedTuple):
    """What a repair did.

    `events` and `streams` are in the journal now, `quarantined` says what is not, and `original` is the folder with the
    data file as it was; None when nothing was wrong and nothing was done.
    """

    events: int
    streams: int
    quarantined: Sequence[str]
    original: Path | None


def repair(path: Path) -> Repair:
    """Write the journal at `path` anew from what can be read of it, if something is wrong with it.

    Waits until the new data file is durable; it is made beside the old one and moved into its place, so that a crash
    leaves one of them. The old one is kept with what could not be read. A stream that has lost events in its middle
    keeps what came after; to read over the gap raises `CorruptRecord`. One that has lost its end goes on from there.

    Raises:
        JournalLocked: somebody has the journal open.
        ForeignJournal: the file itself is damaged, so that LMDB cannot read it; restore a backup.
        OSError: there is no room for the new file; the journal is as it was.
    """
    env = Environment(path, readonly=True)
    try:
        env.exclude_writers()
        if pages := walk_pages(path):
            reason = f"its pages are damaged ({pages[0]}), and LMDB cannot be trusted to read them"
            raise ForeignJournal(path=str(path), reason=reason)
        clear_scratch(path)
        loader = _loader(env)
        before = _examined(env, loader)
        if before.clean:
            return Repair(before.events, before.streams, (), None)
        with tempfile.TemporaryDirectory(prefix=REPAIRING, dir=path) as scratch:
            damaged: list[Damaged] = []
            report = _rewrite(env, loader, Path(scratch), damaged.append)
            quarantined = [f"{one.what}: {one.reason}" for one in damaged]
            original = _swap(path, Path(scratch), damaged)
        return Repair(report.events, report.streams, quarantined, original)
    finally:
        env.ended = "it was repaired"
        env.close()


def _loader(env: Environment) -> Loader:
    codec = Codec()
    return Loader(codec, ChunkStore(env, codec).load)


def _examined(env: Environment, loader: Loader) -> Report:
    index = Index(env)
    Tail(env, index, loader.codec).catch_up()
    report = examine(env, index, loader)
    if index.damage:
        report.add(index.damage)
    return report


def _rewrite(env: Environment, loader: Loader, folder: Path, damaged: Callable[[Damaged], None]) -> Report:
    """Write what can be read of `env` into a new journal in `folder`; return what an examination of that finds."""
    salvage = Salvage(env, loader, damaged)
    salvage.survey()
    create(folder)
    new = Environment(folder, readonly=False, durability="relaxed")
    try:
        rewriting = _Rewriting(env, new, loader)
        rewriting.describe()
        rewriting.copy_chunks(damaged)
        order = Order(salvage.position)
        for record in sorted(salvage.records.values(), key=lambda record: record.number):
            rewriting.copy_stream(record, salvage, order)
        rewriting.write_order(order)
        rewriting.copy_cells(damaged)
        rewriting.flush()
        return _examined(new, _loader(new))
    finally:
        new.ended = "it was written"
        new.close()


class _Rewriting:
    """Puts things into the new journal, many in each transaction."""

    def __init__(self, env: Environment, new: Environment, loader: Loader) -> None:
        self._env = env
        self._new = new
        self._loader = loader
        self._changes: list[Callable[[Transaction], None]] = []
        self._size_bytes = 0

    def _put(self, change: Callable[[Transaction], None], size_bytes: int) -> None:
        self._changes.append(change)
        self._size_bytes += size_bytes
        if self._size_bytes >= _BYTES_AT_ONCE or len(self._changes) >= _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        changes, self._changes = self._changes, []
        size_bytes, self._size_bytes = self._size_bytes, 0

        def change(txn: Transaction) -> None:
            for one in changes:
                one(txn)

        self._new.transact(change, size_bytes=size_bytes)

    def describe(self) -> None:
        """Let the new journal be the old one, in the present layout and a later epoch."""
        key, meta = encode_meta(structs.replace(self._env.meta, layout=LAYOUT_VERSION))
        number, raw = shipped_dictionary()
        kept = {dictionary_key(number): write_dictionary(raw)}
        with self._env.reading() as reader:
            epoch = reader.epoch()
            for name, stored in reader.dictionaries():
                try:
                    open_dictionary(stored)
                except ValueError:
                    continue
                kept[name] = stored

        def change(txn: Transaction) -> None:
            txn.set_meta(key, meta)
            for name, stored in kept.items():
                txn.set_meta(name, stored)
            txn.begin_epoch(after=epoch)

        self._put(change, len(raw))

    def copy_chunks(self, damaged: Callable[[Damaged], None]) -> None:
        """Take over the chunks that are what their names say."""
        after = b""
        try:
            while True:
                with self._env.reading() as reader:
                    some = [(digest, bytes(value)) for digest, value in islice(reader.chunks(after), 16)]
                for digest, value in some:
                    after = digest
                    try:
                        open_chunk(digest, value, self._loader.codec)
                    except Unreadable as error:
                        damaged(Damaged(f"chunk {digest.hex()[:16]}", str(error), value))
                        continue
                    self._put(partial(_add_chunk, digest, value), len(value))
                if not some:
                    return
        except CorruptRecord as error:
            damaged(Damaged("chunks", str(error), b""))

    def copy_stream(self, record: StreamRecord, salvage: Salvage, order: Order) -> None:
        """Seal what there is of a stream."""
        began = record.began
        events = 0
        if not record.deleted:
            for run in salvage.runs(record.number):
                order.put(record.number, run)
                events += len(run.events)
                began = began or run.events[0].position
                self._put_run(record.number, run)
        if not events and not record.deleted:
            return
        value = write_record(structs.replace(record, began=began))
        removed = record.end.sequence if record.deleted and record.end else 0
        self._put(partial(_set_record, record, value, removed), len(value))

    def _put_run(self, number: int, run: Run) -> None:
        for segment in cut(run.events, run.end.sequence, run.before, self._loader):
            self._put(partial(_set_segment, number, segment.last, segment.value), len(segment.value))

    def write_order(self, order: Order) -> None:
        """Write which event stands at which position."""
        last = len(order.numbers)
        for start in range(0, last, ORDER_EVENTS_MAX):
            stop = start + ORDER_EVENTS_MAX
            block = write_order(order.numbers[start:stop], order.sequences[start:stop], self._loader.codec)
            self._put(partial(_set_order, start + 1, block), len(block))
        if last:
            self._put(lambda txn: txn.drop(last), 0)

    def copy_cells(self, damaged: Callable[[Damaged], None]) -> None:
        """Take over the cells."""
        after = b""
        try:
            while True:
                with self._env.reading() as reader:
                    some = list(islice(reader.cells(b"", after), _AT_ONCE))
                for key, value in some:
                    self._put(partial(_set_cell, key, value), len(value))
                if not some:
                    return
                after = some[-1][0]
        except CorruptRecord as error:
            damaged(Damaged("cells, which can be made again", str(error), b""))


def _add_chunk(digest: bytes, value: bytes, txn: Transaction) -> None:
    txn.add_chunk(digest, value)


def _set_record(record: StreamRecord, value: bytes, removed: int, txn: Transaction) -> None:
    txn.set_stream(stream_key(record.name), value, record.number, record.name)
    if record.deleted:
        txn.count_removed(1, removed)


def _set_segment(number: int, last: int, value: bytes, txn: Transaction) -> None:
    txn.set_segment(number, last, value)


def _set_order(first: int, block: bytes, txn: Transaction) -> None:
    txn.set_order(first, block)


def _set_cell(key: bytes, value: bytes, txn: Transaction) -> None:
    txn.set_cell(key, value)


def _swap(path: Path, scratch: Path, damaged: Sequence[Damaged]) -> Path:
    """Put the new data file in place of the old one, which is kept with the list of what it did not give."""
    original = path / f"damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    original.mkdir()
    with (original / "quarantine.jsonl").open("wb") as out:
        for one in damaged:
            line = {"what": one.what, "reason": one.reason, "bytes": b64encode(one.value).decode()}
            out.write(msgspec.json.encode(line) + b"\n")
        out.flush()
        os.fsync(out.fileno())
    try:
        os.link(path / DATA_FILE, original / DATA_FILE)
    except OSError:
        shutil.copyfile(path / DATA_FILE, original / DATA_FILE)
    sync_folder(original)
    with (scratch / DATA_FILE).open("rb") as new:
        os.fsync(new.fileno())
    (scratch / DATA_FILE).replace(path / DATA_FILE)
    (path / LOCK_FILE).unlink(missing_ok=True)
    sync_folder(path)
    return original
