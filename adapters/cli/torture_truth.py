"""What a sound journal holds, to compare a damaged copy of it with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from msgspec import Struct, structs

from ...journal import ClewError, Journal, RecordedEvent
from .torture_facts import CATALOG

__all__ = ["Examined", "Truth", "Verdict"]

T = TypeVar("T")


class Examined(Struct):
    """What became of a damaged journal.

    `refused` is the error with which it was not opened, `problems` what `verify` says. `wrong` and `hidden` are as in
    `Verdict`, and `escaped` is an error that nobody can act on.
    """

    refused: str = ""
    problems: list[str] = []
    wrong: list[str] = []
    hidden: list[str] = []
    escaped: str = ""

    @property
    def detected(self) -> bool:
        """Whether whoever opens or verifies it is told."""
        return bool(self.refused or self.problems)


class Verdict(NamedTuple):
    """What a copy says that is not so (`wrong`), and what it leaves out without an error (`hidden`)."""

    wrong: list[str]
    hidden: list[str]


class Truth:
    """Every event of a journal, and where each stream ends."""

    def __init__(self, journal: Journal) -> None:
        self._heads = {head.stream: head for head in journal.streams()}
        self._ends = {head.stream: head.digest for head in self._heads.values() if head.deleted}
        self._streams = {name: [] if head.deleted else list(journal.read(name)) for name, head in self._heads.items()}
        self._typed = {name: [CATALOG.decode(event) for event in events] for name, events in self._streams.items()}
        self._all = list(journal.read_all())
        # What is large is read now.
        self._bytes = {event.position: event.canonical for event in self._all}

    def judge(self, journal: Journal) -> Verdict:
        """Read all of a damaged copy, in every way there is; what it raises on purpose is no lie."""
        verdict = Verdict([], [])
        for name, events in self._streams.items():
            for after in {0, len(events) // 2}:
                reading = _until_refused(partial(journal.read, name, after=after))
                self._compare(name, events[after:], reading, verdict)
            if name not in self._ends:
                self._compare_typed(journal, name, verdict)
        self._compare("all events", self._all, _until_refused(journal.read_all), verdict)
        self._compare_heads(journal, verdict)
        return verdict

    def _compare(
        self, what: str, events: Sequence[RecordedEvent], found: Iterable[RecordedEvent | None], verdict: Verdict
    ) -> None:
        wanted = {event.position: event for event in events}
        deleted: dict[str, bytes] = {}
        for event in found:
            if event is None:
                # An error said that there is more.
                return
            original = wanted.pop(event.position, None)
            if original is None and event.stream in self._ends:
                deleted[event.stream] = event.digest
            elif original is None or not self._is(event, original):
                verdict.wrong.append(f"{what}: {event}, and recorded was {original}"[:500])
        for name, digest in deleted.items():
            # They were recorded once, and that they were deleted is what is not there any more.
            (verdict.hidden if digest == self._ends[name] else verdict.wrong).append(f"{what}: {name} was deleted")
        if wanted:
            verdict.hidden.append(f"{what}: {len(wanted)} of {len(events)} are left out")

    def _is(self, event: RecordedEvent, original: RecordedEvent) -> bool:
        if structs.replace(event, body=b"") != structs.replace(original, body=b""):
            return False
        try:
            return event.canonical == self._bytes[original.position]
        except ClewError:
            return True

    def _compare_typed(self, journal: Journal, name: str, verdict: Verdict) -> None:
        wanted = self._typed[name]
        at = 0
        for page in _until_refused(lambda: journal.pages(name, CATALOG)):
            if page is None:
                return
            at = page.first_sequence - 1 + len(page.events)
            if list(page.events) != wanted[page.first_sequence - 1 : at]:
                verdict.wrong.append(f"{name}, typed from sequence {page.first_sequence}: other events than recorded")
        if at < len(wanted):
            verdict.hidden.append(f"{name}, typed: it ends after {at} of {len(wanted)}")

    def _compare_heads(self, journal: Journal, verdict: Verdict) -> None:
        for name, head in self._heads.items():
            try:
                found = journal.head(name)
            except ClewError:
                continue
            if found != head:
                verdict.hidden.append(f"{name}: its head is {found}, and was {head}"[:500])
        listed = list(_until_refused(journal.streams))
        if None not in listed and listed != list(self._heads.values()):
            verdict.hidden.append("the list of streams is another one")
        verdict.wrong.extend(
            f"there is a stream {head.stream}" for head in listed if head and head.stream not in self._heads
        )


def _until_refused(read: Callable[[], Iterable[T]]) -> Iterator[T | None]:
    """Yield what is read; None at its end when an error said that there is more."""
    try:
        yield from read()
    except ClewError:
        yield None
