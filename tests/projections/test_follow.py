"""Follow a stream or the whole journal: catch up, then live, on a thread."""

from __future__ import annotations

import pytest

from clew.journal import Journal, MemoryJournal
from clew.projections import Follow
from tests.projections.notes import Reader, grow, grow_and_wait, sequences


@pytest.mark.requirement("L-RUN-7")
def test_a_follower_catches_up_and_then_sees_what_happens(journal: Journal) -> None:
    grow_and_wait(journal, 3)
    reader = Reader(Follow(journal, "note/a"))
    assert reader.next(3) == [1, 2, 3]

    for number in range(4, 7):
        grow(journal)
        assert reader.next() == [number]

    reader.follow.stop()
    assert reader.next() == ["ended"]
    reader.join()


@pytest.mark.parametrize("after", [0, 2, 5, 99])
def test_a_follower_goes_on_after_the_last_sequence_it_saw(after: int, journal: Journal) -> None:
    grow_and_wait(journal, 5)

    with Follow(journal, "note/a", after=after, live=False) as events:
        seen = sequences(iter(events))

    assert seen == list(range(after + 1, 6))
    assert events.after == max(after, 5)


@pytest.mark.requirement("L-RUN-8")
@pytest.mark.scenario("STR-01")
def test_reading_in_parts_gives_each_event_once_wherever_it_was_cut(journal: Journal) -> None:
    grow_and_wait(journal, 12)
    for cut in range(13):
        with Follow(journal, "note/a") as first:
            before = [event.sequence for _, event in zip(range(cut), first, strict=False)]
        with Follow(journal, "note/a", after=before[-1] if before else 0, live=False) as rest:
            assert before + sequences(iter(rest)) == list(range(1, 13))


@pytest.mark.requirement("L-RUN-8")
def test_many_observers_of_one_stream_each_see_all_of_it(journal: Journal) -> None:
    readers = [Reader(Follow(journal, "note/a")) for _ in range(5)]
    for _ in range(20):
        grow_and_wait(journal)

    for reader in readers:
        assert reader.next(20) == list(range(1, 21))
        reader.follow.stop()
        reader.join()


def test_a_stream_is_followed_alone_and_the_journal_with_all_its_streams(journal: Journal) -> None:
    for stream in ("note/b", "note/a", "note/b", "note/a"):
        grow_and_wait(journal, stream=stream)

    with Follow(journal, "note/b", live=False) as one, Follow(journal, live=False) as every:
        alone = [(event.stream, event.sequence) for event in one]
        whole = [(event.position, event.stream, event.sequence) for event in every]

    assert alone == [("note/b", 1), ("note/b", 2)]
    assert [event[1:] for event in whole] == [("note/b", 1), ("note/a", 1), ("note/b", 2), ("note/a", 2)]
    with Follow(journal, after=whole[1][0], live=False) as rest:
        assert [event.position for event in rest] == [position for position, *_ in whole[2:]]
        assert rest.after == whole[-1][0]


def test_the_whole_journal_is_followed_live(journal: Journal) -> None:
    reader = Reader(Follow(journal))

    for stream in ("note/a", "note/b", "note/c"):
        grow(journal, stream=stream)
        assert reader.next() == [1]

    reader.follow.stop()
    reader.join()


def test_nothing_that_is_not_durable_is_seen() -> None:
    journal = MemoryJournal(hold=True)
    grow(journal)
    reader = Reader(Follow(journal, "note/a"))
    assert reader.seen.empty()

    journal.flush()
    assert reader.next() == [1]
    grow(journal)
    journal.fail(OSError("disk"))
    grow(journal)
    journal.flush()

    assert reader.next() == [2]
    assert len(list(journal.read_all())) == 2
    reader.follow.stop()
    reader.join()


@pytest.mark.scenario("STR-10")
def test_order_comes_from_the_sequence_and_not_from_clocks() -> None:
    times = iter([10, 5, 5, 1, 20])
    journal = MemoryJournal(clock=lambda: next(times))
    for _ in range(5):
        grow(journal)

    with Follow(journal, "note/a", live=False) as events:
        assert sequences(iter(events)) == [1, 2, 3, 4, 5]
    with Follow(journal, "note/a", after=2, live=False) as events:
        assert sequences(iter(events)) == [3, 4, 5]


def test_a_place_before_the_beginning_is_refused_at_the_call() -> None:
    with pytest.raises(ValueError, match="from 0, not -1"):
        Follow(MemoryJournal(), "note/a", after=-1)


def test_following_live_outside_a_block_is_refused() -> None:
    with pytest.raises(RuntimeError, match="inside a with block"):
        next(iter(Follow(MemoryJournal(), "note/a")))
