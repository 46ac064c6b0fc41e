"""What the contract says of typed pages, and of events that are too large for one piece."""

from __future__ import annotations

import msgspec

from ..body import CHUNK_BYTES_MAX, INLINE_BYTES_MAX
from ..codec import Catalog, chain
from ..errors import UnknownEvent
from ..event import GENESIS, EventType, NewEvent, event
from ..journal import Journal
from .subject import CATALOG, WAIT_S_MAX, Clause, Noted, Opener, append, note, opened, refusal, same

__all__ = ["CLAUSES"]


@event("contract.counted", version=1)
class _Counted(msgspec.Struct, frozen=True):
    number: int


_BOTH = Catalog(Noted, _Counted)


def pages_are_what_a_read_would_decode(open_journal: Opener) -> None:
    """In order and without gaps; each page says where it begins and why its events happened."""
    events = [
        note(str(n), cause=f"c{n}") if n % 3 else _BOTH.encode(_Counted(n), cause=f"c{n}")[0] for n in range(1200)
    ]
    with opened(open_journal) as journal:
        journal.append("order/1", events[:700], expected=0).wait(timeout_s=WAIT_S_MAX)
        for number in range(700, 720):
            journal.append("order/1", events[number : number + 1], expected=number).wait(timeout_s=WAIT_S_MAX)
        journal.append("order/1", events[720:], expected=720).wait(timeout_s=WAIT_S_MAX)

        for after in (0, 1, 255, 256, 699, 1199, 1200, 5000):
            wanted = [(e.sequence, e.cause, _BOTH.decode(e)) for e in journal.read("order/1", after=after)]
            same(_paged(journal, "order/1", _BOTH, after), wanted, f"the typed events after {after}")
        same(list(journal.pages("order/9", CATALOG)), [], "the pages of an unknown stream")
        refusal(ValueError, lambda: list(journal.pages("order/1", CATALOG, after=-1)))


def _paged(journal: Journal, stream: str, catalog: Catalog, after: int = 0) -> list[tuple[int, str, msgspec.Struct]]:
    found: list[tuple[int, str, msgspec.Struct]] = []
    for page in journal.pages(stream, catalog, after=after):
        same(len(page.causes), len(page.events), "how many causes and events a page has")
        sequences = range(page.first_sequence, page.first_sequence + len(page.events))
        found += zip(sequences, page.causes, page.events, strict=True)
    return found


def pages_are_as_of_the_call(open_journal: Opener) -> None:
    """What is appended after the call is not in them, also when none was taken yet."""
    with opened(open_journal) as journal:
        append(journal, "order/1", "a", "b")
        pages = journal.pages("order/1", CATALOG)

        append(journal, "order/1", "c")

        same([event for page in pages for event in page.events], [Noted("a"), Noted("b")], "the typed events")


def pages_end_at_an_event_that_is_not_known(open_journal: Opener) -> None:
    """Those before it come first; the error names its stream, sequence, name and version."""
    with opened(open_journal) as journal:
        append(journal, "order/1", *(str(n) for n in range(300)))
        journal.append("order/1", [_BOTH.encode(_Counted(1))[0]], expected=300).wait(timeout_s=WAIT_S_MAX)
        append(journal, "order/1", "behind")

        found: list[msgspec.Struct] = []

        def take() -> None:
            for page in journal.pages("order/1", CATALOG):
                found.extend(page.events)

        error = refusal(UnknownEvent, take)
        same((error.stream, error.sequence), ("order/1", 301), "where it was")
        same((error.event, error.version), ("contract.counted", 1), "what it was")
        same(found, [Noted(str(n)) for n in range(300)], "the events before it")
        same(_paged(journal, "order/1", CATALOG, 301), [(302, "", Noted("behind"))], "the events after it")


def large_events_come_back_as_they_went_in(open_journal: Opener) -> None:
    """However they are kept: read, read with all others, typed, and with the digests that their bytes have."""
    around = len(note("").canonical)
    sizes = (INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, CHUNK_BYTES_MAX, CHUNK_BYTES_MAX + around, 3 * CHUNK_BYTES_MAX + 7)
    texts = ["é" + "x" * (size - around - 2) for size in sizes]
    with opened(open_journal) as journal:
        for text in texts:
            append(journal, "order/1", "small", text)
        append(journal, "order/2", *texts)

        wanted = [note(text).canonical for text in texts]
        events = list(journal.read("order/1"))
        same([event.canonical for event in events[1::2]], wanted, "the events among small ones")
        same([event.canonical for event in journal.read("order/2")], wanted, "the events together")
        same([e.canonical for e in journal.read_all() if e.stream == "order/2"], wanted, "the events in read_all")
        same([event for _, _, event in _paged(journal, "order/2", CATALOG)], [Noted(t) for t in texts], "typed")
        same({event.type for event in events}, {EventType("contract.noted", 1)}, "their types")
        digest = GENESIS
        for event in events:
            digest = chain(digest, event.canonical)
            same(event.digest, digest, f"the digest of sequence {event.sequence}")


def a_large_value_can_be_in_many_events(open_journal: Opener) -> None:
    """The same value again, in one event, one append, one stream or in others, is there each time."""
    value = "v" * (INLINE_BYTES_MAX + 1000)
    mixed = msgspec.json.encode({"a": value, "small": 1, "b": [value, {"c": value, "d": "e" * 40_000}]})
    events = [note(value), NewEvent(b'{"event":"contract.mixed","version":1,"data":' + mixed + b"}"), note(value)]
    with opened(open_journal) as journal:
        for expected in (0, 3):
            journal.append("order/1", events, expected=expected).wait(timeout_s=WAIT_S_MAX)
        journal.append("order/2", events, expected=0).wait(timeout_s=WAIT_S_MAX)

        wanted = [new.canonical for new in events]
        same([event.canonical for event in journal.read("order/1")], wanted * 2, "the events of order/1")
        same([event.canonical for event in journal.read("order/2")], wanted, "the events of order/2")
        first = list(journal.read("order/1"))
        same([e.body for e in first[3:]], [e.body for e in first[:3]], "the bodies, compared as they are")


CLAUSES: tuple[Clause, ...] = (
    pages_are_what_a_read_would_decode,
    pages_are_as_of_the_call,
    pages_end_at_an_event_that_is_not_known,
    large_events_come_back_as_they_went_in,
    a_large_value_can_be_in_many_events,
)
