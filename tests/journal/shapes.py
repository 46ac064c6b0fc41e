"""Events that the tests of the codec share."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any, NamedTuple

import msgspec

from clew.journal import event


class Point(NamedTuple):
    x: int


class Retry(msgspec.Struct, frozen=True, tag="retry"):
    reason: str


@event("order.noted", version=1)
class Noted(msgspec.Struct, frozen=True):
    v: Any


@event("order.zoned", version=1)
class Zoned(msgspec.Struct, frozen=True):
    at: datetime | None = None
    clock: time | None = None
    many: tuple[datetime, ...] = ()


@event("order.typed", version=1)
class Typed(msgspec.Struct, frozen=True):
    number: int = 0
    part: float = 0.0
    text: str = ""
    names: tuple[str, ...] = ()
    inner: dict[str, list[Any]] = {}
