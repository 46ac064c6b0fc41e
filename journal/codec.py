"""The catalog: event types to canonical bytes and back.

The canonical form is one JSON object, `{"event":NAME,"version":N,"data":{fields in declared order}}`, the same
bytes on every host; the hash chain runs over it. What would not come back as it went in is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, time, timezone
from hashlib import sha256
from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect

from .errors import CorruptRecord, NotRepresentable, PayloadTooLarge, UnknownEvent
from .event import DATA_MARK, EVENT_BYTES_MAX, EventType, NewEvent, RecordedEvent, event_type
from .upcast import Upcaster, Upcasters

__all__ = ["Catalog", "chain", "encode_exact"]

E = TypeVar("E", bound=msgspec.Struct)

_ENCODER = msgspec.json.Encoder()


def chain(digest: bytes, canonical: bytes) -> bytes:
    """Return the digest of a stream after one more event."""
    return sha256(digest + canonical).digest()[:16]


def encode_exact(value: object, *, what: str) -> msgspec.Raw:
    """Return a value as JSON that decodes to exactly the same value, types included.

    Raises:
        NotRepresentable: it would come back different; names `what` and the path.
    """
    try:
        data = _ENCODER.encode(value)
        found = _difference(value, msgspec.json.decode(data), "$")
    except RecursionError:
        found, data = ("$", "it is nested too deep, or contains itself"), b""
    except (TypeError, ValueError, OverflowError) as error:
        found, data = _first_unencodable(value) or ("$", str(error)), b""
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
        self._upcasters = Upcasters(upcasters)
        for cls in types:
            entry = _Entry(cls)
            known = self._by_type.setdefault(entry.type, entry)
            if known.cls is not cls:
                raise TypeError(f"{cls.__name__} and {known.cls.__name__} share the stored name {entry.type}")
            self._by_class[cls] = self._by_prefix[entry.prefix] = known
            self._decoders[entry.prefix] = known.decoder.decode

    @property
    def decoders(self) -> Mapping[bytes, Callable[[bytes], msgspec.Struct]]:
        """What decodes the `data` of an event, by what stands in front of it: `{"event":NAME,"version":N`."""
        return self._decoders

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
        canonical = entry.prefix + DATA_MARK + data + b"}"
        if len(canonical) > EVENT_BYTES_MAX:
            raise PayloadTooLarge(what=entry.type.name, size_bytes=len(canonical), size_bytes_max=EVENT_BYTES_MAX)
        return NewEvent(canonical, cause), cast("E", back)

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

    __slots__ = ("cls", "decoder", "plain", "prefix", "type")

    def __init__(self, cls: type[msgspec.Struct]) -> None:
        self.cls = cls
        self.type = event_type(cls)
        self.decoder = msgspec.json.Decoder(cls)
        self.prefix = f'{{"event":"{self.type.name}","version":{self.type.version}'.encode()
        self.plain = _is_plain(inspect.type_info(cls), cls.__name__)

    def round_trip(self, event: msgspec.Struct) -> tuple[bytes, msgspec.Struct]:
        """Return the event's JSON and what it decodes to, if that is the same thing."""
        name = self.type.name
        try:
            data = _ENCODER.encode(event)
        except (TypeError, ValueError, OverflowError) as error:
            path, reason = _first_unencodable(event) or ("$", str(error))
            raise NotRepresentable(event=name, path=path, reason=reason) from error
        try:
            back = self.decoder.decode(data)
        except msgspec.MsgspecError as error:
            text, _, path = str(error).partition(" - at ")
            raise NotRepresentable(event=name, path=path.strip("`") or "$", reason=text) from error
        if not (self.plain and back == event) and (found := _difference(event, back, "$")):
            raise NotRepresentable(event=name, path=found[0], reason=found[1])
        return data, back


_PLAIN = (
    inspect.NoneType, inspect.BoolType, inspect.IntType, inspect.StrType, inspect.RawType,
    inspect.LiteralType, inspect.EnumType,
)  # fmt: skip


