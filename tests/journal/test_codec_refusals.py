"""What the codec refuses, because it would come back different, and how it says so."""

from __future__ import annotations

import enum
import math
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, datetime, time
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from clew.journal import EVENT_BYTES_MAX, Catalog, NotRepresentable, PayloadTooLarge, event
from tests.journal.shapes import Noted, Point, Retry, Typed, Zoned


class Phase(enum.Enum):
    QUERY = "query"


class Level(enum.IntEnum):
    LOW = 1


CATALOG = Catalog(Noted, Zoned, Typed)


@pytest.mark.scenario("SER-12")
@pytest.mark.parametrize("value", [Retry("x"), Phase.QUERY, Level.LOW, Point(1)])
def test_a_value_in_an_open_field_that_would_lose_its_class_is_refused(value: object) -> None:
    with pytest.raises(NotRepresentable, match=f"a {type(value).__name__} would come back as a"):
        CATALOG.encode(Noted(value))


@pytest.mark.scenario("SER-01")
@pytest.mark.parametrize(
    ("moment", "path"),
    [
        (Zoned(datetime(2026, 11, 1, 1, 30, tzinfo=ZoneInfo("America/New_York"), fold=1)), "$.at"),
        (Zoned(many=(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=ZoneInfo("UTC")))), "$.many[1]"),
        (Zoned(clock=time(1, 30, tzinfo=ZoneInfo("Europe/Berlin"))), "$.clock"),
    ],
)
def test_a_named_zone_is_refused_rather_than_turned_into_an_offset(moment: Zoned, path: str) -> None:
    with pytest.raises(NotRepresentable) as caught:
        CATALOG.encode(moment)

    assert caught.value.path == path
    assert caught.value.event == "order.zoned"


CONTAINERS: list[object] = [
    defaultdict(list, a=[1]),
    Counter("aab"),
    OrderedDict(a=1),
    deque([1, 2], maxlen=2),
    {1, 2},
    (1, 2),
    frozenset([3]),
    bytearray(b"x"),
    b"x",
    {1: "x"},
    {None: "x"},
    {Phase.QUERY: 1},
]


@pytest.mark.scenario("SER-06")
@pytest.mark.parametrize("value", CONTAINERS, ids=repr)
def test_a_container_that_would_come_back_as_another_is_refused(value: object) -> None:
    for wrapped, path in ((value, "$.v"), ({"a": [value]}, "$.v.a[0]")):
        with pytest.raises(NotRepresentable) as caught:
            CATALOG.encode(Noted(wrapped))
        assert caught.value.path.startswith(path)
        assert "Nothing was written" in str(caught.value)


def test_a_field_that_is_a_set_is_refused_when_the_catalog_is_made() -> None:
    @event("order.tagged", version=1)
    class Tagged(msgspec.Struct, frozen=True):
        fine: list[Decimal]
        tags: set[str]

    with pytest.raises(TypeError, match=r"Tagged\.tags: a set has no order"):
        Catalog(Tagged)


@pytest.mark.scenario("SER-08")
@pytest.mark.parametrize(
    "value",
    [Fraction(1, 3), complex(1, 2), range(3), PurePath("x"), object(), len],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_a_form_is_named_with_its_path_and_type(value: object) -> None:
    with pytest.raises(NotRepresentable) as caught:
        CATALOG.encode(Typed(inner={"a": [1, {"b c": [value]}]}))

    assert caught.value.path == "$.inner.a[1]['b c'][0]"
    assert caught.value.event == "order.typed"
    assert f"a {type(value).__name__} has no JSON form" in str(caught.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_float_that_is_no_number_is_refused(value: float) -> None:
    for wrong, path in ((Typed(part=value), "$.part"), (Noted([1.0, value]), "$.v[1]")):
        with pytest.raises(NotRepresentable) as caught:
            CATALOG.encode(wrong)
        assert caught.value.path == path


def test_half_of_a_surrogate_pair_is_refused_with_its_path() -> None:
    with pytest.raises(NotRepresentable) as caught:
        CATALOG.encode(Typed(names=("fine", "\ud83d")))

    assert (caught.value.path, caught.value.reason) == ("$.names[1]", "the text holds half of a surrogate pair")


@pytest.mark.parametrize("fields", [{"number": "5"}, {"number": True}, {"text": 5}, {"names": "ab"}], ids=repr)
def test_a_value_that_does_not_fit_its_field_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(NotRepresentable, match=r"order\.typed: the value at \$"):
        CATALOG.encode(Typed(**fields))


def test_an_event_over_the_cap_is_refused_by_its_name() -> None:
    with pytest.raises(PayloadTooLarge, match=r"order\.noted: \d+ bytes") as caught:
        CATALOG.encode(Noted("x" * EVENT_BYTES_MAX))

    assert caught.value.size_bytes > caught.value.size_bytes_max == EVENT_BYTES_MAX


def test_a_class_that_is_not_in_the_catalog_is_refused() -> None:
    with pytest.raises(TypeError, match="Noted is not in this catalog"):
        Catalog(Typed).encode(Noted(1))


def test_two_classes_cannot_share_a_stored_name() -> None:
    @event("order.noted", version=1)
    class Other(msgspec.Struct, frozen=True):
        text: str

    with pytest.raises(TypeError, match="share the stored name"):
        Catalog(Noted, Other)
