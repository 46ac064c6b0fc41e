"""What a history must have for a stream that was deleted, or that goes further than the history."""

from __future__ import annotations

from itertools import islice

import pytest

from clew.journal import MemoryJournal, NewEvent, StreamDeleted, WrongExpectedSequence, import_history, open_mark
from clew.journal.contract.subject import append, appended
from tests.journal.histories import filled, written


def deleted(source: MemoryJournal, *, upto: int) -> MemoryJournal:
    """A journal that had the first events of a stream, and deleted them."""
    journal = MemoryJournal()
    events = [NewEvent(e.canonical, e.cause, e.recorded_at) for e in source.read("order/0")][:upto]
    journal.append("order/0", events, expected=0).wait()
    journal.delete("order/0", expected=upto).wait()
    return journal


@pytest.mark.parametrize("upto", [1, 3, 4])
def test_a_deleted_stream_comes_back_with_its_history_or_a_longer_one(upto: int) -> None:
    source = filled()
    journal = deleted(source, upto=upto)

    assert import_history(journal, written(source.read("order/0"))) == {"order/0": 4}

    assert journal.head("order/0") == source.head("order/0")
    assert journal.cells.get(open_mark("order/0")) == b"order/0"
    append(journal, "order/0", "goes on")


def changed(source: MemoryJournal) -> MemoryJournal:
    """The same stream with another second event."""
    other = MemoryJournal()
    texts = appended(source, "order/0")
    append(other, "order/0", texts[0], "something else", *texts[2:])
    return other


@pytest.mark.parametrize("history", ["ends before", "begins behind", "another"])
def test_a_deleted_stream_comes_back_with_nothing_but_its_whole_history(history: str) -> None:
    source = filled()
    journal = deleted(source, upto=3)
    append(journal, "order/9", "x")
    events = {
        "ends before": list(source.read("order/0"))[:2],
        "begins behind": list(source.read("order/0", after=1)),
        "another": list(changed(source).read("order/0")),
    }[history]
    before = [*source.read("order/1"), *events]

    with pytest.raises(
        StreamDeleted, match=r"order/0: its 3 events were deleted.* this history is not all of them"
    ) as c:
        import_history(journal, written(iter(before)))

    assert (c.value.sequence, c.value.digest) == (3, list(source.read("order/0"))[2].digest)
    # It was known before anything was written, also of the streams in front of it.
    assert [head.stream for head in journal.streams()] == ["order/0", "order/9"]
    assert journal.head("order/0").deleted


def test_a_history_that_ends_before_the_stream_does_is_compared_with_what_is_there() -> None:
    source, journal = filled(), MemoryJournal()
    import_history(journal, written(source.read("order/0")))
    part = list(source.read("order/0"))[:2]

    assert import_history(journal, written(iter(part))) == {"order/0": 0}
    with pytest.raises(WrongExpectedSequence, match="order/0"):
        import_history(journal, written(islice(changed(source).read("order/0"), 2)))
