"""What the contract says of reading and watching."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from io import BytesIO

from ..errors import JournalClosed
from ..event import GENESIS, Head
from ..history import import_history, write_history
from ..journal import CellWrite, Journal
from ..memory import MemoryJournal
from .subject import CATALOG, WAIT_S_MAX, Clause, Opener, append, appended, note, opened, refusal, same, text_of

__all__ = ["CLAUSES"]


def an_unknown_stream_is_empty(open_journal: Opener) -> None:
    """A stream that was never appended to has no events, and ends at 0."""
    with opened(open_journal) as journal:
        same(list(journal.read("order/9")), [], "its events")
        same(list(journal.read("order/9", after=5)), [], "its events after 5")
        same(journal.head("order/9"), Head("order/9", 0, GENESIS), "its head")
        same(list(journal.read_all()), [], "all events")
        same(list(journal.streams()), [], "the streams")


def a_read_begins_after_the_sequence_it_is_given(open_journal: Opener) -> None:
    """`after` is the sequence of the last event that is not wanted."""
    with opened(open_journal) as journal:
        append(journal, "order/1", *"abcde")

        for after, texts in ((0, "abcde"), (1, "bcde"), (4, "e"), (5, ""), (9, "")):
            same("".join(appended(journal, "order/1", after=after)), texts, f"the events after {after}")
        refusal(ValueError, lambda: journal.read("order/1", after=-1))


def a_long_stream_comes_in_order(open_journal: Opener) -> None:
    """However many events there are, and however they were appended, they come in order and once."""
    texts = [str(n) for n in range(1500)]
    with opened(open_journal) as journal:
        append(journal, "order/1", *texts[:700])
        commits = [journal.append("order/1", [note(text)], expected=int(text)) for text in texts[700:]]
        append(journal, "order/2", *texts)
        commits[-1].wait(timeout_s=WAIT_S_MAX)

        same(appended(journal, "order/1"), texts, "the events of order/1")
        same(appended(journal, "order/1", after=698), texts[698:], "the events after 698")
        same(appended(journal, "order/2", after=1499), texts[1499:], "the last event of order/2")


def read_all_has_every_stream_in_the_order_of_positions(open_journal: Opener) -> None:
    """The journal is one sequence of facts; `after` is the position of the last one that is not wanted."""
    with opened(open_journal) as journal:
        for n in range(400):
            commit = journal.append(f"order/{n % 3}", [note(f"{n}.0"), note(f"{n}.1")], expected=n // 3 * 2)
            if n % 100 == 0:
                commit.wait(timeout_s=WAIT_S_MAX)
        append(journal, "order/9", "last")

        events = list(journal.read_all())
        same(
            [text_of(event.canonical) for event in events],
            [f"{n}.{k}" for n in range(400) for k in range(2)] + ["last"],
            "all events",
        )
        for place in (0, 1, 255, 256, 257, 511, 799, 800):
            same(list(journal.read_all(after=events[place].position)), events[place + 1 :], f"after event {place}")
        refusal(ValueError, lambda: journal.read_all(after=-1))


def read_all_of_a_category_has_its_streams_only(open_journal: Opener) -> None:
    """In the order of positions, and after any of them; a category is not the beginning of another."""
    streams = ["order/1", "thread/1", "order-x/1", "orders/1", "order/2"]
    with opened(open_journal) as journal:
        commits = [journal.append(streams[n % 5], [note(f"{n}")], expected=n // 5) for n in range(600)]
        commits[-1].wait(timeout_s=WAIT_S_MAX)
        append(journal, "thread/1", "last")

        everything = list(journal.read_all())
        for category in ("order", "order-x", "orders", "thread", "nothing"):
            wanted = [event for event in everything if event.stream.startswith(f"{category}/")]
            same(list(journal.read_all(category=category)), wanted, f"the events of {category}")
            after = everything[300].position
            rest = [event for event in wanted if event.position > after]
            same(list(journal.read_all(after=after, category=category)), rest, f"the later events of {category}")


def a_read_is_as_of_the_call(open_journal: Opener) -> None:
    """What is appended after the call is not in it, also when nothing was taken from it yet."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a", "b")
        one, everything, heads = journal.read("order/1"), journal.read_all(), journal.streams()

        append(journal, "order/1", "c")
        append(journal, "order/2", "d")

        same([text_of(event.canonical) for event in one], ["a", "b"], "the stream as of the call")
        same([text_of(event.canonical) for event in everything], ["a", "b"], "all events as of the call")
        same([head.stream for head in heads], ["order/1"], "the streams as of the call")


