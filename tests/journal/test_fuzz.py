"""Damaged bytes: whatever decodes them says so in the way it promises, and never returns something else in silence.

By default ten thousand inputs, CLEW_FUZZ_INPUTS=n makes them n.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from hashlib import sha256
from io import BytesIO
from random import Random
from struct import pack
from zlib import crc32

import msgspec
import pytest
from msgspec import structs

from clew.journal import CellWrite, Head, InvalidHistory, JournalError, MemoryJournal, RecordedEvent, iter_history
from clew.journal import write_history as write
from clew.journal.body import Body, Chunk, split, unpack_parts
from clew.journal.body import pack_parts as pack_body
from clew.journal.codec import chain
from clew.journal.contract.subject import CATALOG, append, noise, note
from clew.journal.event import DATA_MARK, GENESIS
from clew.journal.lmdb.chunks import open_chunk, write_chunk
from clew.journal.lmdb.columns import Sealed
from clew.journal.lmdb.compression import Codec, open_dictionary, shipped_dictionary, write_dictionary
from clew.journal.lmdb.frames import (
    START,
    End,
    Frame,
    Unreadable,
    encode,
    encode_names,
    parts_of,
    read_entries,
    read_frame,
    read_names,
    read_places,
    read_stored,
    value_header,
)
from clew.journal.lmdb.order import read_order, write_order
from clew.journal.lmdb.record import StreamRecord, read_record, write_record
from clew.journal.lmdb.segment import Loader, open_segment, seal
from clew.journal.snapshot import Snapshot, SnapshotPolicy, Snapshots, Tip

pytestmark = pytest.mark.timeout(3600)

INPUTS = int(os.environ.get("CLEW_FUZZ_INPUTS", "10000"))
CODEC = Codec()
EVENTS = [note(text, cause=cause) for text in ("", "short", "é" * 200) for cause in ("", "c", "é")]
LARGE = note(noise(80_000))
LOG = value_header(10) + b"".join(encode("order/1", 7, START, [*EVENTS, LARGE], 10).frames)
NAMES = encode_names([(1, "order/1"), (2, "order/é"), (70_000, "thread/" + "x" * 300)])
ORDER = write_order([1, 2, 1, 300, 1] * 40, [*range(1, 201)], CODEC)
RECORD = write_record(StreamRecord(7, "order/1", 12, deleted=True, reset=44, end=End(3, b"d" * 16, 9)))
TEXT = noise(20_000).encode() + b"x" * 20_000
CHUNK = write_chunk(TEXT, CODEC)
DICTIONARY = write_dictionary(shipped_dictionary()[1])
PARTS = pack_body(split(LARGE.canonical)[0])


def segment() -> bytes:
    """Return a segment of some small events and a large one."""
    sealed: list[Sealed] = []
    digest = GENESIS
    for number, new in enumerate(EVENTS):
        digest = chain(digest, new.canonical)
        sealed.append(Sealed(number + 1, 10 + number, new.cause, new.canonical))
    digest = chain(digest, LARGE.canonical)
    sealed.append(Sealed(90, 99, "", PARTS, digest))
    return seal(sealed, before=GENESIS, end=End(len(sealed), digest, 99), codec=CODEC)


SEGMENT = segment()


def nothing_there(chunk: Chunk) -> bytes:
    raise Unreadable(f"{chunk} is not there")


def log(value: bytes) -> list[Frame | None]:
    """Return the frames of a log value, None for those that are damaged; each way to read it says the same."""
    view = memoryview(value)
    frames: list[Frame | None] = []
    for number, sequence, digest, recorded_at, offset, after, intact in read_places(view):
        frame = read_frame(view, offset)
        assert (frame.number, frame.sequence, frame.recorded_at) == (number, sequence, recorded_at)
        assert (frame.digest, frame.after, frame.intact) == (digest, after, intact)
        stored = read_stored(view, offset, number, sequence)
        whole = None if stored is None else (stored[0], stored[1] + DATA_MARK + stored[2] + b"}")
        assert whole == ((frame.cause, frame.stored) if intact and not frame.in_parts else None)
        frames.append(frame if intact else None)
    list(read_entries(view))
    list(parts_of(view))
    return frames


def opened_segment(value: bytes) -> object:
    opened = open_segment("order/1", 10, value, Loader(CODEC, nothing_there))
    events = opened.events(1, 10)
    assert opened.sealed()
    list(opened.chunks)
    opened.typed(CATALOG, 0)
    return [
        (event.sequence, event.position, event.recorded_at, event.cause, event.digest, body_of(event))
        for event in events
    ]


def body_of(event: RecordedEvent) -> object:
    return event.body.parts if isinstance(event.body, Body) else event.body


def parts(value: bytes) -> object:
    return [part if isinstance(part, bytes) else (part.digest, part.size_bytes) for part in unpack_parts(value)]


def checksummed(value: bytes) -> bytes:
    """Return the value with a checksum that fits, as if it had been written so."""
    return pack("<I", crc32(value[4:])) + value[4:]


def mutated(value: bytes, random: Random) -> bytes:
    """Return the value with some damage."""
    data = bytearray(value)
    match random.randrange(7):
        case 0:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        case 1:
            data[random.randrange(min(len(data), 64))] = random.randrange(256)
        case 2:
            del data[random.randrange(len(data)) :]
        case 3:
            data += random.randbytes(random.randrange(1, 40))
        case 4:
            at = random.randrange(len(data))
            data[at : at + random.randrange(1, 20)] = random.randbytes(random.randrange(20))
        case 5:
            at = random.randrange(len(data))
            data[at:at] = data[at // 2 : at // 2 + 30]
        case _:
            data = bytearray(random.randbytes(random.randrange(200)))
    return bytes(data)


Decoder = tuple[bytes, Callable[[bytes], object], tuple[type[Exception], ...], bool]
DECODERS: dict[str, Decoder] = {
    # What it is made from, what reads it, what that may raise, and whether what it returns must be what it was.
    "a log value": (LOG, log, (Unreadable,), False),
    "names": (NAMES, lambda value: read_names(memoryview(value)), (Unreadable,), True),
    "an order": (ORDER, lambda value: read_order(memoryview(value), CODEC), (Unreadable,), True),
    "a record": (RECORD, lambda value: read_record(b"order/1", value), (Unreadable,), True),
    "a chunk": (CHUNK, lambda value: open_chunk(sha256(TEXT).digest(), value, CODEC), (Unreadable,), True),
    "a dictionary": (DICTIONARY, open_dictionary, (ValueError,), True),
    "parts": (PARTS, parts, (msgspec.MsgspecError,), False),
    "a segment": (SEGMENT, opened_segment, (Unreadable, msgspec.MsgspecError), True),
}
CHECKSUMMED = ("names", "an order", "a record", "a segment")
EACH = INPUTS // (len(DECODERS) + len(CHECKSUMMED) + 4)


@pytest.mark.parametrize("name", DECODERS)
def test_damaged_bytes_are_refused_in_the_way_that_is_promised(name: str) -> None:
    value, decode, promised, proved = DECODERS[name]
    random = Random(name)
    sound = decode(value)
    refused = 0

    for _ in range(EACH):
        damaged = mutated(value, random)
        try:
            found = decode(damaged)
        except promised:
            refused += 1
            continue
        assert not proved or found == sound or damaged == value, damaged

    assert refused > EACH // 4


@pytest.mark.parametrize("name", CHECKSUMMED)
def test_bytes_that_were_never_written_so_are_refused_in_the_same_way_with_a_checksum_that_fits(name: str) -> None:
    value, decode, promised, _ = DECODERS[name]
    random = Random(f"{name}, checksummed")
    refused = 0

    for _ in range(EACH):
        try:
            decode(checksummed(mutated(value, random)))
        except promised:
            refused += 1

    assert refused


def test_a_frame_that_is_intact_is_one_that_was_written() -> None:
    random = Random(5)

    # Where it begins may have changed; what it says has not.
    written = [structs.replace(frame, after=0) for frame in log(LOG) if frame]

    for _ in range(EACH):
        try:
            found = log(mutated(LOG, random))
        except Unreadable:
            continue
        assert all(structs.replace(frame, after=0) in written for frame in found if frame)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_damaged_history_is_refused_by_its_line_or_read_as_it_was(compressed: bool) -> None:
    journal = MemoryJournal()
    for n in range(12):
        append(journal, f"order/{n % 3}", f"text {n}", "é")
    out = BytesIO()
    write(journal.read_all(), out)
    value = gzip.compress(out.getvalue(), mtime=0) if compressed else out.getvalue()
    # A digest proves what happened, and not in which stream: names, times and causes stand beside it.
    lines = {event.digest: event.canonical for event in journal.read_all()}
    random = Random(str(compressed))
    refused = 0

    for _ in range(EACH // 2):
        try:
            for event in iter_history(BytesIO(mutated(value, random))):
                assert lines[event.digest] == event.canonical
        except InvalidHistory:
            refused += 1

    assert refused > EACH // 8


def test_a_damaged_snapshot_is_passed_over() -> None:
    journal = MemoryJournal()
    append(journal, "order/1", "a", "b", "c")
    fold = Snapshots("fold", version=1, schema=b"", policy=SnapshotPolicy(every=1))
    digest, state = journal.head("order/1").digest, noise(3000).encode()
    for added in (b"one", b"two"):
        commit, _ = fold.save(
            journal.cells, "order/1", sequence=3, digest=digest, taken_at=1, state=state, added=added, after=Tip()
        )
        commit.wait()
    sound = fold.find(journal, "order/1")
    assert isinstance(sound, Snapshot)
    cells = dict(journal.cells.scan(b"snapshot/"))
    random = Random(6)
    passed_over = 0

    for _ in range(EACH):
        key = random.choice([*cells])
        journal.cells.write([CellWrite(key, mutated(cells[key], random))]).wait()
        found = fold.find(journal, "order/1")
        passed_over += found is None
        assert found in {None, sound}
        journal.cells.write([CellWrite(key, cells[key])]).wait()

    assert passed_over > EACH // 4
    assert fold.find(journal, "order/1") == sound


def test_a_damaged_event_does_not_decode_to_a_bare_error() -> None:
    random = Random(7)
    journal = MemoryJournal()
    append(journal, "order/1", "a text")
    event = next(journal.read("order/1"))
    assert journal.head("order/1") == Head("order/1", 1, event.digest)
    refused = 0

    for _ in range(EACH):
        damaged = structs.replace(event, body=mutated(event.canonical, random))
        try:
            CATALOG.decode(damaged)
        except JournalError:
            refused += 1

    assert refused > EACH // 4
