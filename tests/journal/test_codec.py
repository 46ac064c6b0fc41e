"""The canonical form: the same bytes for ever, and nothing that would come back different."""

from __future__ import annotations

import enum
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest

from clew.journal import (
    GENESIS,
    Catalog,
    CorruptRecord,
    MemoryJournal,
    RecordedEvent,
    chain,
    event,
)
from tests.journal.shapes import Noted, Point, Retry, Typed, Zoned


class Phase(enum.Enum):
    QUERY = "query"
    ANSWER = "answer"


class Denied(msgspec.Struct, frozen=True, tag="denied"):
    reason: str


@event("order.painted", version=3)
class Painted(msgspec.Struct, frozen=True):
    """Every kind of field that is kept."""

    text: str
    number: int
    part: float
    yes: bool
    nothing: None
    raw: msgspec.Raw
    bytes_: bytes
    names: list[str]
    pair: tuple[int, str]
    table: dict[str, list[int]]
    phase: Phase
    phases: dict[Phase, list[Phase | None]]
    answer: Retry | Denied | None
    when: datetime
    day: date
    price: Decimal
    id: UUID
    lasted: timedelta
    point: Point


CATALOG = Catalog(Painted, Noted, Zoned, Typed)

PAINTED = Painted(
    text='straße \n \\ " / 道 😀',
    number=2**70,
    part=0.1,
    yes=True,
    nothing=None,
    raw=msgspec.Raw(b'{ "as": [1, 2.50] }'),
    bytes_=b"\0\xff",
    names=["a", ""],
    pair=(1, "b"),
    table={"z": [1], "a": []},
    phase=Phase.QUERY,
    phases={Phase.ANSWER: [Phase.QUERY, None]},
    answer=Denied("no"),
    when=datetime(2026, 11, 1, 5, 30, 0, 123456, tzinfo=UTC),
    day=date(2026, 11, 1),
    price=Decimal("1.10"),
    id=UUID(int=5),
    lasted=timedelta(seconds=90),
    point=Point(7),
)

GOLDEN = (
    '{"event":"order.painted","version":3,"data":{"text":"straße \\n \\\\ \\" / 道 😀","number":1180591620717411303424,'
    '"part":0.1,"yes":true,"nothing":null,"raw":{ "as": [1, 2.50] },"bytes_":"AP8=","names":["a",""],"pair":[1,"b"],'
    '"table":{"z":[1],"a":[]},"phase":"query","phases":{"answer":["query",null]},'
    '"answer":{"type":"denied","reason":"no"},"when":"2026-11-01T05:30:00.123456Z","day":"2026-11-01","price":"1.10",'
    '"id":"00000000-0000-0000-0000-000000000005","lasted":"PT90S","point":[7]}}'
)


def recorded(canonical: bytes, *, sequence: int = 4) -> RecordedEvent:
    return RecordedEvent("order/1", sequence, 9, 1, "", GENESIS, canonical)


def test_the_canonical_form_is_these_bytes_for_ever() -> None:
    new, back = CATALOG.encode(PAINTED, cause="command-1")

    assert new.canonical.decode() == GOLDEN
    assert new.cause == "command-1"
    assert chain(GENESIS, b'{"event":"a.b","version":1,"data":{}}').hex() == "40be6fff609fcf86bb902b765fb582cb"
    for found in (back, CATALOG.decode(recorded(new.canonical))):
        assert isinstance(found, Painted)
        assert bytes(found.raw) == bytes(PAINTED.raw)
        assert msgspec.structs.replace(found, raw=PAINTED.raw) == PAINTED
        assert type(found.phase) is Phase
        assert type(next(iter(found.phases))) is Phase


def test_a_recorded_event_says_its_type_and_its_data_without_a_catalog() -> None:
    found = recorded(GOLDEN.encode())

    assert found.type == ("order.painted", 3)
    assert bytes(found.data) == GOLDEN.split(',"data":', 1)[1][:-1].encode()


@pytest.mark.scenario("SER-05")
def test_enums_nested_anywhere_come_back_as_enums() -> None:
    _, back = CATALOG.encode(PAINTED)

    assert back.phases == {Phase.ANSWER: [Phase.QUERY, None]}
    assert [type(phase) for phase in (*back.phases, *back.phases[Phase.ANSWER])] == [Phase, Phase, type(None)]


@pytest.mark.scenario("SER-12")
@pytest.mark.parametrize("answer", [Retry("x"), Denied("x"), None])
def test_a_member_of_a_union_comes_back_as_its_own_class(answer: Retry | Denied | None) -> None:
    _, back = CATALOG.encode(msgspec.structs.replace(PAINTED, answer=answer))

    assert (type(back.answer), back.answer) == (type(answer), answer)


@pytest.mark.scenario("SER-03")
@pytest.mark.parametrize("number", [0, 2**53 + 1, 2**63, 2**64 - 1, 19933688932870350000, -(2**63) - 1, 2**256 - 1])
def test_whole_numbers_of_any_size_come_back_exactly(number: int) -> None:
    for kept in (Noted({"n": [number]}), Typed(number=number)):
        new, back = CATALOG.encode(kept)
        assert back == kept
        assert CATALOG.decode(recorded(new.canonical)) == kept
    assert type(CATALOG.encode(Noted(number))[1].v) is int


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 11, 1, 1, 30),  # noqa: DTZ001  (one without a zone is the case)
        datetime(2026, 11, 1, 1, 30, tzinfo=UTC),
        datetime(2026, 11, 1, 1, 30, tzinfo=timezone(timedelta(hours=-5))),
    ],
)
def test_moments_without_a_zone_or_with_an_offset_come_back_with_it(moment: datetime) -> None:
    _, back = CATALOG.encode(Zoned(moment, time(1, 30)))

    assert back == Zoned(moment, time(1, 30))
    assert back.at is not None
    assert back.at.utcoffset() == moment.utcoffset()


def test_zero_keeps_its_sign_and_a_float_stays_a_float() -> None:
    _, back = CATALOG.encode(Noted([-0.0, 5.0, 5]))

    assert [math.copysign(1, number) for number in back.v] == [-1, 1, 1]
    assert [type(number) for number in back.v] == [float, float, int]


def test_what_is_encoded_is_what_it_was_when_it_was_encoded() -> None:
    names = ["a"]
    _, back = CATALOG.encode(Noted(names))

    names.append("b")

    assert back.v == ["a"]


@pytest.mark.parametrize(
    "canonical",
    [
        b'{"event":"order.typed","version":1,"data":{"number":"five"}}',
        b'{"event":"order.typed","version":1,"data":{"number":5}',
        b"not json",
        b"",
    ],
)
def test_stored_bytes_that_do_not_fit_their_event_are_corrupt(canonical: bytes) -> None:
    with pytest.raises(CorruptRecord, match="order/1, sequence 4"):
        CATALOG.decode(recorded(canonical))


def test_the_same_events_give_the_same_digest_however_they_are_appended() -> None:
    events = [CATALOG.encode(Noted(n))[0] for n in range(10)]
    heads: list[bytes] = []
    for size in (1, 3, 10):
        journal = MemoryJournal()
        for start in range(0, 10, size):
            journal.append("order/1", events[start : start + size], expected=start).wait()
        heads.append(journal.head("order/1").digest)

    assert [head.hex() for head in heads] == ["9c0636f5e25faab9849102d519f267f9"] * 3
