"""Events and the names they live under: what happened, to which stream, in which order.

An event is a frozen `msgspec.Struct` in the past tense, under a name and a version that you choose and never
change. A recorded event is the same fact with its place in the journal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec

from .body import Body
from .errors import CorruptRecord, InvalidName

__all__ = [
    "EVENT_BYTES_MAX",
    "GENESIS",
    "STREAM_BYTES_MAX",
    "EventType",
    "Head",
    "NewEvent",
    "RecordedEvent",
    "category_of",
    "check_stream",
    "event",
    "event_type",
    "stream_name",
]

STREAM_BYTES_MAX = 2048
"""The longest stream name, in UTF-8 bytes."""

EVENT_BYTES_MAX = 16 * 1024 * 1024
"""The largest canonical form of one event, in bytes."""

GENESIS = b"\0" * 16
"""The digest of a stream before its first event."""

_CATEGORY = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_EVENT_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")

E = TypeVar("E", bound=msgspec.Struct)


class EventType(NamedTuple):
    """The stored name and version of an event class."""

    name: str
    version: int


def event(name: str, *, version: int) -> Callable[[type[E]], type[E]]:
    """Give an event class the name and version it is stored under, for ever.

    Raises:
        InvalidName: the name is not dotted lower case (`order.refunded`).
        TypeError: the class is not a frozen `msgspec.Struct`, or the version is not a whole number from 1.

    >>> @event("order.refunded", version=1)
    ... class Refunded(msgspec.Struct, frozen=True):
    ...     cents: int
    >>> event_type(Refunded)
    EventType(name='order.refunded', version=1)
    """
    if not _EVENT_NAME.fullmatch(name):
        raise InvalidName(name=name, reason="an event is named like 'order.refunded', dotted and in lower case")
    if version < 1:
        raise TypeError(f"event {name!r}: the version is a whole number from 1, not {version!r}")

    def name_it(cls: type[E]) -> type[E]:
        # One kind of class keeps one kind of stored form: immutable, typed, with a fixed field order.
        if not (issubclass(cls, msgspec.Struct) and cls.__struct_config__.frozen):
            raise TypeError(f"event {name!r}: {cls.__name__} must be a msgspec.Struct with frozen=True")
        if cls.__struct_config__.array_like or cls.__struct_config__.tag is not None:
            raise TypeError(f"event {name!r}: {cls.__name__} must not set array_like or a tag; the name is the tag")
        setattr(cls, "__clew_event__", EventType(name, version))  # noqa: B010  (a Struct declares no such attribute)
        return cls

    return name_it


def event_type(cls: type) -> EventType:
    """Return the name and version an event class is stored under.

    Raises:
        TypeError: the class was not named with `@event`.
    """
    found = cls.__dict__.get("__clew_event__")
    if not isinstance(found, EventType):
        raise TypeError(f"{cls.__name__} is not an event: name it with @event('something.happened', version=1)")
    return found


class NewEvent(msgspec.Struct, frozen=True, gc=False):
    """An event about to be appended: its canonical bytes and why it happened.

    `recorded_at` (nanoseconds since the epoch, UTC) is given only by an import; otherwise the journal's clock says.
    """

    canonical: bytes
    cause: str = ""
    recorded_at: int = 0


class RecordedEvent(msgspec.Struct, frozen=True, gc=False):
    """A fact and its place: stream, sequence (from 1, no gaps), position (journal-wide, rising).

    `recorded_at` is UTC in nanoseconds and never falls within a stream; `cause` is the id of the command that led
    to it; `digest` chains this event to all before it. The typed event is `catalog.decode(recorded)`.
    A large event is read from the journal when `canonical` is first asked for, which then may raise what reading does.
    """

    stream: str
    sequence: int
    position: int
    recorded_at: int
    cause: str
    digest: bytes
    body: bytes | Body

    @property
    def canonical(self) -> bytes:
        """The event as one JSON object, the same bytes on every host."""
        body = self.body
        return body if isinstance(body, bytes) else body.load()

    @property
    def type(self) -> EventType:
        """The stored name and version, read without decoding the rest."""
        return type_of(self)

    @property
    def data(self) -> msgspec.Raw:
        """The event's own fields as raw JSON."""
        canonical = self.canonical
        return msgspec.Raw(canonical[canonical.index(DATA_MARK) + len(DATA_MARK) : -1])


DATA_MARK = b',"data":'
_HEADER = msgspec.json.Decoder(tuple[str, int])


def type_of(recorded: RecordedEvent) -> EventType:
    """Read the name and version in front of the canonical form."""
    body = recorded.body
    canonical = body if isinstance(body, bytes) else body.head
    try:
        mark = canonical.index(DATA_MARK)
        name, version = _HEADER.decode(
            b"[" + canonical[:mark].removeprefix(b'{"event":').replace(b',"version":', b",", 1) + b"]"
        )
    except (ValueError, msgspec.MsgspecError) as error:
        where = f"{recorded.stream}, sequence {recorded.sequence}"
        raise CorruptRecord(where=where, reason="the stored form has no event name") from error
    return EventType(name, version)


class Head(NamedTuple):
    """The end of a stream: its last sequence (0 when there is none) and digest.

    A `deleted` stream has no events any more; this is where it ended.
    """

    stream: str
    sequence: int
    digest: bytes
    deleted: bool = False


def stream_name(category: str, id: str) -> str:  # noqa: A002  (the field's word)
    """Return the stream of one actor, `category/id`.

    Raises:
        InvalidName: the category is not lower case, or the id is empty, too long or holds control characters.

    >>> stream_name("order", "1042")
    'order/1042'
    """
    return check_stream(f"{category}/{id}")


def check_stream(stream: str) -> str:
    """Return `stream` if it is a valid name.

    An id is an opaque key, never a path: any printable text, at most `STREAM_BYTES_MAX` bytes with its category.

    Raises:
        InvalidName: with the reason.
    """
    category, slash, id_ = stream.partition("/")
    if not slash or not id_:
        raise InvalidName(name=stream, reason="a stream is named 'category/id'")
    if not _CATEGORY.fullmatch(category):
        raise InvalidName(name=stream, reason="a category is lower case letters, digits, - and _, at most 64")
    try:
        size = len(stream.encode())
    except UnicodeEncodeError:
        raise InvalidName(name=ascii(stream), reason="it holds half of a surrogate pair") from None
    if size > STREAM_BYTES_MAX:
        raise InvalidName(name=stream, reason=f"{size} bytes, and {STREAM_BYTES_MAX} are the most")
    if not id_.isprintable():
        raise InvalidName(name=ascii(stream), reason="an id holds printable characters only")
    return stream


def category_of(stream: str) -> str:
    """Return the part before the first slash."""
    return stream.partition("/")[0]
