"""What the contract says of appending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from ..codec import chain
from ..errors import InvalidName, PayloadTooLarge, WrongExpectedSequence
from ..event import EVENT_BYTES_MAX, GENESIS, STREAM_BYTES_MAX, NewEvent
from ..journal import CAUSE_BYTES_MAX, CellWrite, Journal
from .subject import WAIT_S_MAX, Clause, Opener, append, appended, in_threads, note, opened, refusal, same

__all__ = ["CLAUSES"]

_MEBIBYTE: Final = 1024 * 1024


def events_get_the_next_sequences_and_rising_positions(open_journal: Opener) -> None:
    """Sequences of a stream run from 1 without gaps; positions rise over all streams."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a", "b")
        append(journal, "order/2", "c")
        append(journal, "order/1", "d")

        same([event.sequence for event in journal.read("order/1")], [1, 2, 3], "sequences of order/1")
        same([event.sequence for event in journal.read("order/2")], [1], "sequences of order/2")
        positions = [event.position for event in journal.read_all()]
        same(positions, sorted(set(positions)), "positions, which rise")
        by_stream = [event.position for stream in ("order/1", "order/2") for event in journal.read(stream)]
        same(sorted(by_stream), positions, "positions read by stream")


def a_commit_says_what_the_append_was_given(open_journal: Opener) -> None:
    """The commit has the stream, the first and last sequence and the digest, before it is durable."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a")

        commit = journal.append("order/1", [note("b"), note("c")], expected=1)

        same((commit.stream, commit.first_sequence, commit.last_sequence), ("order/1", 2, 3), "what the commit says")
        commit.wait(timeout_s=WAIT_S_MAX)
        same((commit.done, commit.error), (True, None), "a commit that is durable")
        same(commit.digest, journal.head("order/1").digest, "the commit's digest")


def each_digest_chains_its_event_to_all_before(open_journal: Opener) -> None:
    """A digest is made of the one before and the canonical bytes, beginning with zeros."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a", "b")
        append(journal, "order/1", "c")

        digest = GENESIS
        for event in journal.read("order/1"):
            digest = chain(digest, event.canonical)
            same(event.digest, digest, f"the digest of sequence {event.sequence}")
        same(journal.head("order/1").digest, digest, "the digest of the head")


def causes_and_bytes_come_back_as_they_went_in(open_journal: Opener) -> None:
    """The canonical bytes and the cause of an event are kept as they are."""
    events = [note("straße 道 \0 \\", cause="command-1"), note("", cause=""), note("x", cause="é" * 1000)]
    with opened(open_journal) as journal:
        journal.append("order/1", events, expected=0).wait(timeout_s=WAIT_S_MAX)

        found = [(event.canonical, event.cause, event.stream) for event in journal.read("order/1")]
        same(found, [(event.canonical, event.cause, "order/1") for event in events], "what came back")
        same([(event.canonical, event.cause, event.stream) for event in journal.read_all()], found, "read_all")


def times_are_the_clocks_and_never_fall_within_a_stream(open_journal: Opener) -> None:
    """`recorded_at` is the journal's clock, or the stream's last value where the clock has stepped back."""
    now = 1000
    with opened(open_journal, clock=lambda: now) as journal:
        append(journal, "order/1", "a")
        now = 400
        append(journal, "order/1", "b")
        append(journal, "order/2", "c")
        now = 2000
        append(journal, "order/1", "d")

        same([event.recorded_at for event in journal.read("order/1")], [1000, 1000, 2000], "times of order/1")
        same([event.recorded_at for event in journal.read("order/2")], [400], "times of order/2")


def a_time_that_is_given_is_kept(open_journal: Opener) -> None:
    """An import gives events the times they had; also these never fall."""
    times = (700, 600, 800)
    with opened(open_journal, clock=lambda: 9000) as journal:
        events = [NewEvent(note("x").canonical, "", time) for time in times]
        journal.append("order/1", events, expected=0).wait(timeout_s=WAIT_S_MAX)

        same([event.recorded_at for event in journal.read("order/1")], [700, 700, 800], "times that were given")


