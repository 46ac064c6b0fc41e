"""Follow the streams of a category: catch up, then live, and read what is for others once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from clew.journal import Journal, MemoryJournal, RecordedEvent
from clew.projections import Follow
from tests.projections.notes import WAIT_S, Reader, grow, grow_and_wait

STREAMS = ("note/a", "other/a", "note/b", "notes/a", "note/a")


def test_a_category_is_followed_over_its_streams_in_the_order_of_positions(journal: Journal) -> None:
    for stream in STREAMS:
        grow_and_wait(journal, stream=stream)

    with Follow(journal, category="note", live=False) as events:
        seen = [(event.position, event.stream, event.sequence) for event in events]

    assert [event[1:] for event in seen] == [("note/a", 1), ("note/b", 1), ("note/a", 2)]
    assert events.after == seen[-1][0]


def test_a_category_is_followed_live(journal: Journal) -> None:
    grow_and_wait(journal, 2)
    reader = Reader(Follow(journal, category="note"))
    assert reader.next(2) == [1, 2]

    for number in range(3, 6):
        grow_and_wait(journal, stream="other/a")
        grow(journal, stream="note/a")
        assert reader.next() == [number]

    reader.follow.stop()
    assert reader.next() == ["ended"]
    reader.join()


@pytest.mark.scenario("STR-01")
def test_a_follower_begun_in_the_middle_sees_the_rest_once_wherever_it_was_cut(journal: Journal) -> None:
    for stream in STREAMS * 3:
        grow_and_wait(journal, stream=stream)

    for cut in range(10):
        with Follow(journal, category="note") as first:
            before = [event.position for _, event in zip(range(cut), first, strict=False)]
        with Follow(journal, category="note", after=first.after if cut else 0, live=False) as rest:
            seen = before + [event.position for event in rest]
        assert len(seen) == 9
        assert seen == sorted(set(seen))


class Counting(MemoryJournal):
    """A journal that counts the events it has handed out."""

    handed_out = 0

    def read_all(self, *, after: int = 0, category: str | None = None) -> Iterator[RecordedEvent]:
        for event in super().read_all(after=after, category=category):
            self.handed_out += 1
            yield event


def test_what_is_for_others_is_passed_over_once() -> None:
    journal = Counting()
    grow(journal, 1000, stream="other/a")

    with Follow(journal, category="note") as events:
        iterator = iter(events)
        for number in range(1, 6):
            grow(journal, 10, stream="other/a")
            grow(journal)
            assert next(iterator).sequence == number

    assert journal.handed_out == 1055


@pytest.mark.scenario("STR-05")
def test_a_slow_follower_of_everything_holds_a_page_at_the_most_and_stops_nobody() -> None:
    journal = Counting()
    grow(journal, 1000)

    with Follow(journal) as events:
        iterator = iter(events)
        assert next(iterator).sequence == 1
        for _ in range(50):
            assert grow(journal, 100).done
        assert journal.handed_out <= 256

        assert [event.sequence for _, event in zip(range(5999), iterator, strict=False)] == list(range(2, 6001))


def test_a_deleted_stream_is_no_longer_seen_and_no_longer_missed() -> None:
    journal = MemoryJournal()
    for stream in STREAMS:
        grow(journal, stream=stream)
    journal.delete("note/a", expected=2).wait()

    with Follow(journal, category="note", live=False) as events:
        assert [(event.stream, event.sequence) for event in events] == [("note/b", 1)]


async def test_a_long_way_through_what_is_for_others_leaves_the_loop_to_them() -> None:
    journal = MemoryJournal()
    grow(journal, 10_000, stream="other/a")
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.timeout(WAIT_S):
        task = asyncio.create_task(count())
        async with Follow(journal, category="note", live=False) as events:
            assert [event async for event in events] == []
        task.cancel()

    assert turns >= 30


async def test_a_category_is_followed_on_a_loop() -> None:
    journal = MemoryJournal()
    for stream in STREAMS:
        grow(journal, stream=stream)

    async with asyncio.timeout(WAIT_S), Follow(journal, category="note") as events:
        seen: list[str] = []
        async for event in events:
            seen.append(event.stream)
            if len(seen) == 3:
                await asyncio.to_thread(grow, journal, stream="note/c")
            if len(seen) == 4:
                break

    assert seen == ["note/a", "note/b", "note/a", "note/c"]


def test_a_stream_and_a_category_together_are_refused_at_the_call() -> None:
    with pytest.raises(ValueError, match="not both"):
        Follow(MemoryJournal(), "note/a", category="note")
