"""What the clauses share: how the journal under test is opened, and how they say what they found."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from random import Random
from threading import Thread
from typing import Final, Protocol, TypeVar

import msgspec

from ..codec import Catalog
from ..event import NewEvent, event
from ..journal import Journal

__all__ = [
    "CATALOG",
    "WAIT_S_MAX",
    "Clause",
    "Noted",
    "Opener",
    "append",
    "appended",
    "delete",
    "in_threads",
    "noise",
    "note",
    "opened",
    "refusal",
    "same",
    "text_of",
]

WAIT_S_MAX: Final = 60.0
"""How long a clause waits for what must happen."""

_NOON: Final = 1_700_000_000_000_000_000
_PREFIX: Final = b'{"event":"contract.noted","version":1,"data":{"text":'

E = TypeVar("E", bound=Exception)


@event("contract.noted", version=1)
class Noted(msgspec.Struct, frozen=True):
    """Something was noted: what `note` makes, typed."""

    text: str


CATALOG: Final = Catalog(Noted)
"""Knows what `note` makes."""


class Opener(Protocol):
    """Opens the journal under test; a durable one at the same place each time."""

    def __call__(self, *, clock: Callable[[], int]) -> Journal:
        """Open it with a clock that gives nanoseconds since the epoch."""
        ...


class Clause(Protocol):
    """A function that returns when the journal under test keeps one sentence of the contract."""

    __name__: str

    def __call__(self, open_journal: Opener, /) -> None:
        """Open a journal that is empty at first, and try it.

        Raises:
            AssertionError: the journal does not keep the sentence.
        """
        ...


@contextmanager
def opened(open_journal: Opener, *, clock: Callable[[], int] = lambda: _NOON) -> Generator[Journal]:
    """Open the journal, and close it afterwards."""
    journal = open_journal(clock=clock)
    try:
        yield journal
    finally:
        journal.close()


def note(text: str, *, cause: str = "") -> NewEvent:
    """Return an event that says `text`."""
    return NewEvent(_PREFIX + msgspec.json.encode(text) + b"}}", cause)


def noise(size: int, seed: int = 0) -> str:
    """Return text that hardly compresses, another one for each seed."""
    return b64encode(Random(seed).randbytes(size * 3 // 4 + 3)).decode()[:size]  # noqa: S311  (it keeps no secret)


def text_of(canonical: bytes) -> str:
    """Return what an event made by `note` says."""
    return msgspec.json.decode(canonical[len(_PREFIX) : -2], type=str)


def append(journal: Journal, stream: str, *texts: str, expected: int | None = None) -> None:
    """Append notes at the end of a stream, and wait until they are durable."""
    sequence = journal.head(stream).sequence if expected is None else expected
    journal.append(stream, [note(text) for text in texts], expected=sequence).wait(timeout_s=WAIT_S_MAX)


def appended(journal: Journal, stream: str, *, after: int = 0) -> list[str]:
    """Return what the notes of a stream say."""
    return [text_of(event.canonical) for event in journal.read(stream, after=after)]


def delete(journal: Journal, stream: str, expected: int) -> None:
    """Delete a stream, and wait until that is durable."""
    journal.delete(stream, expected=expected).wait(timeout_s=WAIT_S_MAX)


def same(found: object, wanted: object, what: str) -> None:
    """Insist that `found` is what is `wanted`.

    Raises:
        AssertionError: it is not.
    """
    if found != wanted:
        raise AssertionError(f"{what}: expected {_shown(wanted)}, found {_shown(found)}")


def refusal(kind: type[E], call: Callable[[], object]) -> E:
    """Insist that `call` raises `kind`; return what it raised.

    Raises:
        AssertionError: it does not.
    """
    try:
        found = call()
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, and the call returned {_shown(found)}")


def in_threads(works: Sequence[Callable[[], None]]) -> None:
    """Do all the works at once, each in its own thread; raise the first thing that went wrong."""
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (it is raised in the caller's thread)
            errors.append(error)

    threads = [Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"  # noqa: PLR2004  (a line or two)
