"""What the contract says of streams that are deleted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from ..errors import JournalClosed, StreamDeleted, WrongExpectedSequence
from ..event import Head
from ..journal import CellWrite, Journal
from .subject import (
    CATALOG,
    WAIT_S_MAX,
    Clause,
    Noted,
    Opener,
    append,
    appended,
    delete,
    note,
    opened,
    refusal,
    same,
    text_of,
)

__all__ = ["CLAUSES"]

T = TypeVar("T")


def a_deleted_stream_has_no_events_and_says_where_it_ended(open_journal: Opener) -> None:
    """Reading it is refused with its last sequence and digest; its head and the list of streams say it too."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a", "b", "c")
        append(journal, "order/2", "d")
        ended = journal.head("order/1")

        commit = journal.delete("order/1", expected=3)
        commit.wait(timeout_s=WAIT_S_MAX)

        same((commit.stream, commit.last_sequence, commit.digest), ("order/1", 3, ended.digest), "what the commit says")
        for read in _reads(journal, "order/1"):
            error = refusal(StreamDeleted, read)
            same((error.stream, error.sequence, error.digest), ended[:3], "what the refusal says")
        same(journal.head("order/1"), Head("order/1", 3, ended.digest, deleted=True), "the head")
        same(list(journal.streams()), [journal.head("order/1"), journal.head("order/2")], "the streams")
        same(list(journal.streams("order")), list(journal.streams()), "the streams of its category")
        same([event.stream for event in journal.read_all()], ["order/2"], "the streams of all events")
        same([event.stream for event in journal.read_all(category="order")], ["order/2"], "those of its category")
        same(appended(journal, "order/2"), ["d"], "the other stream")


def _reads(journal: Journal, stream: str) -> list[Callable[[], object]]:
    return [
        lambda: list(journal.read(stream)),
        lambda: list(journal.read(stream, after=2)),
        lambda: list(journal.read(stream, after=99)),
        lambda: list(journal.pages(stream, CATALOG)),
    ]


def nothing_can_follow_a_delete_also_before_it_is_durable(open_journal: Opener) -> None:
    """From the call on, appends are refused, whatever they expect."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a", "b")
        digest = journal.head("order/1").digest

        commit = journal.delete("order/1", expected=2)
        errors = [_refused(journal, "order/1", expected) for expected in (0, 2, 7)]
        commit.wait(timeout_s=WAIT_S_MAX)
        errors += [_refused(journal, "order/1", expected) for expected in (0, 2, 7)]

        same([(error.sequence, error.digest) for error in errors], [(2, digest)] * 6, "what the refusals say")
        append(journal, "order/2", "c")


def _refused(journal: Journal, stream: str, expected: int) -> StreamDeleted:
    cells = [CellWrite(b"of a refused append", b"1")]
    error = refusal(StreamDeleted, lambda: journal.append(stream, [note("x")], expected=expected, cells=cells))
    same(journal.cells.get(b"of a refused append"), None, "the cell of a refused append")
    return error


def a_delete_with_a_wrong_expectation_is_refused(open_journal: Opener) -> None:
    """Whoever expects another end is told where the stream ends, and nothing is deleted."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a", "b")

        for stream, expected, actual in (("order/1", 0, 2), ("order/1", 1, 2), ("order/1", 3, 2), ("order/9", 1, 0)):
            error = refusal(WrongExpectedSequence, partial(journal.delete, stream, expected=expected))
            same((error.stream, error.expected, error.actual), (stream, expected, actual), "what the refusal says")
        same(appended(journal, "order/1"), ["a", "b"], "the stream")
        append(journal, "order/1", "c", expected=2)
        delete(journal, "order/1", 3)
        for expected in (0, 2, 4):
            error = refusal(WrongExpectedSequence, partial(journal.delete, "order/1", expected=expected))
            same(error.actual, 3, "where the deleted stream ended")


def a_delete_counts_appends_that_are_under_way(open_journal: Opener) -> None:
    """It is expected behind them, and comes after them."""
    with opened(open_journal) as journal:
        commits = [
            journal.append("order/1", [note("a")], expected=0),
            journal.append("order/1", [note("b")], expected=1),
        ]
        error = refusal(WrongExpectedSequence, lambda: journal.delete("order/1", expected=1))
        commits.append(journal.delete("order/1", expected=2))
        commits.append(journal.delete("order/1", expected=2))
        for commit in commits:
            commit.wait(timeout_s=WAIT_S_MAX)

        same(error.actual, 2, "the end that counts what is under way")
        same((journal.head("order/1").sequence, journal.head("order/1").deleted), (2, True), "the head")
        same(list(journal.read_all()), [], "all events")


