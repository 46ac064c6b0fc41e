"""A follower that ends, raises, stands still or is never read lets go, and stops nobody."""

from __future__ import annotations

import gc
import queue
import threading
import weakref
from collections.abc import Iterator

import pytest

from clew.journal import Journal, MemoryJournal, RecordedEvent
from clew.projections import Follow
from tests.projections.notes import WAIT_S, Reader, grow, grow_and_wait, sequences


def test_following_ends_when_the_journal_closes(journal: Journal) -> None:
    grow_and_wait(journal, 2)
    reader = Reader(Follow(journal, "note/a"))
    assert reader.next(2) == [1, 2]

    journal.close()

    assert reader.next() == ["ended"]
    reader.join()


def test_a_stopped_follower_gives_nothing_more(journal: Journal) -> None:
    grow_and_wait(journal, 10)

    with Follow(journal, "note/a") as events:
        seen: list[int] = []
        for event in events:
            seen.append(event.sequence)
            if event.sequence == 3:
                events.stop()

    assert seen == [1, 2, 3]
    assert events.after == 3


def test_leaving_the_block_ends_the_reading_of_another_thread(journal: Journal) -> None:
    seen: queue.SimpleQueue[str] = queue.SimpleQueue()

    with Follow(journal, "note/a") as events:
        iterator = iter(events)
        grow(journal)
        next(iterator)
        thread = threading.Thread(target=lambda: seen.put("ended" if list(iterator) == [] else "more"))
        thread.start()

    assert seen.get(timeout=WAIT_S) == "ended"
    thread.join(WAIT_S)


class ClosesWhileReading(MemoryJournal):
    """A journal that closes just as it is about to be read."""

    def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
        self.close()
        return super().read(stream, after=after)


def test_a_journal_that_closes_in_the_middle_of_a_read_ends_the_following() -> None:
    journal = ClosesWhileReading()
    grow(journal, 3)

    with Follow(journal, "note/a") as events:
        assert list(events) == []


@pytest.mark.scenario("STR-06")
def test_a_follower_leaves_no_watch_behind_read_or_not(journal: Journal) -> None:
    grow_and_wait(journal, 3)
    followers: list[weakref.ref[Follow]] = []
    for used in range(3):
        follow = Follow(journal, "note/a")
        followers.append(weakref.ref(follow))
        if used:
            with follow as events:
                if used == 2:
                    assert next(iter(events)).sequence == 1
            del events
        del follow

    gc.collect()

    assert [follower() for follower in followers] == [None] * 3


@pytest.mark.scenario("STR-07")
def test_an_observer_that_raises_harms_neither_the_writer_nor_the_others(journal: Journal) -> None:
    bad, good = Reader(Follow(journal, "note/a"), lambda _: 1 / 0), Reader(Follow(journal, "note/a"))

    for _ in range(10):
        grow_and_wait(journal)

    assert bad.next(2) == [1, "failed"]
    assert good.next(10) == list(range(1, 11))
    good.follow.stop()
    for reader in (bad, good):
        reader.join()


class Counting(MemoryJournal):
    """A journal that counts the events it has handed out."""

    handed_out = 0

    def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
        for event in super().read(stream, after=after):
            self.handed_out += 1
            yield event


@pytest.mark.scenario("STR-05")
def test_a_reader_that_stops_reading_holds_a_page_at_the_most_and_stops_nobody() -> None:
    journal = Counting()
    grow(journal, 1000)

    with Follow(journal, "note/a") as events:
        iterator = iter(events)
        assert next(iterator).sequence == 1
        for _ in range(50):
            assert grow(journal, 100).done
        held = journal.handed_out

        assert held <= 256
        events.stop()
    with Follow(journal, "note/a", after=1, live=False) as rest:
        assert sequences(iter(rest)) == list(range(2, 6001))
