"""What would not come back from JSON as it went in: where it is, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields
from datetime import datetime, time, timezone
from typing import Any, cast

import msgspec
from msgspec import inspect

__all__ = ["difference", "first_unencodable", "invalid", "is_plain"]

_ENCODER = msgspec.json.Encoder()

_PLAIN = (
    inspect.NoneType, inspect.BoolType, inspect.IntType, inspect.StrType, inspect.RawType,
    inspect.LiteralType, inspect.EnumType,
)  # fmt: skip


def is_plain(kind: inspect.Type, path: str) -> bool:
    """Whether equality after a round trip already means the same values and types.

    Raises:
        TypeError: there is a set in it.
    """
    match kind:
        case inspect.SetType() | inspect.FrozenSetType():
            raise TypeError(f"{path}: a set has no order, so its stored form would differ; declare a list or a tuple")
        case inspect.StructType():
            return all([is_plain(field.type, f"{path}.{field.name}") for field in kind.fields])  # noqa: C419  (look at all)
        case inspect.ListType() | inspect.VarTupleType():
            return is_plain(kind.item_type, f"{path}[]")
        case inspect.TupleType():
            return all([is_plain(item, f"{path}[]") for item in kind.item_types])  # noqa: C419  (look at all)
        case inspect.DictType():
            return isinstance(kind.key_type, inspect.StrType) and is_plain(kind.value_type, f"{path}{{}}")
        case inspect.UnionType():
            return all([is_plain(member, path) for member in kind.types])  # noqa: C419  (look at all)
        case _:
            return isinstance(kind, _PLAIN)


def invalid(error: msgspec.MsgspecError) -> tuple[str, str]:
    """Return the path that msgspec found fault with, and the fault."""
    text, _, path = str(error).partition(" - at ")
    return path.strip("`") or "$", text


def difference(before: object, after: object, path: str) -> tuple[str, str] | None:
    """Return the first place where what was given is not what will be read, and why it cannot be kept."""
    if isinstance(before, msgspec.Raw) and isinstance(after, msgspec.Raw):
        return None if bytes(before) == bytes(after) else (path, "its raw JSON changed")
    if type(before) is not type(after):
        return path, f"a {_type_name(before)} would come back as a {_type_name(after)}"
    if names := _fields(before):
        return _first((f"{path}.{name}", getattr(before, name), getattr(after, name)) for name in names)
    match before:
        case dict():
            return _dict_difference(cast("dict[object, object]", before), cast("dict[object, object]", after), path)
        case list() | tuple():
            old, new = cast("Sequence[object]", before), cast("Sequence[object]", after)
            return _first((f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(old, new, strict=True)))
        case set() | frozenset():
            return _set_difference(cast("AbstractSet[object]", before), cast("AbstractSet[object]", after), path)
        case datetime() | time() if before.tzinfo is not None and type(before.tzinfo) is not timezone:
            return path, f"its zone {before.tzinfo} would become a fixed offset; record the zone's name in a field"
        case float() if not math.isfinite(before):
            return path, f"{before} is not a JSON number"
        case _ if before != after:
            return path, f"{before!r} would come back as {after!r}"
        case _:
            return None


def _fields(value: object) -> Sequence[str]:
    """Return the names of what a struct, dataclass or attrs object consists of."""
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    found = getattr(type(value), "__dataclass_fields__", None)
    if found is not None:
        return [field.name for field in fields(cast("Any", value))]
    return [attribute.name for attribute in getattr(type(value), "__attrs_attrs__", ())]


def _dict_difference(before: dict[object, object], after: dict[object, object], path: str) -> tuple[str, str] | None:
    for key in before:
        if key not in after:
            return _key(path, key), f"the key {key!r} would come back as text"
    # A key that is equal may still be of another type, as 1 and True are.
    if found := _first((_key(path, old), old, new) for old, new in zip(before, after, strict=True)):
        return found
    return _first((_key(path, key), before[key], after[key]) for key in before)


def _set_difference(before: AbstractSet[object], after: AbstractSet[object], path: str) -> tuple[str, str] | None:
    found = {item: item for item in after}
    for item in before:
        if item not in found:
            return path, f"its member {item!r} would not come back"
    return _first((path, item, found[item]) for item in before)


def _first(pairs: Iterable[tuple[str, object, object]]) -> tuple[str, str] | None:
    return next((found for path, before, after in pairs if (found := difference(before, after, path))), None)


def first_unencodable(value: object, path: str = "$") -> tuple[str, str] | None:
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
        if found := first_unencodable(child, child_path):
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
