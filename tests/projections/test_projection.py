"""A projection is a fold with a name: of the events it knows, in the form of today."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from clew.journal import (
    Catalog,
    CorruptRecord,
    MemoryJournal,
    NewEvent,
    RecordedEvent,
    UnknownEvent,
    Upcaster,
    event,
)
from clew.projections import Projection, project


@event("order.paid", version=3)
class Paid(msgspec.Struct, frozen=True):
    cents: int
    currency: str


@event("order.shipped", version=1)
class Shipped(msgspec.Struct, frozen=True):
    carrier: str


def in_cents(old: dict[str, Any]) -> dict[str, Any]:
    return {"cents": old["euros"] * 100}


def in_euros(old: dict[str, Any]) -> dict[str, Any]:
    return {**old, "currency": "EUR"}


UPCASTERS = (Upcaster("order.paid", 1, in_cents), Upcaster("order.paid", 2, in_euros))


def recorded(*canonical: str) -> list[RecordedEvent]:
    journal = MemoryJournal(clock=lambda: 7)
    journal.append("order/1", [NewEvent(text.encode(), "c1") for text in canonical], expected=0)
    return list(journal.read("order/1"))


def stored(name: str, version: int, data: str) -> str:
    return f'{{"event":"{name}","version":{version},"data":{data}}}'


PAID_1 = stored("order.paid", 1, '{"euros":4}')
PAID_2 = stored("order.paid", 2, '{"cents":50}')
PAID_3 = stored("order.paid", 3, '{"cents":7,"currency":"SEK"}')
SHIPPED = stored("order.shipped", 1, '{"carrier":"GLS"}')


def seen(*, strict: bool = False, catalog: Catalog | None = None) -> Projection[list[object], Paid | Shipped]:
    def note(state: list[object], event: Paid | Shipped, at: RecordedEvent) -> list[object]:
        return [*state, (at.sequence, event)]

    known = catalog or Catalog(Paid, upcasters=UPCASTERS)
    return Projection(name="seen", version=1, catalog=known, initial=list[object], apply=note, strict=strict)


def test_a_projection_folds_the_events_it_knows_and_passes_over_the_rest() -> None:
    assert project(seen(), recorded(SHIPPED, PAID_3, SHIPPED)) == [(2, Paid(7, "SEK"))]


def test_events_of_old_versions_are_led_up_to_those_of_today() -> None:
    folded = project(seen(), recorded(PAID_1, PAID_2, PAID_3))

    assert folded == [(1, Paid(400, "EUR")), (2, Paid(50, "EUR")), (3, Paid(7, "SEK"))]


def test_a_strict_projection_refuses_what_it_does_not_know() -> None:
    with pytest.raises(UnknownEvent, match=r"order/1, sequence 2: no type is registered for event 'order\.shipped'"):
        project(seen(strict=True), recorded(PAID_3, SHIPPED))


@pytest.mark.parametrize("newer", [stored("order.paid", 4, '{"minor":7}')])
def test_an_event_of_a_newer_version_is_unknown(newer: str) -> None:
    assert project(seen(), recorded(newer, PAID_3)) == [(2, Paid(7, "SEK"))]
    with pytest.raises(UnknownEvent):
        project(seen(strict=True), recorded(newer))


def test_an_old_event_that_nothing_leads_up_from_is_an_error_and_never_dropped() -> None:
    catalog = Catalog(Paid, upcasters=UPCASTERS[1:])

    with pytest.raises(UnknownEvent, match="version 1"):
        project(seen(catalog=catalog), recorded(PAID_1))


@pytest.mark.parametrize("data", ['{"cents":"7","currency":"SEK"}', "{}", "7", '{"cents":7,"currency":"SEK"'])
def test_an_event_that_does_not_fit_its_type_is_an_error_that_names_its_place(data: str) -> None:
    with pytest.raises(CorruptRecord, match=r"order/1, sequence 2 \(order\.paid\)"):
        project(seen(), recorded(PAID_3, stored("order.paid", 3, data)))


def test_a_fold_can_be_gone_on_with_from_a_state() -> None:
    events = recorded(PAID_1, PAID_2, PAID_3)
    projection = seen()

    for cut in range(4):
        assert project(projection, events[cut:], project(projection, events[:cut])) == project(projection, events)


def test_each_fold_begins_with_a_state_of_its_own() -> None:
    def note(state: list[int], event: Paid, _: RecordedEvent) -> list[int]:
        state.append(event.cents)
        return state

    catalog = Catalog(Paid, upcasters=UPCASTERS)
    total: Projection[list[int], Paid] = Projection(
        name="total", version=1, catalog=catalog, initial=list[int], apply=note
    )

    folds: Sequence[list[int]] = [project(total, recorded(PAID_3)) for _ in range(2)]

    assert folds == [[7], [7]]
