"""Sealing: what is durable goes from the log into segments, and nobody who reads or appends can tell."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from clew.journal import CorruptRecord, StreamDeleted, WrongExpectedSequence
from clew.journal.contract.subject import CATALOG, Noted, append, appended, delete, noise, note
from clew.journal.lmdb import LmdbJournal, index
from clew.journal.lmdb.damage import flip, places

NEVER = 10**9


def records(path: Path) -> Counter[str]:
    """Count what lies in each database of a closed journal."""
    return Counter(place.database for place in places(path))


def opened(path: Path) -> LmdbJournal:
    return LmdbJournal(path, seal_after=NEVER)


def test_sealed_events_are_no_longer_in_the_log_and_read_as_before(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        for n in range(300):
            append(journal, f"order/{n % 3}", f"the text {n}")
        before = [list(journal.read(f"order/{n}")) for n in range(3)]
        everything = list(journal.read_all())

        assert journal.compact().sealed_events == 300

        for again in (1, 2):
            assert [list(journal.read(f"order/{n}")) for n in range(3)] == before, again
            assert list(journal.read_all()) == everything
            assert journal.stats().sealed_events == 300
            assert journal.verify().problems == []
            assert journal.compact().sealed_events == 0
    assert records(tmp_path)["log"] == records(tmp_path)["names"] == 0
    with opened(tmp_path) as journal:
        assert list(journal.read_all()) == everything
        append(journal, "order/0", "more", expected=100)
        assert len(appended(journal, "order/0")) == 101


def test_sealing_begins_by_itself(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path, seal_after=20) as journal:
        n = 0
        while journal.stats().sealed_events < 100:
            append(journal, "order/1", f"{n}", expected=n)
            n += 1

        assert appended(journal, "order/1") == [str(number) for number in range(n)]
        assert journal.verify().problems == []


def test_streams_that_grow_by_one_event_at_a_time_do_not_leave_a_segment_for_each(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        for n in range(300):
            append(journal, "order/1", f"{n}", expected=n)
            journal.compact()
        assert appended(journal, "order/1") == [str(n) for n in range(300)]

    assert records(tmp_path)["segments"] <= 300 // 64


def test_what_is_appended_behind_a_cycle_stays_in_the_log(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        append(journal, "order/1", "a", "b")
        with pytest.raises(WrongExpectedSequence):
            append(journal, "order/1", "x", expected=7)
        journal.compact()
        append(journal, "order/1", "c")
        append(journal, "order/2", "d")

        assert appended(journal, "order/1") == ["a", "b", "c"]
    assert records(tmp_path)["log"] == 2
    with opened(tmp_path) as journal:
        assert appended(journal, "order/1") == ["a", "b", "c"]
        assert [event.position for event in journal.read_all()] == [1, 2, 3, 4]


def test_a_stream_that_was_deleted_and_began_again_is_read_from_every_place(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        append(journal, "order/1", *"abcde")
        append(journal, "order/2", "between")
        journal.compact()
        delete(journal, "order/1", 5)
        journal.append("order/1", [note(text) for text in "fghijklm"], expected=0, revive=True).wait()
        wanted = [(6, "order/2", 1), *((n + 6, "order/1", n) for n in range(1, 9))]

        for _ in ("in the log", "sealed"):
            for after in range(16):
                found = [(event.position, event.stream, event.sequence) for event in journal.read_all(after=after)]
                assert found == [one for one in wanted if one[0] > after]
            journal.compact()
        assert journal.verify().problems == []


def test_a_second_deletion_knows_where_the_first_one_ends(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        append(journal, "order/1", "a")
        first = journal.delete("order/1", expected=1)

        with pytest.raises(WrongExpectedSequence) as caught:
            journal.delete("order/1", expected=99)
        assert caught.value.actual == 1
        journal.delete("order/1", expected=1).wait()
        assert first.done


@pytest.mark.parametrize("expected", [-3, -2, -1])
def test_no_number_below_zero_is_where_a_stream_ends(expected: int, tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        append(journal, "order/1", "a")
        append(journal, "order/2", "the last one")
        delete(journal, "order/1", 1)
        with pytest.raises(StreamDeleted):
            append(journal, "order/1", "b", expected=expected)
        with pytest.raises(WrongExpectedSequence):
            journal.delete("order/1", expected=expected)
        with pytest.raises(WrongExpectedSequence):
            append(journal, "order/3", "b", expected=expected)
    log = next(place for place in places(tmp_path) if place.key == (2).to_bytes(8, "big") and place.database == "log")
    flip(tmp_path, log.at + log.size_bytes - 4)

    with opened(tmp_path) as journal:
        with pytest.raises(CorruptRecord):
            append(journal, "order/2", "b", expected=expected)
        with pytest.raises(CorruptRecord):
            delete(journal, "order/2", expected)
        assert journal.head("order/2").sequence == 1


def test_deleted_events_leave_the_file_and_what_is_left_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        append(journal, "order/1", noise(90_000), "small")
        append(journal, "order/2", noise(90_000), "small")
        journal.compact()
        append(journal, "order/1", noise(200_000, seed=1))
        delete(journal, "order/1", 3)

        done = journal.compact()

        assert done.removed_chunks == 1
        assert journal.compact().removed_chunks == 0
        assert appended(journal, "order/2") == [noise(90_000), "small"]
        with pytest.raises(StreamDeleted):
            journal.read("order/1")
        assert journal.verify().problems == []
    assert records(tmp_path)["chunks"] == 1


def test_a_clock_that_steps_back_is_not_seen_behind_a_segment_either(tmp_path: Path) -> None:
    times = iter([50, 40, 60, 10, 5, 70])
    with LmdbJournal(tmp_path, clock=lambda: next(times), seal_after=NEVER) as journal:
        for n in range(6):
            append(journal, "order/1", f"{n}", expected=n)
            journal.compact()
        wanted = [50, 50, 60, 60, 60, 70]

        assert [event.recorded_at for event in journal.read("order/1")] == wanted
        assert [event.recorded_at for event in journal.read_all()] == wanted
        assert journal.verify().problems == []


def test_streams_that_are_put_out_of_memory_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_KEPT_MAX", 10)
    with opened(tmp_path) as journal:
        for lap in range(4):
            commits = [journal.append(f"order/{n}", [note(f"{n} {lap}")], expected=lap) for n in range(100)]
            for commit in commits:
                commit.wait()
            journal.compact()
        for n in range(0, 100, 10):
            delete(journal, f"order/{n}", 4)
        journal.compact()

        for n in range(100):
            if n % 10:
                assert appended(journal, f"order/{n}") == [f"{n} {lap}" for lap in range(4)]
                with pytest.raises(WrongExpectedSequence):
                    append(journal, f"order/{n}", "x", expected=3)
            else:
                assert journal.head(f"order/{n}")[1::2] == (4, True)
                with pytest.raises(StreamDeleted):
                    append(journal, f"order/{n}", "x", expected=4)
                with pytest.raises(WrongExpectedSequence):
                    journal.delete(f"order/{n}", expected=3)
        assert len(list(journal.streams())) == 100
        assert journal.stats().streams == 90
        assert journal.verify().problems == []


def test_a_damaged_event_is_not_sealed_and_everything_else_is(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        for n in range(20):
            append(journal, f"order/{n % 2}", f"the text {n}")
    log = next(place for place in places(tmp_path) if place.database == "log" and place.key == (5).to_bytes(8, "big"))
    flip(tmp_path, log.at + log.size_bytes - 4)

    with opened(tmp_path) as journal:
        assert journal.compact().sealed_events == 12

        assert len(appended(journal, "order/1")) == 10
        with pytest.raises(CorruptRecord, match="order/0, sequence 3"):
            appended(journal, "order/0")
        assert len(appended(journal, "order/0", after=3)) == 7
        append(journal, "order/0", "more", expected=10)
        assert len(journal.verify().problems) == 1


def test_a_fold_reads_the_same_before_and_after_sealing(tmp_path: Path) -> None:
    texts = ["", "x" * 100, "é" * 40_000, "y" * 300_000, *(f"{n}" for n in range(300))]
    with opened(tmp_path) as journal:
        for text in texts:
            append(journal, "order/1", text)
        for _ in ("in the log", "sealed"):
            for after in (0, 1, 3, 100, 250, 303, 304):
                pages = list(journal.pages("order/1", CATALOG, after=after))
                assert [event for page in pages for event in page.events] == [Noted(text) for text in texts[after:]]
                sequences = [page.first_sequence + n for page in pages for n in range(len(page.events))]
                assert sequences == [*range(after + 1, 305)]
            journal.compact()
