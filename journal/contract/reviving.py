"""What the contract says of deleted streams that begin again, and of those that stay deleted."""

from __future__ import annotations

from ..errors import StreamDeleted, WrongExpectedSequence
from ..event import NewEvent, RecordedEvent
from .subject import WAIT_S_MAX, Clause, Opener, append, appended, delete, note, opened, refusal, same

__all__ = ["CLAUSES", "DURABLE_CLAUSES"]


def a_deleted_stream_begins_again_where_that_is_asked_for(open_journal: Opener) -> None:
    """An import of its archive gives it back, from the first event on, with the digests it had."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a", "b")
        archive, ended = list(journal.read("order/1")), journal.head("order/1")
        events = [NewEvent(event.canonical, event.cause, event.recorded_at) for event in archive]
        delete(journal, "order/1", 2)

        refusal(StreamDeleted, lambda: journal.append("order/1", events, expected=2, revive=True))
        commit = journal.append("order/1", events[:1], expected=0, revive=True)
        behind = journal.append("order/1", events[1:], expected=1)
        for one in (commit, behind):
            one.wait(timeout_s=WAIT_S_MAX)

        same(journal.head("order/1"), ended, "the head")
        again = list(journal.read("order/1"))
        same([_lasting(event) for event in again], [_lasting(event) for event in archive], "its events")
        same(list(journal.read_all(after=archive[-1].position)), again, "all events after those that were deleted")
        append(journal, "order/1", "c", expected=2)
        delete(journal, "order/1", 3)
        head = journal.head("order/1")
        same((head.sequence, head.deleted), (3, True), "the head when it was deleted again")


def _lasting(event: RecordedEvent) -> tuple[object, ...]:
    return event.sequence, event.recorded_at, event.cause, event.digest, event.canonical


def a_delete_and_a_new_beginning_can_be_under_way_together(open_journal: Opener) -> None:
    """What is asked for in turn happens in turn, also when nobody waits in between."""
    with opened(open_journal) as journal:
        commits = [
            journal.append("order/1", [note("a"), note("b")], expected=0),
            journal.delete("order/1", expected=2),
            journal.append("order/1", [note("c")], expected=0, revive=True),
            journal.append("order/1", [note("d")], expected=1),
        ]
        for commit in commits:
            commit.wait(timeout_s=WAIT_S_MAX)

        same(appended(journal, "order/1"), ["c", "d"], "the stream")
        head = journal.head("order/1")
        same((head.sequence, head.deleted), (2, False), "the head")
        same(len(list(journal.read_all())), 2, "the number of all events")


def a_stream_that_is_there_is_not_begun_again(open_journal: Opener) -> None:
    """To ask for a new beginning changes nothing about a stream that was not deleted."""
    with opened(open_journal) as journal:
        journal.append("order/1", [note("a")], expected=0, revive=True).wait(timeout_s=WAIT_S_MAX)

        error = refusal(WrongExpectedSequence, lambda: journal.append("order/1", [note("b")], expected=0, revive=True))
        same(error.actual, 1, "the end of the stream")
        journal.append("order/1", [note("b")], expected=1, revive=True).wait(timeout_s=WAIT_S_MAX)
        same(appended(journal, "order/1"), ["a", "b"], "the stream")


def a_deleted_stream_stays_deleted(open_journal: Opener) -> None:
    """Where it ended is known after opening again, and so is that nothing may follow; positions go on rising."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a", "b")
        append(journal, "order/2", "c" * 300_000)
        last = max(event.position for event in journal.read_all())
        delete(journal, "order/1", 2)
        delete(journal, "order/2", 1)
        heads = list(journal.streams())

    with opened(open_journal) as journal:
        same(list(journal.streams()), heads, "the streams, opened again")
        same([head.deleted for head in heads], [True, True], "whether they are deleted")
        same(list(journal.read_all()), [], "all events")
        refusal(StreamDeleted, lambda: journal.append("order/1", [note("x")], expected=2))
        refusal(StreamDeleted, lambda: list(journal.read("order/1")))
        delete(journal, "order/1", 2)
        append(journal, "order/3", "d", expected=0)
        same([event.stream for event in journal.read_all(after=last)], ["order/3"], "the events after the last")
        journal.append("order/1", [note("e")], expected=0, revive=True).wait(timeout_s=WAIT_S_MAX)

    with opened(open_journal) as journal:
        same(appended(journal, "order/1"), ["e"], "the stream that began again")
        same([head.deleted for head in journal.streams()], [False, True, False], "which are deleted")
        append(journal, "order/1", "f", expected=1)


CLAUSES: tuple[Clause, ...] = (
    a_deleted_stream_begins_again_where_that_is_asked_for,
    a_delete_and_a_new_beginning_can_be_under_way_together,
    a_stream_that_is_there_is_not_begun_again,
)

DURABLE_CLAUSES: tuple[Clause, ...] = (a_deleted_stream_stays_deleted,)
