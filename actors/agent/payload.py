"""JSON on its way into a step: exactly what was produced, or refused by name.

A tool may return, at any depth: None, bool, int, finite floats, text; dicts, lists and tuples of these; pydantic
models, dataclasses, enums; `Decimal`, dates, times, UUIDs; and pydantic-ai's own content. The model sees the JSON form
of it, the same now and on replay. Anything else (a set, bytes, a `Fraction`, a NaN) is refused with its path.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from enum import Enum
from typing import Any, cast
from uuid import UUID

import msgspec
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from ...journal import EVENT_BYTES_MAX, NotRepresentable, PayloadTooLarge
from ...journal.journal import APPEND_BYTES_MAX

__all__ = ["check_fits", "encode_payload"]

DEPTH_MAX = 100

REST_BYTES = 64 * 1024
"""Room for what an event says beside a payload."""

_LEAVES = (str, int, Decimal, UUID, Enum, dt.date, dt.time, dt.timedelta)


def check_fits(what: str, *payloads: msgspec.Raw) -> None:
    """Refuse what would not fit into an event each and one append, while whoever made it can still be told.

    Raises:
        PayloadTooLarge: names `what`.
    """
    sizes = [memoryview(payload).nbytes + REST_BYTES for payload in payloads]
    for size, most in ((max(sizes, default=0), EVENT_BYTES_MAX), (sum(sizes), APPEND_BYTES_MAX)):
        if size > most:
            raise PayloadTooLarge(what=what, size_bytes=size, size_bytes_max=most)


def encode_payload(dump: Callable[[], object], value: object, what: str) -> msgspec.Raw:
    """Return what `dump()` makes of `value` as JSON.

    Raises:
        NotRepresentable: something in it has no JSON form; names `what`, the path and the type.
    """
    if not _is_json(value) and (found := _first_refused(value, "$", 0)):
        raise NotRepresentable(event=what, path=found[0], reason=found[1])
    try:
        return msgspec.Raw(msgspec.json.encode(dump()))
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
        raise NotRepresentable(event=what, path="$", reason=f"{type(error).__name__}: {error}") from error


def _is_json(value: object) -> bool:
    """Whether a value is made of JSON's own types, found out at the speed of C."""
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) == value)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return False


def _first_refused(value: object, path: str, depth: int) -> tuple[str, str] | None:
    if depth > DEPTH_MAX:
        return path, f"it is nested more than {DEPTH_MAX} levels deep, or contains itself"
    if isinstance(value, str) and not isinstance(value, Enum):
        return _surrogate(value, path)
    if value is None or isinstance(value, _LEAVES):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else (path, f"{value} is not a JSON number")
    children = _children(value, path)
    if children is None:
        return path, f"a {type(value).__name__} has no JSON form that could be recorded"
    return next((found for at, child in children if (found := _first_refused(child, at, depth + 1))), None)


def _children(value: object, path: str) -> Iterable[tuple[str, object]] | None:
    """Return what a container holds, with its paths; None for what is no container of ours."""
    match value:
        case dict():
            items = cast("dict[object, object]", value).items()
            return [(f"{path}.{key}" if _is_name(key) else f"{path}[{key!r}]", item) for key, item in items]
        case list() | tuple():
            return [(f"{path}[{i}]", item) for i, item in enumerate(cast("list[object]", value))]
        case BaseModel():
            return [(f"{path}.{name}", getattr(value, name)) for name in type(value).model_fields]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return _fields(value, path)
        case _:
            return None


def _fields(value: Any, path: str) -> Iterable[tuple[str, object]]:
    if type(value).__module__.startswith("pydantic_ai"):
        # Images, documents and the like have a JSON form of their own, bytes included.
        return [(f"{path}.return_value", value.return_value)] if hasattr(value, "return_value") else []
    return [(f"{path}.{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value)]


def _surrogate(text: str, path: str) -> tuple[str, str] | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return path, "the text holds half of a surrogate pair"
    return None


def _is_name(key: object) -> bool:
    return isinstance(key, str) and key.isidentifier()