def a_head_is_the_durable_end(open_journal: Opener) -> None:
    """A head has the sequence and the digest of the last event."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a", "b")

        last = list(journal.read("order/1"))[-1]
        same(journal.head("order/1"), Head("order/1", 2, last.digest), "the head")


def streams_are_listed_by_name_and_by_category(open_journal: Opener) -> None:
    """A category lists its own streams only, ordered by name."""
    names = [
        "order/2",
        "order-x/1",
        "order/10",
        "orders/1",
        "order/1",
        "thread/ä",
        "thread/z",
        "thread/道",
        "thread/a/b",
    ]
    with opened(open_journal) as journal:
        for name in names:
            append(journal, name, "x")

        for category in ("order", "order-x", "orders", "thread", "nothing"):
            wanted = sorted(name for name in names if name.startswith(f"{category}/"))
            same([head.stream for head in journal.streams(category)], wanted, f"the streams of {category}")
        same([head.stream for head in journal.streams()], sorted(names), "all streams")
        same(list(journal.streams("thread")), [journal.head(n) for n in sorted(names) if n[:7] == "thread/"], "heads")


def a_watch_is_told_after_its_stream_grew(open_journal: Opener) -> None:
    """When it is told, the events can be read; of other streams it hears nothing."""
    with opened(open_journal) as journal:
        seen, told = list[list[str]](), threading.Event()
        others = list[str]()

        def look() -> None:
            seen.append(appended(journal, "order/1"))
            told.set()

        stop = journal.watch(look, stream="order/1")
        stop_other = journal.watch(partial(others.append, "told"), stream="order/2")
        append(journal, "order/1", "a")

        _await(told, "the watch of order/1")
        same(seen[-1], ["a"], "what could be read when the watch was told")
        same(others, [], "what the watch of order/2 was told")
        stop()
        stop_other()


def a_watch_of_everything_is_told_of_each_stream(open_journal: Opener) -> None:
    """Without a stream, every commit of events is told."""
    with opened(open_journal) as journal:
        told = threading.Event()
        stop = journal.watch(told.set)
        for stream in ("order/1", "thread/1", "order/2"):
            told.clear()
            append(journal, stream, "x")
            _await(told, f"the watch of everything, of {stream}")
        stop()


def a_watch_that_was_ended_hears_no_more(open_journal: Opener) -> None:
    """After the end of a watch nothing is told to it; to end it twice does no harm."""
    with opened(open_journal) as journal:
        ended, going_on = list[str](), threading.Event()
        stop = journal.watch(partial(ended.append, "told"), stream="order/1")
        stop()
        stop()
        stop_other = journal.watch(going_on.set, stream="order/1")

        append(journal, "order/1", "a")

        _await(going_on, "the watch that goes on")
        same(ended, [], "what the ended watch was told")
        stop_other()


def watches_are_told_once_when_the_journal_closes(open_journal: Opener) -> None:
    """Whoever waits for news learns that there will be none."""
    told = list[bool]()
    with opened(open_journal) as journal:
        journal.watch(lambda: told.append(journal.closed), stream="order/1")
        journal.watch(lambda: told.append(journal.closed))
        journal.close()
        journal.close()

    same(told, [True, True], "what the watches were told, and whether the journal was closed then")


def a_watch_that_raises_harms_nobody(open_journal: Opener) -> None:
    """Its error is logged; the other watches are told, and the journal goes on."""
    with opened(open_journal) as journal:
        told = threading.Event()

        def fail() -> None:
            raise RuntimeError("a watch that raises, to see what happens")

        stops = [journal.watch(fail, stream="order/1"), journal.watch(told.set, stream="order/1")]
        append(journal, "order/1", "a")

        _await(told, "the watch beside it")
        append(journal, "order/1", "b")
        for stop in stops:
            stop()


def a_closed_journal_refuses_everything(open_journal: Opener) -> None:
    """After `close` every method but `close` raises `JournalClosed`; what was appended before is durable."""
    with opened(open_journal) as journal:
        commit = journal.append("order/1", [note("a")], expected=0)
        journal.close()
        same((commit.done, commit.error, journal.closed), (True, None, True), "the append before, and the journal")

        calls: list[Callable[[Journal], object]] = [
            lambda journal: journal.append("order/1", [note("b")], expected=1),
            lambda journal: journal.read("order/1"),
            lambda journal: journal.pages("order/1", CATALOG),
            lambda journal: journal.read_all(),
            lambda journal: journal.head("order/1"),
            lambda journal: journal.streams(),
            lambda journal: journal.watch(lambda: None),
            lambda journal: journal.cells.get(b"cell"),
            lambda journal: journal.cells.scan(b""),
            lambda journal: journal.cells.write([CellWrite(b"cell", b"value")]),
        ]
        for call in calls:
            refusal(JournalClosed, partial(call, journal))


def a_history_can_be_taken_out_and_in(open_journal: Opener) -> None:
    """Imported streams have the times, causes and digests they had where they came from."""
    source, file, again = MemoryJournal(clock=iter(range(1, 99)).__next__), BytesIO(), BytesIO()
    for n in range(6):
        source.append(f"order/{n % 2}", [note(f"{n}", cause=f"c{n}")], expected=n // 2).wait()
    write_history(source.read_all(), file)

    with opened(open_journal) as journal:
        file.seek(0)
        same(import_history(journal, file), {"order/0": 3, "order/1": 3}, "what was imported")
        same(list(journal.streams()), list(source.streams()), "the heads")
        write_history((event for stream in ("order/0", "order/1") for event in journal.read(stream)), again)
        same(sorted(again.getvalue().splitlines()), sorted(file.getvalue().splitlines()), "the history taken out again")
        file.seek(0)
        same(import_history(journal, file), {"order/0": 0, "order/1": 0}, "what was imported the second time")


def _await(told: threading.Event, what: str) -> None:
    if not told.wait(WAIT_S_MAX):
        raise AssertionError(f"{what} was not told within {WAIT_S_MAX} s")


CLAUSES: tuple[Clause, ...] = (
    an_unknown_stream_is_empty,
    a_read_begins_after_the_sequence_it_is_given,
    a_long_stream_comes_in_order,
    read_all_has_every_stream_in_the_order_of_positions,
    read_all_of_a_category_has_its_streams_only,
    a_read_is_as_of_the_call,
    a_head_is_the_durable_end,
    streams_are_listed_by_name_and_by_category,
    a_watch_is_told_after_its_stream_grew,
    a_watch_of_everything_is_told_of_each_stream,
    a_watch_that_was_ended_hears_no_more,
    watches_are_told_once_when_the_journal_closes,
    a_watch_that_raises_harms_nobody,
    a_closed_journal_refuses_everything,
    a_history_can_be_taken_out_and_in,
)
