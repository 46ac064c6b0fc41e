"""The catalog: event types to canonical bytes and back.

The canonical form is one JSON object, `{"event":NAME,"version":N,"data":{fields in declared order}}`, the same
bytes on every host; the hash chain runs over it. What would not come back as it went in is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect

from .difference import difference, first_unencodable, invalid, is_plain
from .errors import CorruptRecord, NotRepresentable, PayloadTooLarge, UnknownEvent
from .event import DATA_MARK, EVENT_BYTES_MAX, EventType, NewEvent, RecordedEvent, event_type
from .upcast import Upcaster, Upcasters

__all__ = ["Catalog", "chain", "encode_exact"]

E = TypeVar("E", bound=msgspec.Struct)

_ENCODER = msgspec.json.Encoder()
_ANY = msgspec.json.Decoder()


def chain(digest: bytes, canonical: bytes) -> bytes:
    """Return the digest of a stream after one more event."""
    return sha256(digest + canonical).digest()[:16]


def encode_exact(value: object, *, what: str, decoder: msgspec.json.Decoder[Any] = _ANY) -> msgspec.Raw:
    """Return a value as JSON that decodes (by `decoder`) to exactly the same value, types included.

    Raises:
        NotRepresentable: it would come back different; names `what` and the path.
    """
    try:
        data = _ENCODER.encode(value)
        found = difference(value, decoder.decode(data), "$")
    except RecursionError:
        found, data = ("$", "it is nested too deep, or contains itself"), b""
    except msgspec.DecodeError as error:
        found, data = invalid(error), b""
    except (TypeError, ValueError, OverflowError) as error:
        found, data = first_unencodable(value) or ("$", str(error)), b""
    if found:
        raise NotRepresentable(event=what, path=found[0], reason=found[1])
    return msgspec.Raw(data)


class Catalog:
    """The event types an actor or a projection knows, with upcasters for their older versions.

    Raises:
        TypeError: two classes share a name and version, or a class has a field that cannot be canonical (a set).
    """

    def __init__(self, *types: type[msgspec.Struct], upcasters: Iterable[Upcaster] = ()) -> None:
        self._by_class: dict[type, _Entry] = {}
        self._by_type: dict[EventType, _Entry] = {}
        self._by_prefix: dict[bytes, _Entry] = {}
        self._decoders: dict[bytes, Callable[[bytes], msgspec.Struct]] = {}
        self._list_decoders: dict[bytes, Callable[[bytes | memoryview], list[msgspec.Struct]]] = {}
        self._upcasters = Upcasters(upcasters)
        for cls in types:
            entry = _Entry(cls)
            known = self._by_type.setdefault(entry.type, entry)
            if known.cls is not cls:
                raise TypeError(f"{cls.__name__} and {known.cls.__name__} share the stored name {entry.type}")
            self._by_class[cls] = self._by_prefix[entry.prefix] = known
            self._decoders[entry.prefix] = known.decoder.decode
            self._list_decoders[entry.prefix] = known.list_decoder.decode

    @property
    def decoders(self) -> Mapping[bytes, Callable[[bytes], msgspec.Struct]]:
        """What decodes the `data` of an event, by what stands in front of it: `{"event":NAME,"version":N`."""
        return self._decoders

    def decode_together(
        self, kinds: Sequence[bytes], kind_of: Iterable[int], arrays: Sequence[bytes | memoryview]
    ) -> list[msgspec.Struct] | None:
        """Return many events, decoded in few calls; None where one of them needs more than to be decoded.

        `kinds` are what stands in front of the events' data (see `decoders`), `kind_of` says which of them each event
        has, and `arrays` holds for each kind the data of its events as one JSON array.
        """
        lists: list[list[msgspec.Struct]] = []
        for kind, array in zip(kinds, arrays, strict=True):
            decode = self._list_decoders.get(kind)
            if decode is None:
                return None
            try:
                lists.append(decode(array))
            except msgspec.MsgspecError:
                return None
        if len(lists) == 1:
            return lists[0]
        following = [iter(events).__next__ for events in lists]
        return [following[kind]() for kind in kind_of]

    @property
    def types(self) -> tuple[type[msgspec.Struct], ...]:
        """The event classes of this catalog."""
        return tuple(entry.cls for entry in self._by_class.values())

    def encode(self, event: E, *, cause: str = "") -> tuple[NewEvent, E]:
        """Return the event ready to append, and the event as it will be read back.

        Evolve on the second: then a live actor and a replayed one have seen exactly the same values.

        Raises:
            NotRepresentable: a value would come back different; names the path.
            PayloadTooLarge: over `EVENT_BYTES_MAX`.
            TypeError: the class is not in this catalog.
        """
        entry = self._by_class.get(type(event))
        if entry is None:
            raise TypeError(f"{type(event).__name__} is not in this catalog: add it to the actor's events")
        data, back = entry.round_trip(event)
        canonical = entry.front + data + b"}"
        if len(canonical) > EVENT_BYTES_MAX:
            raise PayloadTooLarge(what=entry.type.name, size_bytes=len(canonical), size_bytes_max=EVENT_BYTES_MAX)
        return NewEvent(canonical, cause), back  # pyright: ignore[reportReturnType]  (the class was looked up by it)

    def decode(self, recorded: RecordedEvent) -> msgspec.Struct:
        """Return the typed event, led up from an older version where needed.

        Raises:
            UnknownEvent: no type and no upcaster for its name and version.
            CorruptRecord: the stored fields do not fit the type.
        """
        canonical = recorded.canonical
        mark = canonical.find(DATA_MARK)
        entry = self._by_prefix.get(canonical[:mark])
        try:
            if entry is not None:
                # A Raw field points into the bytes it was decoded from, so hand over bytes that it may keep.
                return entry.decoder.decode(canonical[mark + len(DATA_MARK) : -1])
            return self._decode_older(recorded)
        except msgspec.MsgspecError as error:
            where = f"{recorded.stream}, sequence {recorded.sequence} ({recorded.type.name})"
            raise CorruptRecord(where=where, reason=f"the stored fields do not fit the event: {error}") from error

    def knows(self, recorded: RecordedEvent) -> bool:
        """Whether `decode` would find a type for this event, at its version or through upcasters."""
        kind: EventType | None = recorded.type
        if kind in self._by_type:
            return True
        versions = [known.version for known in self._by_type if known.name == kind.name]
        return any(version > kind.version for version in versions)

    def _decode_older(self, recorded: RecordedEvent) -> msgspec.Struct:
        kind = recorded.type
        fields = cast("dict[str, Any]", msgspec.json.decode(recorded.data))
        while (entry := self._by_type.get(kind)) is None:
            step = self._upcasters.next(kind, fields)
            if step is None:
                name, version = recorded.type
                raise UnknownEvent(event=name, version=version, stream=recorded.stream, sequence=recorded.sequence)
            kind, fields = step
        return entry.decoder.decode(_ENCODER.encode(fields))


class _Entry:
    """One event class with what is prepared for it once."""

    __slots__ = ("cls", "decoder", "front", "list_decoder", "plain", "prefix", "type")

    def __init__(self, cls: type[msgspec.Struct]) -> None:
        self.cls = cls
        self.type = event_type(cls)
        self.decoder = msgspec.json.Decoder(cls)
        self.list_decoder: msgspec.json.Decoder[list[msgspec.Struct]] = msgspec.json.Decoder(
            list[cls]  # pyright: ignore[reportInvalidTypeForm]  (a class that is only known here)
        )
        self.prefix = f'{{"event":"{self.type.name}","version":{self.type.version}'.encode()
        self.front = self.prefix + DATA_MARK
        self.plain = is_plain(inspect.type_info(cls), cls.__name__)

    def round_trip(self, event: msgspec.Struct) -> tuple[bytes, msgspec.Struct]:
        """Return the event's JSON and what it decodes to, if that is the same thing."""
        try:
            data = _ENCODER.encode(event)
            back = self.decoder.decode(data)
        except msgspec.DecodeError as error:
            path, reason = invalid(error)
            raise NotRepresentable(event=self.type.name, path=path, reason=reason) from error
        except (TypeError, ValueError, OverflowError) as error:
            path, reason = first_unencodable(event) or ("$", str(error))
            raise NotRepresentable(event=self.type.name, path=path, reason=reason) from error
        if not (self.plain and back == event) and (found := difference(event, back, "$")):
            raise NotRepresentable(event=self.type.name, path=found[0], reason=found[1])
        return data, back