def deleting_twice_or_what_never_was_does_nothing(open_journal: Opener) -> None:
    """The second delete is a success that changes nothing; a stream that never was can still begin."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a")
        delete(journal, "order/1", 1)
        heads = list(journal.streams())

        delete(journal, "order/1", 1)
        delete(journal, "order/9", 0)

        same(list(journal.streams()), heads, "the streams after the second delete")
        append(journal, "order/9", "b", expected=0)
        same(appended(journal, "order/9"), ["b"], "the stream that never was before")


def cells_are_not_touched_by_a_delete(open_journal: Opener) -> None:
    """What they say of a stream is for those to remove who wrote it."""
    with opened(open_journal) as journal:
        cells = [CellWrite(b"order/1", b"1"), CellWrite(b"other", b"2")]
        journal.append("order/1", [note("a")], expected=0, cells=cells).wait(timeout_s=WAIT_S_MAX)
        delete(journal, "order/1", 1)

        same(list(journal.cells.scan(b"")), [(b"order/1", b"1"), (b"other", b"2")], "the cells")


def positions_go_on_rising_after_a_delete(open_journal: Opener) -> None:
    """No position is given twice, also not that of the last event when it was deleted."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a")
        append(journal, "order/2", "b", "c")
        last = max(event.position for event in journal.read_all())
        delete(journal, "order/2", 2)

        append(journal, "order/3", "d", "e")

        same([event.stream for event in journal.read_all(after=last)], ["order/3"] * 2, "the events after the last")
        positions = [event.position for event in journal.read_all()]
        same(positions, sorted(set(positions)), "positions, which rise")


def a_read_begun_before_a_delete_is_whole_or_says_that_it_is_not(open_journal: Opener) -> None:
    """It may have the events at hand; where it has not, it raises, and never ends as if that were all."""
    texts = [str(n) for n in range(2000)]
    with opened(open_journal) as journal:
        for stream in ("order/1", "order/2"):
            append(journal, stream, *texts)
            reading, pages = journal.read(stream), journal.pages(stream, CATALOG)
            first, first_page = next(reading), next(pages)
            delete(journal, stream, len(texts))
            if stream == "order/2":
                # Another history in its place is not the rest of it.
                others = [note("other") for _ in range(len(texts) + 1)]
                journal.append(stream, others, expected=0, revive=True).wait(timeout_s=WAIT_S_MAX)

            events, whole = _until_deleted(reading)
            _is_beginning([text_of(event.canonical) for event in (first, *events)], texts, whole=whole)
            more, whole = _until_deleted(pages)
            typed = [event for page in (first_page, *more) for event in page.events]
            _is_beginning([event.text for event in typed if isinstance(event, Noted)], texts, whole=whole)


def _until_deleted(items: Iterator[T]) -> tuple[list[T], bool]:
    """Return what still comes, and whether that is the end of it."""
    found: list[T] = []
    try:
        found.extend(items)
    except StreamDeleted:
        return found, False
    return found, True


def _is_beginning(found: list[str], texts: list[str], *, whole: bool) -> None:
    same(found, texts[: len(found)], "what was read")
    same(whole, len(found) == len(texts), "whether the end of the read was the end of the stream")


def a_watch_is_told_of_a_delete(open_journal: Opener) -> None:
    """Whoever waits for more of a stream learns that there will be none."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a")
        told, everything = threading.Event(), threading.Event()
        heads: list[Head] = []

        def look() -> None:
            heads.append(journal.head("order/1"))
            told.set()

        stops = [journal.watch(look, stream="order/1"), journal.watch(everything.set)]
        delete(journal, "order/1", 1)

        same([event.wait(WAIT_S_MAX) for event in (told, everything)], [True, True], "whether the watches were told")
        same(heads[:1], [journal.head("order/1")], "what could be read when the watch was told")
        for stop in stops:
            stop()


def of_a_large_value_in_two_streams_one_stays(open_journal: Opener) -> None:
    """What another event holds too is not removed, and what only the deleted ones held can be appended again."""
    shared, own = "s" * 300_000, "o" * 300_000
    with opened(open_journal) as journal:
        append(journal, "order/1", shared, own, own)
        append(journal, "order/2", shared)
        kept = next(journal.read("order/2"))
        delete(journal, "order/1", 3)

        same(appended(journal, "order/2"), [shared], "the other stream")
        same(text_of(kept.canonical), shared, "an event that was read before")
        append(journal, "order/3", own)
        delete(journal, "order/2", 1)
        same(appended(journal, "order/3"), [own], "the value that was appended again")


def a_closed_journal_deletes_nothing(open_journal: Opener) -> None:
    """After `close` it refuses; a delete before it is durable."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a")
        commit = journal.delete("order/1", expected=1)
        journal.close()

        same((commit.done, commit.error), (True, None), "the delete before")
        refusal(JournalClosed, lambda: journal.delete("order/1", expected=1))


CLAUSES: tuple[Clause, ...] = (
    a_deleted_stream_has_no_events_and_says_where_it_ended,
    nothing_can_follow_a_delete_also_before_it_is_durable,
    a_delete_with_a_wrong_expectation_is_refused,
    a_delete_counts_appends_that_are_under_way,
    deleting_twice_or_what_never_was_does_nothing,
    cells_are_not_touched_by_a_delete,
    positions_go_on_rising_after_a_delete,
    a_read_begun_before_a_delete_is_whole_or_says_that_it_is_not,
    a_watch_is_told_of_a_delete,
    of_a_large_value_in_two_streams_one_stays,
    a_closed_journal_deletes_nothing,
)
