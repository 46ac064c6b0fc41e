"""Sealing with AES-GCM: opened with the right key in the right place, and otherwise not at all."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.actors.agent import Unreadable
from clew.adapters.encryption import AesGcmSeal

OLD, NEW = b"o" * 32, b"n" * 16

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)

NOTHING = dict[str, bytes]()

seal = AesGcmSeal({"old": OLD, "new": NEW}, current="new")


@pytest.mark.property
@given(st.dictionaries(st.text(), JSON, max_size=5), st.text(max_size=50))
def test_what_is_sealed_opens_in_its_place_as_what_it_was(arguments: dict[str, Any], place: str) -> None:
    assert seal.open(seal.close(arguments, place), place) == json.loads(json.dumps(arguments))


@pytest.mark.requirement("G-LEDGER-2")
def test_what_is_stored_names_the_key_and_says_nothing_of_the_arguments() -> None:
    one, other = (seal.close({"to": "DE-4711"}, "thread/t/r/approval:c1") for _ in range(2))

    assert msgspec.json.decode(one).keys() == {"sealed", "key", "nonce", "data"}
    assert (msgspec.json.decode(one)["sealed"], msgspec.json.decode(one)["key"]) == ("aes-gcm", "new")
    assert one != other
    for stored in (one, other):
        for readable in (bytes(stored), b64decode(msgspec.json.decode(stored)["data"])):
            assert b"4711" not in readable
            assert b"to" not in readable


def test_what_was_sealed_for_another_place_is_unreadable() -> None:
    stored = seal.close({"n": 1}, "thread/a/r/approval:c1")

    with pytest.raises(Unreadable, match="sealed for another call"):
        seal.open(stored, "thread/b/r/approval:c1")


def test_a_key_that_was_replaced_opens_what_it_sealed_as_long_as_it_is_there() -> None:
    before = AesGcmSeal({"old": OLD}, current="old")
    stored = before.close({"n": 1}, "p")
    gone = AesGcmSeal({"new": NEW}, current="new")

    assert seal.open(stored, "p") == {"n": 1}
    with pytest.raises(Unreadable, match="key 'old' of its arguments is gone"):
        gone.open(stored, "p")
    with pytest.raises(Unreadable, match="key 'new' of its arguments is gone"):
        before.open(seal.close({"n": 1}, "p"), "p")


def test_another_key_of_the_same_name_opens_nothing() -> None:
    stored = AesGcmSeal({"k": OLD}, current="k").close({"n": 1}, "p")

    with pytest.raises(Unreadable, match="were changed"):
        AesGcmSeal({"k": NEW}, current="k").open(stored, "p")


def test_keys_may_be_looked_up_one_by_one() -> None:
    keys = {"a": OLD}
    looked_up = AesGcmSeal(keys.get, current="a")
    stored = looked_up.close({"n": 1}, "p")

    assert looked_up.open(stored, "p") == {"n": 1}
    keys.clear()
    with pytest.raises(Unreadable, match="is gone"):
        looked_up.open(stored, "p")


@pytest.mark.parametrize(
    ("keys", "current", "says"),
    [
        (NOTHING, "k", "no key 'k'"),
        ({"k": b"x" * 32}, "other", "no key 'other'"),
        ({"k": b""}, "k", "'k' has 0 bytes"),
        ({"k": b"x" * 31}, "k", "'k' has 31 bytes"),
        ({"k": b"x" * 32, "old": b"short"}, "k", "'old' has 5 bytes"),
        (NOTHING.get, "k", "no key 'k'"),
        ({"k": b"x" * 15}.get, "k", "'k' has 15 bytes"),
    ],
)
def test_keys_that_cannot_be_used_are_refused_at_once(keys: Any, current: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        AesGcmSeal(keys, current=current)


@pytest.mark.parametrize("key", ["x" * 32, [1] * 32, 32])
def test_a_key_is_bytes(key: Any) -> None:
    with pytest.raises(TypeError, match="'k' is bytes"):
        AesGcmSeal({"k": key}, current="k")


def test_whatever_byte_of_it_is_changed_it_never_opens_as_something_else() -> None:
    stored = bytes(seal.close({"to": "bob"}, "p"))
    for at in range(len(stored)):
        for flip in (1, 0x20, 0x80):
            changed = stored[:at] + bytes([stored[at] ^ flip]) + stored[at + 1 :]
            try:
                opened = seal.open(msgspec.Raw(changed), "p")
            except Unreadable:
                continue
            # The last letter of Base64 may have bits that count for nothing.
            assert opened == {"to": "bob"}
            assert stored[at + 1 : at + 2] in (b"=", b'"')


@pytest.mark.parametrize(
    "change",
    [
        {"sealed": "rot13"},
        {"nonce": ""},
        {"nonce": b64encode(b"1234567").decode()},
        {"nonce": b64encode(b"n" * 200).decode()},
        {"data": ""},
        {"data": "not base64!"},
        {"data": b64encode(b"short").decode()},
        {"key": 3},
        {"key": None},
    ],
)
def test_what_only_looks_sealed_is_unreadable(change: dict[str, Any]) -> None:
    stored = {**msgspec.json.decode(seal.close({"n": 1}, "p")), **change}

    with pytest.raises(Unreadable):
        seal.open(msgspec.Raw(json.dumps(stored).encode()), "p")


@pytest.mark.parametrize("stored", [b"null", b'{"to":"bob"}', b"[]", b"3", b"", b"{"])
def test_what_is_not_sealed_is_refused_rather_than_believed(stored: bytes) -> None:
    with pytest.raises(Unreadable, match="not sealed"):
        seal.open(msgspec.Raw(stored), "p")
