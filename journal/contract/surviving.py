"""What the contract says of a journal that is closed and opened again."""

from __future__ import annotations

from ..codec import chain
from ..errors import WrongExpectedSequence
from ..journal import CellWrite
from .subject import WAIT_S_MAX, Clause, Opener, append, appended, note, opened, refusal, same

__all__ = ["CLAUSES"]


def everything_survives_closing_and_opening(open_journal: Opener) -> None:
    """Events, heads, streams and cells are what they were."""
    with opened(open_journal) as journal:
        for n in range(20):
            append(journal, f"order/{n % 3}", f"{n}", expected=n // 3)
        append(journal, "thread/" + "é" * 900, "long")
        journal.append("order/9", [note("big" * 500_000, cause="c")], expected=0).wait(timeout_s=WAIT_S_MAX)
        journal.cells.write([CellWrite(b"cell", b"value")]).wait(timeout_s=WAIT_S_MAX)
        before = (list(journal.read_all()), list(journal.streams()), list(journal.cells.scan(b"")))

    with opened(open_journal) as journal:
        after = (list(journal.read_all()), list(journal.streams()), list(journal.cells.scan(b"")))
        same(after, before, "the journal, opened again")
        same(list(journal.read("order/1")), [event for event in before[0] if event.stream == "order/1"], "order/1")


def streams_go_on_where_they_ended(open_journal: Opener) -> None:
    """Sequences, positions and digests continue, and the expected sequence is still checked."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a", "b")
        append(journal, "order/2", "c")
        position = max(event.position for event in journal.read_all())
        digest = journal.head("order/1").digest

    with opened(open_journal) as journal:
        error = refusal(WrongExpectedSequence, lambda: journal.append("order/1", [note("x")], expected=1))
        same(error.actual, 2, "the end of the stream")
        append(journal, "order/1", "d", expected=2)
        append(journal, "order/3", "e", expected=0)
        same(appended(journal, "order/1"), ["a", "b", "d"], "the stream")
        same(journal.head("order/1").digest, chain(digest, note("d").canonical), "the digest")
        later = [event.position for event in journal.read_all(after=position)]
        same((len(later), later), (2, sorted(set(later))), "the positions after the last one before")


def times_do_not_fall_after_opening_with_an_earlier_clock(open_journal: Opener) -> None:
    """A machine that comes back with its clock set back does not turn a stream's time."""
    with opened(open_journal, clock=lambda: 5000) as journal:
        append(journal, "order/1", "a")

    with opened(open_journal, clock=lambda: 3000) as journal:
        append(journal, "order/1", "b")
        append(journal, "order/2", "c")
        same([event.recorded_at for event in journal.read("order/1")], [5000, 5000], "times of order/1")
        same([event.recorded_at for event in journal.read("order/2")], [3000], "times of order/2")


CLAUSES: tuple[Clause, ...] = (
    everything_survives_closing_and_opening,
    streams_go_on_where_they_ended,
    times_do_not_fall_after_opening_with_an_earlier_clock,
)
