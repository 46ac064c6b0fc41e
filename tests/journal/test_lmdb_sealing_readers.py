"""Readers across sealing, dropping, compaction and deletion: in threads, and in other processes."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from clew.journal import Journal, RecordedEvent, StreamDeleted
from clew.journal.contract.subject import CATALOG, append, appended, delete, in_threads, noise, note, text_of
from clew.journal.lmdb import LmdbJournal
from tests.journal.process import process

WAIT_S_MAX = 60.0
ROUNDS = int(os.environ.get("CLEW_HAMMER_ROUNDS", "150"))
LIVING = ("order/1", "order/2", "thread/1")
DYING = ("order/8", "order/9")


@pytest.fixture(autouse=True)
def switching() -> Generator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Written:
    """How many events of each living stream are acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, int] = dict.fromkeys(LIVING, 0)
        self.done = threading.Event()

    def grow(self, journal: Journal, stream: str) -> None:
        for lap in range(ROUNDS):
            first = self.acknowledged[stream]
            count = 1 + lap % 4
            events = [note(f"{stream} 0 {first + n} " + "x" * 200 * n) for n in range(count)]
            journal.append(stream, events, expected=first).wait(timeout_s=WAIT_S_MAX)
            self.acknowledged[stream] = first + count

    def come_and_go(self, journal: Journal, stream: str) -> None:
        for lap in range(ROUNDS // 2):
            count = 1 + lap % 5
            texts = [f"{stream} {lap} {n} " + "y" * (70_000 if n == 3 else 10) for n in range(count)]
            journal.append(stream, [note(text) for text in texts], expected=0, revive=True).wait(timeout_s=WAIT_S_MAX)
            delete(journal, stream, count)

    def seal(self, journal: LmdbJournal) -> None:
        while not self.done.is_set():
            journal.compact()

    def check(self, journal: Journal) -> None:
        """Read everything in every way, while it goes on, and see that it is what was written."""
        while not self.done.is_set():
            for stream in LIVING:
                least = self.acknowledged[stream]
                head = journal.head(stream)
                assert head.sequence >= least
                assert_whole(stream, list(journal.read(stream)), least)
                assert len(list(journal.read(stream, after=least // 2))) >= least - least // 2
                pages = list(journal.pages(stream, CATALOG))
                assert sum(len(page.events) for page in pages) >= least
            for stream in DYING:
                assert_one_life(stream, lambda stream=stream: journal.read(stream))
            self.check_everything(journal)
            heads = {head.stream: head.sequence for head in journal.streams()}
            assert set(heads) <= {*LIVING, *DYING}
            assert [*heads] == sorted(heads)

    def check_everything(self, journal: Journal) -> None:
        least = dict(self.acknowledged)
        by_stream: dict[str, list[RecordedEvent]] = {}
        position = 0
        for event in journal.read_all():
            assert event.position > position
            position = event.position
            by_stream.setdefault(event.stream, []).append(event)
        for stream in LIVING:
            assert_whole(stream, by_stream[stream], least[stream])
        assert len(list(journal.read_all(category="thread"))) >= least["thread/1"]


def said(event: RecordedEvent) -> tuple[str, int, int]:
    stream, life, number, *_ = text_of(event.canonical).split(" ")
    return stream, int(life), int(number)


def assert_whole(stream: str, events: list[RecordedEvent], least: int) -> None:
    assert len(events) >= least
    assert [event.sequence for event in events] == [*range(1, len(events) + 1)]
    assert [said(event) for event in events] == [(stream, 0, n) for n in range(len(events))]


def assert_one_life(stream: str, read: Callable[[], Iterable[RecordedEvent]]) -> None:
    """See that what is read is of one life of the stream, from its beginning."""
    found: list[RecordedEvent] = []
    with suppress(StreamDeleted):
        found.extend(read())
    assert [event.sequence for event in found] == [*range(1, len(found) + 1)]
    # What is large is read when it is asked for, and may be gone by then.
    assert len({said(event)[1] for event in found if isinstance(event.body, bytes)}) <= 1


def test_threads_read_what_is_there_while_it_is_sealed_dropped_deleted_and_compacted(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path, seal_after=1, map_bytes=65536, durability="relaxed") as journal:
        written = Written()
        for stream in LIVING:
            append(journal, stream, f"{stream} 0 0 ", expected=0)
            written.acknowledged[stream] = 1

        def write() -> None:
            try:
                works = [lambda stream=stream: written.grow(journal, stream) for stream in LIVING]
                works += [lambda stream=stream: written.come_and_go(journal, stream) for stream in DYING]
                in_threads(works)
            finally:
                written.done.set()

        in_threads([write, lambda: written.seal(journal), *[lambda: written.check(journal)] * 3])

        for stream in LIVING:
            assert_whole(stream, list(journal.read(stream)), written.acknowledged[stream])
        assert journal.verify().problems == []
    with LmdbJournal(tmp_path) as journal:
        for stream in LIVING:
            assert_whole(stream, list(journal.read(stream)), written.acknowledged[stream])
        assert journal.verify().problems == []


@contextmanager
def writing(path: Path, options: dict[str, object]) -> Generator[threading.Semaphore]:
    """Let another process append to six streams, two in each of three threads, until it is killed.

    It waits while nobody reads what it says, and what it says is read as often as the semaphore is released: so it is
    never far ahead of those who look.
    """
    with process() as writer:
        writer.send("append_until_killed", str(path), 3, options)
        output = writer.popen.stdout
        assert output
        lines = [output.readline() for _ in range(40)]
        assert len({line.split()[0] for line in lines[1:]}) == 6
        pace = threading.Semaphore(0)
        reading = threading.Thread(target=lambda: [pace.acquire() for _ in output])
        reading.start()
        yield pace
        writer.kill()
        pace.release(100_000)
        reading.join()


def test_threads_of_a_reading_process_see_streams_only_grow_while_another_process_seals(tmp_path: Path) -> None:
    options: dict[str, object] = {"seal_after": 20, "map_bytes": 65536, "durability": "relaxed"}
    with writing(tmp_path, options) as pace, LmdbJournal(tmp_path, readonly=True, map_bytes=65536) as journal:
        names = sorted(head.stream for head in journal.streams())
        assert len(names) == 6

        def look() -> None:
            ends, position = dict.fromkeys(names, 0), 0
            for lap in range(80):
                pace.release(20)
                assert [head.stream for head in journal.streams()] == names
                name = names[lap % 6]
                sequence = journal.head(name).sequence
                assert sequence >= ends[name]
                read = [event.sequence for event in journal.read(name, after=ends[name])]
                assert read == [*range(ends[name] + 1, ends[name] + 1 + len(read))]
                assert len(read) >= sequence - ends[name]
                ends[name] += len(read)
                positions = [event.position for event in journal.read_all(after=position)]
                assert positions == [*range(position + 1, position + 1 + len(positions))]
                position = positions[-1] if positions else position
                assert journal.stats().events >= position

        in_threads([look] * 4)
        assert journal.stats().sealed_events


def test_reading_processes_follow_what_is_sealed_dropped_and_deleted(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path, seal_after=10**9) as journal, process() as one, process() as two:
        append(journal, "order/1", "a")
        for reader in (one, two):
            reader.call("open", str(tmp_path), {"readonly": True})
            assert reader.call("texts", "order/1") == ["a"]

        for lap in range(5):
            append(journal, "order/1", f"{lap}")
            append(journal, f"thread/{lap}", "new", noise(70_000, lap))
            assert one.call("count", "order/1") == lap + 2
            journal.compact()
            assert two.call("texts", "order/1") == one.call("texts", "order/1") == appended(journal, "order/1")
            assert two.call("texts", f"thread/{lap}") == ["new", noise(70_000, lap)]
            delete(journal, f"thread/{lap}", 2)
            journal.compact()
            for reader in (one, two):
                assert reader.call("problems") == []


def test_a_killed_reader_gives_back_the_space_it_has_held(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path, seal_after=10**9) as journal, process() as reader:
        append(journal, "order/1", "a")
        assert reader.call("hold_readers", str(tmp_path), 1) == 1
        for n in range(20):
            append(journal, "order/1", noise(20_000, n), expected=n + 1)
            journal.compact()
        assert journal.stats().reader_lag > 20
        reader.kill()

        deadline = time.monotonic() + WAIT_S_MAX
        while journal.stats().reader_lag > 1:
            assert time.monotonic() < deadline, "the slot of the dead reader is still taken"
        size_bytes = journal.stats().bytes_on_disk
        for n in range(20, 40):
            append(journal, "order/1", noise(20_000, n), expected=n + 1)
            journal.compact()
        assert journal.stats().bytes_on_disk < size_bytes + 20 * 20_000 * 4
        assert journal.verify().problems == []
