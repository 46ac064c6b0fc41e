"""How events of old versions are read today."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from clew.journal import GENESIS, Catalog, RecordedEvent, UnknownEvent, Upcaster, event


def recorded(canonical: bytes) -> RecordedEvent:
    return RecordedEvent("order/1", 4, 9, 1, "", GENESIS, canonical)


@event("order.typed", version=1)
class Typed(msgspec.Struct, frozen=True):
    number: int = 0
    text: str = ""


@event("order.refunded", version=3)
class Refunded(msgspec.Struct, frozen=True):
    cents: int
    reason: str


def _to_cents(old: dict[str, Any]) -> dict[str, Any]:
    return {"cents": old["euros"] * 100}


def _with_a_reason(old: dict[str, Any]) -> dict[str, Any]:
    return old | {"reason": "unknown"}


UPCASTERS = (
    Upcaster("order.refunded", 1, _to_cents),
    Upcaster("order.refunded", 2, _with_a_reason),
)


@pytest.mark.parametrize(
    ("version", "data", "wanted"),
    [
        (1, b'{"euros":4}', Refunded(400, "unknown")),
        (2, b'{"cents":250}', Refunded(250, "unknown")),
        (3, b'{"cents":250,"reason":"broken"}', Refunded(250, "broken")),
    ],
)
def test_an_event_of_an_old_version_is_led_up_step_by_step(version: int, data: bytes, wanted: Refunded) -> None:
    found = recorded(b'{"event":"order.refunded","version":%d,"data":%s}' % (version, data))
    catalog = Catalog(Refunded, upcasters=UPCASTERS)

    assert catalog.decode(found) == wanted
    assert catalog.knows(found)
    assert catalog.types == (Refunded,)


def test_a_field_that_came_later_has_its_default_and_one_that_went_is_ignored() -> None:
    found = recorded(b'{"event":"order.typed","version":1,"data":{"number":5,"gone":{"x":1}}}')

    assert Catalog(Typed).decode(found) == Typed(number=5)


@pytest.mark.parametrize(
    ("name", "version", "upcasters"),
    [("order.shipped", 1, UPCASTERS), ("order.refunded", 4, UPCASTERS), ("order.refunded", 1, UPCASTERS[1:])],
)
def test_an_event_that_leads_nowhere_is_named_with_its_place(
    name: str, version: int, upcasters: tuple[Upcaster, ...]
) -> None:
    found = recorded(b'{"event":"%s","version":%d,"data":{"euros":4}}' % (name.encode(), version))

    with pytest.raises(UnknownEvent) as caught:
        Catalog(Refunded, upcasters=upcasters).decode(found)

    error = caught.value
    assert (error.event, error.version, error.stream, error.sequence) == (name, version, "order/1", 4)


def test_two_upcasters_cannot_lead_away_from_one_version() -> None:
    with pytest.raises(TypeError, match=r"two upcasters lead away from 'order\.refunded' version 1"):
        Catalog(Refunded, upcasters=[UPCASTERS[0], UPCASTERS[0]])
