"""Names, types and errors: what the rest is told in."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import msgspec
import pytest

from clew.journal import (
    GENESIS,
    STREAM_BYTES_MAX,
    AppendUnknown,
    ClewError,
    CorruptRecord,
    InvalidName,
    JournalError,
    JournalLocked,
    RecordedEvent,
    WrongExpectedSequence,
    category_of,
    check_stream,
    errors,
    event,
    event_type,
    stream_name,
)


@pytest.mark.parametrize("name", ["refunded", "Order.refunded", "order.", "order refunded", "order.1x", "", "order.ä"])
def test_an_event_is_named_dotted_and_in_lower_case(name: str) -> None:
    with pytest.raises(InvalidName, match="dotted and in lower case"):
        event(name, version=1)


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_is_a_whole_number_from_one(version: int) -> None:
    with pytest.raises(TypeError, match="the version is a whole number from 1"):
        event("order.refunded", version=version)


def test_an_event_keeps_the_name_it_was_given_whatever_its_class_is_called() -> None:
    @event("order.refunded_again", version=7)
    class Whatever(msgspec.Struct, frozen=True):
        cents: int

    assert event_type(Whatever) == ("order.refunded_again", 7)


def test_only_a_frozen_struct_can_be_an_event() -> None:
    class Mutable(msgspec.Struct):
        cents: int

    class Tagged(msgspec.Struct, frozen=True, tag="x"):
        cents: int

    class Listed(msgspec.Struct, frozen=True, array_like=True):
        cents: int

    for wrong in (Mutable, Tagged, Listed):
        with pytest.raises(TypeError, match=f"{wrong.__name__} must"):
            event("order.refunded", version=1)(wrong)
    with pytest.raises(TypeError, match="int must be a msgspec"):
        event("order.refunded", version=1)(int)  # pyright: ignore[reportArgumentType]  (that it is refused is the case)


def test_a_name_is_not_inherited() -> None:
    @event("order.refunded", version=1)
    class Refunded(msgspec.Struct, frozen=True):
        cents: int

    class Special(Refunded, frozen=True):
        reason: str

    with pytest.raises(TypeError, match="Special is not an event"):
        event_type(Special)


@pytest.mark.scenario("JRN-10")
@pytest.mark.parametrize("size", [1, 511, 512, STREAM_BYTES_MAX - len("order/")])
def test_an_id_may_be_as_long_as_the_cap_in_bytes(size: int) -> None:
    for id_ in ("a" * size, "é" * (size // 2) or "a"):
        name = stream_name("order", id_)
        assert check_stream(name) == f"order/{id_}"
        assert category_of(name) == "order"


@pytest.mark.scenario("JRN-10")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("order/" + "é" * (STREAM_BYTES_MAX // 2), "are the most"),
        ("order", "'category/id'"),
        ("order/", "'category/id'"),
        ("Order/1", "lower case"),
        ("/1", "lower case"),
        ("a" * 65 + "/1", "at most 64"),
        ("order/\x00", "printable"),
        ("order/a\nb", "printable"),
        ("order/\u202e", "printable"),
        ("order/\ud800", "surrogate"),
    ],
)
def test_a_name_outside_the_grammar_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(InvalidName, match=reason) as caught:
        check_stream(name)

    # An error can be printed and sent, whatever is in the name.
    assert str(caught.value).encode()
    assert len(str(caught.value)) < 250


def test_a_recorded_event_without_a_name_is_corrupt() -> None:
    for canonical in (b"", b"{}", b'{"event":5,"version":1,"data":{}}', b'{"event":"a.b","version":"x","data":{}}'):
        with pytest.raises(CorruptRecord, match="order/1, sequence 2"):
            _ = RecordedEvent("order/1", 2, 2, 1, "", GENESIS, canonical).type


ERRORS = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, ClewError) and error not in (ClewError, JournalError)
]
SAMPLES: dict[str, Any] = {"int": 7, "str": "order/1", "bytes": b"key\xff", "tuple[str, ...]": ("order/1", "order/2")}


def sample(error: type[ClewError]) -> ClewError:
    parameters = list(inspect.signature(error).parameters.values())
    return error(**{parameter.name: SAMPLES[parameter.annotation] for parameter in parameters})


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_survives_pickling_and_copying_with_its_facts(error: type[ClewError]) -> None:
    original = sample(error)

    for found in (pickle.loads(pickle.dumps(original)), copy.copy(original), copy.deepcopy(original)):  # noqa: S301
        assert type(found) is error
        assert str(found) == str(original)
        assert found.args == original.args
        assert vars(found) == vars(original)
        assert vars(found)


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_says_what_happened_to_what_and_what_to_do(error: type[ClewError]) -> None:
    text = str(sample(error))

    # A fact, its subject, and (but for a name, whose reason says it) a sentence about what to do.
    assert text.endswith(".")
    assert any(str(value)[:5] in text for value in SAMPLES.values())
    assert text.count(".") > 1 or error is InvalidName


def test_every_error_of_the_module_is_exported_and_drawn_in_its_tree() -> None:
    names = {error.__name__ for error in ERRORS}

    assert names <= set(errors.__all__)
    assert errors.__doc__ is not None
    assert all(f"─ {name} " in errors.__doc__ for name in names)


def test_a_wrong_expectation_says_from_where_to_read() -> None:
    behind = WrongExpectedSequence(stream="order/1042", expected=7, actual=9)
    ahead = WrongExpectedSequence(stream="order/1042", expected=9, actual=7)

    assert "expected sequence 7, found 9" in str(behind)
    assert "read after 7 and decide again" in str(behind)
    assert "read after 7 and decide again" in str(ahead)


def test_an_unknown_end_names_some_of_many_streams() -> None:
    assert "a/1, a/2, a/3 and others" in str(AppendUnknown(streams=("a/1", "a/2", "a/3", "a/4"), reason="x"))
    assert "An append to cells failed" in str(AppendUnknown(streams=(), reason="x"))


def test_a_locked_journal_says_whether_it_is_this_process_that_holds_it() -> None:
    other = JournalLocked(path="x", pid=1, program="worker.py")

    assert "process 1 (worker.py) is writing to this journal" in str(other)