def a_wrong_expected_sequence_is_refused_with_the_right_one(open_journal: Opener) -> None:
    """Whoever expects another end of the stream is told where it ends."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a", "b", "c")

        for stream, expected, actual in (("order/1", 2, 3), ("order/1", 7, 3), ("order/1", 0, 3), ("order/9", 1, 0)):
            error = refusal(WrongExpectedSequence, partial(journal.append, stream, [note("x")], expected=expected))
            same((error.stream, error.expected, error.actual), (stream, expected, actual), "what the refusal says")
        append(journal, "order/1", "d", expected=3)
        same(appended(journal, "order/1"), ["a", "b", "c", "d"], "the stream afterwards")


def appends_to_one_stream_can_be_under_way_together(open_journal: Opener) -> None:
    """The expected sequence counts appends that are not durable yet."""
    with opened(open_journal) as journal:
        commits = [journal.append("order/1", [note(str(n))], expected=n) for n in range(100)]
        error = refusal(WrongExpectedSequence, lambda: journal.append("order/1", [note("x")], expected=99))
        for commit in commits:
            commit.wait(timeout_s=WAIT_S_MAX)

        same(error.actual, 100, "the end that counts what is under way")
        same(appended(journal, "order/1"), [str(n) for n in range(100)], "the stream")


def an_append_is_all_or_none(open_journal: Opener) -> None:
    """Of an append that is refused nothing is there: no event, no cell, no stream."""
    too_large = NewEvent(b'"' + b"x" * EVENT_BYTES_MAX + b'"')
    with opened(open_journal) as journal:
        append(journal, "order/1", "a")
        cells = [CellWrite(b"cell", b"value")]

        refusal(
            WrongExpectedSequence, lambda: journal.append("order/1", [note("b"), note("c")], expected=5, cells=cells)
        )
        refusal(PayloadTooLarge, lambda: journal.append("order/1", [note("b"), too_large], expected=1, cells=cells))
        refusal(PayloadTooLarge, lambda: journal.append("order/2", [note("b"), too_large], expected=0, cells=cells))

        same(appended(journal, "order/1"), ["a"], "the stream")
        same([head.stream for head in journal.streams()], ["order/1"], "the streams")
        same(journal.cells.get(b"cell"), None, "the cell")
        append(journal, "order/1", "b", expected=1)


def an_append_without_events_is_refused(open_journal: Opener) -> None:
    """There is nothing to wait for in an append of nothing."""
    with opened(open_journal) as journal:
        refusal(ValueError, lambda: journal.append("order/1", [], expected=0))
        same(journal.head("order/1").sequence, 0, "the stream")


def events_of_any_size_up_to_the_cap_come_back(open_journal: Opener) -> None:
    """The largest event is `EVENT_BYTES_MAX`; one byte more is refused, naming both sizes."""
    around = len(note("").canonical)
    sizes = (511, 512, 4096, 70_000, 5 * _MEBIBYTE, EVENT_BYTES_MAX)
    with opened(open_journal) as journal:
        for n, size in enumerate(sizes):
            append(journal, "order/1", "z" * (size - around), expected=n)
        journal.append("order/2", [note("y" * (size - around)) for size in sizes], expected=0).wait(
            timeout_s=WAIT_S_MAX
        )

        same([len(event.canonical) for event in journal.read("order/1")], list(sizes), "sizes, appended one by one")
        same([len(event.canonical) for event in journal.read("order/2")], list(sizes), "sizes, appended together")
        same([len(event.canonical) for event in journal.read_all()], [*sizes, *sizes], "sizes in read_all")
        over = note("z" * (EVENT_BYTES_MAX + 1 - around))
        error = refusal(PayloadTooLarge, lambda: journal.append("order/1", [over], expected=len(sizes)))
        same((error.size_bytes, error.size_bytes_max), (EVENT_BYTES_MAX + 1, EVENT_BYTES_MAX), "the sizes it names")


def odd_and_long_names_are_streams_of_their_own(open_journal: Opener) -> None:
    """An id is any printable text up to the cap in bytes; no two of them meet."""
    ids = ["é" * n for n in (1, 480, 511, 512, 1000)]
    ids += ["a" * 600 + "1", "a" * 600 + "2", "a" * (STREAM_BYTES_MAX - len("order/"))]
    ids += [
        "1",
        "01",
        "1/2",
        "../../etc/passwd",
        "a b",
        "%2F",
        "%",
        "道",
        "Ä",
        "A\u0308",
        "😀",
        "order/1",
        "~",
        "*",
        "'\"\\",
    ]
    with opened(open_journal) as journal:
        for id_ in ids:
            append(journal, f"order/{id_}", f"of {id_}", expected=0)

        for id_ in ids:
            same(appended(journal, f"order/{id_}"), [f"of {id_}"], f"the stream of {id_[:20]!r}")
        names = sorted(f"order/{id_}" for id_ in ids)
        same([head.stream for head in journal.streams("order")], names, "the streams")


def names_outside_the_grammar_are_refused(open_journal: Opener) -> None:
    """A name that no backend could keep is refused before anything is written."""
    names = ["", "order", "order/", "/1", "Order/1", "1/1", "or der/1", "order/\n", "order/\0", "order/\ud800"]
    names.append("order/" + "é" * (STREAM_BYTES_MAX // 2))
    with opened(open_journal) as journal:
        for name in names:
            refusal(InvalidName, partial(journal.append, name, [note("x")], expected=0))
        same(list(journal.streams()), [], "the streams")


def a_cause_that_cannot_be_kept_is_refused(open_journal: Opener) -> None:
    """A cause is text of at most `CAUSE_BYTES_MAX` bytes."""
    with opened(open_journal) as journal:
        for cause in ("\ud800", "x" * (CAUSE_BYTES_MAX + 1), "é" * (CAUSE_BYTES_MAX // 2 + 1)):
            events = [note("a"), note("b", cause=cause)]
            refusal(InvalidName, partial(journal.append, "order/1", events, expected=0))
        longest = note("c", cause="x" * CAUSE_BYTES_MAX)
        journal.append("order/1", [longest], expected=0).wait(timeout_s=WAIT_S_MAX)
        same([event.cause for event in journal.read("order/1")], [longest.cause], "the longest cause")


def threads_that_append_to_one_stream_lose_nothing(open_journal: Opener) -> None:
    """Whoever is refused reads where the stream ends and comes back; every event is there once."""
    with opened(open_journal) as journal:
        in_threads([partial(_insist, journal, "order/1", f"{n}-{m}", 10) for n in range(4) for m in "ab"])

        texts = appended(journal, "order/1")
        same(sorted(texts), sorted(f"{n}-{m}.{k}" for n in range(4) for m in "ab" for k in range(10)), "the events")
        each_digest = [event.digest for event in journal.read("order/1")]
        same(len(set(each_digest)), 80, "the number of digests")


def _insist(journal: Journal, stream: str, name: str, times: int) -> None:
    expected = 0
    for n in range(times):
        while True:
            try:
                commit = journal.append(stream, [note(f"{name}.{n}")], expected=expected)
            except WrongExpectedSequence as error:
                expected = error.actual
                continue
            commit.wait(timeout_s=WAIT_S_MAX)
            expected = commit.last_sequence
            break


def threads_that_append_to_many_streams_lose_nothing(open_journal: Opener) -> None:
    """Appends of many streams share commits, and each stream is as if it were alone."""
    with opened(open_journal) as journal:
        ready = threading.Barrier(8)

        def work(n: int) -> None:
            ready.wait(WAIT_S_MAX)
            commits = [journal.append(f"order/{n}", [note(f"{k}")], expected=k) for k in range(50)]
            for commit in commits:
                commit.wait(timeout_s=WAIT_S_MAX)

        works: list[Callable[[], None]] = [partial(work, n) for n in range(8)]
        in_threads(works)

        for n in range(8):
            same(appended(journal, f"order/{n}"), [str(k) for k in range(50)], f"the events of order/{n}")
        positions = [event.position for event in journal.read_all()]
        same((len(positions), positions), (400, sorted(set(positions))), "the positions")


CLAUSES: tuple[Clause, ...] = (
    events_get_the_next_sequences_and_rising_positions,
    a_commit_says_what_the_append_was_given,
    each_digest_chains_its_event_to_all_before,
    causes_and_bytes_come_back_as_they_went_in,
    times_are_the_clocks_and_never_fall_within_a_stream,
    a_time_that_is_given_is_kept,
    a_wrong_expected_sequence_is_refused_with_the_right_one,
    appends_to_one_stream_can_be_under_way_together,
    an_append_is_all_or_none,
    an_append_without_events_is_refused,
    events_of_any_size_up_to_the_cap_come_back,
    odd_and_long_names_are_streams_of_their_own,
    names_outside_the_grammar_are_refused,
    a_cause_that_cannot_be_kept_is_refused,
    threads_that_append_to_one_stream_lose_nothing,
    threads_that_append_to_many_streams_lose_nothing,
)