def _is_plain(kind: inspect.Type, path: str) -> bool:
    """Whether equality after a round trip already means the same values and types."""
    match kind:
        case inspect.SetType() | inspect.FrozenSetType():
            raise TypeError(f"{path}: a set has no order, so its stored form would differ; declare a list or a tuple")
        case inspect.StructType():
            return all([_is_plain(field.type, f"{path}.{field.name}") for field in kind.fields])  # noqa: C419  (look at all)
        case inspect.ListType() | inspect.VarTupleType():
            return _is_plain(kind.item_type, f"{path}[]")
        case inspect.TupleType():
            return all([_is_plain(item, f"{path}[]") for item in kind.item_types])  # noqa: C419  (look at all)
        case inspect.DictType():
            return isinstance(kind.key_type, inspect.StrType) and _is_plain(kind.value_type, f"{path}{{}}")
        case inspect.UnionType():
            return all([_is_plain(member, path) for member in kind.types])  # noqa: C419  (look at all)
        case _:
            return isinstance(kind, _PLAIN)


def _difference(before: object, after: object, path: str) -> tuple[str, str] | None:
    """Return the first place where what was given is not what will be read, and why it cannot be kept."""
    if isinstance(before, msgspec.Raw) and isinstance(after, msgspec.Raw):
        return None if bytes(before) == bytes(after) else (path, "its raw JSON changed")
    if type(before) is not type(after):
        return path, f"a {_type_name(before)} would come back as a {_type_name(after)}"
    match before:
        case msgspec.Struct():
            pairs: Iterable[tuple[str, object, object]] = (
                (f"{path}.{name}", getattr(before, name), getattr(after, name)) for name in before.__struct_fields__
            )
            return _first(pairs)
        case dict():
            return _dict_difference(cast("dict[object, object]", before), cast("dict[object, object]", after), path)
        case list() | tuple():
            old, new = cast("Sequence[object]", before), cast("Sequence[object]", after)
            return _first((f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(old, new, strict=True)))
        case datetime() | time() if before.tzinfo is not None and type(before.tzinfo) is not timezone:
            return path, f"its zone {before.tzinfo} would become a fixed offset; record the zone's name in a field"
        case float() if not math.isfinite(before):
            return path, f"{before} is not a JSON number"
        case _ if before != after:
            return path, f"{before!r} would come back as {after!r}"
        case _:
            return None


def _dict_difference(before: dict[object, object], after: dict[object, object], path: str) -> tuple[str, str] | None:
    for key in before:
        if key not in after:
            return _key(path, key), f"the key {key!r} would come back as text"
    return _first((_key(path, key), before[key], after[key]) for key in before)


def _first(pairs: Iterable[tuple[str, object, object]]) -> tuple[str, str] | None:
    return next((found for path, before, after in pairs if (found := _difference(before, after, path))), None)


def _first_unencodable(value: object, path: str = "$") -> tuple[str, str] | None:
    """Return the path of the first value that JSON cannot carry, and why; None if all of it can be."""
    children: Iterable[tuple[str, object]] = ()
    match value:
        case msgspec.Struct():
            children = ((f"{path}.{name}", getattr(value, name)) for name in value.__struct_fields__)
        case dict():
            children = ((_key(path, key), item) for key, item in cast("dict[object, object]", value).items())
        case list() | tuple():
            children = ((f"{path}[{i}]", item) for i, item in enumerate(cast("Sequence[object]", value)))
        case float() if not math.isfinite(value):
            return path, f"{value} is not a JSON number"
        case _:
            pass
    for child_path, child in children:
        if found := _first_unencodable(child, child_path):
            return found
    try:
        _ENCODER.encode(value)
    except UnicodeEncodeError:
        return path, "the text holds half of a surrogate pair"
    except (TypeError, ValueError, OverflowError):
        return path, f"a {_type_name(cast('object', value))} has no JSON form"
    return None


def _key(path: str, key: object) -> str:
    return f"{path}.{key}" if isinstance(key, str) and key.isidentifier() else f"{path}[{key!r}]"


def _type_name(value: object) -> str:
    return type(value).__name__
